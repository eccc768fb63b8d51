/* kernels/levels_aarch64.c - the levels of aarch64: chooses the best one and fills the table with
 * its kernels.
 *
 * NEON is on every CPU; the kernel's auxiliary vector (getauxval) tells whether this one has dot
 * products and matrix products too. Levels are cumulative: each one overwrites only the products
 * and the attention that its instructions make faster.
 */
#include <sys/auxv.h>

#include "kernels/kernels_impl.h"

#ifndef HWCAP2_I8MM /* since Linux 5.10 */
#define HWCAP2_I8MM (1 << 13)
#endif

enum kern_isa kern_level_of_cpu(void)
{
    if (!(getauxval(AT_HWCAP) & HWCAP_ASIMDDP))
        return KERN_ISA_NEON;
    return getauxval(AT_HWCAP2) & HWCAP2_I8MM ? KERN_ISA_I8MM : KERN_ISA_DOTPROD;
}

bool kern_level_exists(enum kern_isa isa, enum kern_isa best)
{
    return isa <= best;
}

static void fill_neon(struct kern_table *t)
{
#define KERN_FILL(member, body) t->member = kern_##body##_neon;
#include "kernels/kernels.inc"
}

static void fill_dotprod(struct kern_table *t)
{
#define KERN_GEMM(weight, name)
#define KERN_GEMM_Q(weight, name) t->gemm[weight] = kern_gemm_##name##_dotprod;
#define KERN_OP(member, result, params)
#include "kernels/kernels.inc"
    t->attn[KERN_KV_Q8_0] = kern_attn_q8_0_dotprod;
    t->attn[KERN_KV_Q4_0] = kern_attn_q4_0_dotprod;
}

static void fill_i8mm(struct kern_table *t)
{
#define KERN_GEMM(weight, name)
#define KERN_GEMM_Q(weight, name) t->gemm[weight] = kern_gemm_##name##_i8mm;
#define KERN_OP(member, result, params)
#include "kernels/kernels.inc"
}

void kern_level_fill(struct kern_table *t, enum kern_isa isa)
{
    if (isa >= KERN_ISA_NEON)
        fill_neon(t);
    if (isa >= KERN_ISA_DOTPROD)
        fill_dotprod(t);
    if (isa >= KERN_ISA_I8MM)
        fill_i8mm(t);
}
