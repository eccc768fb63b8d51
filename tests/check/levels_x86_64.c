/* tests/check/levels_x86_64.c - see levels.h. Where there is AVX-512, AMX is checked too: with its
 * instructions carried out by a model, unless the CPU has them. */
#include "tests/check/levels.h"

#include "kernels/kernels_impl.h"
#include "tests/check/amx.h"

enum kern_isa levels_highest(void)
{
    const enum kern_isa best = kern_isa_best();

    return best == KERN_ISA_AVX512 ? KERN_ISA_AMX : best;
}

bool levels_has(enum kern_isa isa)
{
    return isa <= levels_highest();
}

/* All but the products with quantised weights are AVX2's own at the level of AVX-VNNI, and all but
 * some of these AVX-512's at the level of AMX. */
enum kern_isa levels_base(enum kern_isa isa)
{
    if (isa == KERN_ISA_AVXVNNI)
        return KERN_ISA_AVX2;
    return isa == KERN_ISA_AMX ? KERN_ISA_AVX512 : isa;
}

void levels_fill(struct kern_table *t, enum kern_isa isa)
{
    kern_init(t, isa);
    if (isa == KERN_ISA_AMX && !kern_isa_exists(isa))
        kern_fill_amx(t);
}

void levels_prepare(void)
{
    if (levels_highest() == KERN_ISA_AMX && !kern_isa_exists(KERN_ISA_AMX))
        amx_model_install();
}
