/* kernels/levels_x86_64.c - the levels of x86-64: chooses the best one and fills the table with its
 * kernels.
 *
 * CPUID tells which instructions the CPU has and XCR0 which registers the system saves at a thread
 * switch; a level needs both. Levels are cumulative, each overwriting what it has kernels of its
 * own for. AMX is never chosen by itself and needs a permission from Linux (arch_prctl).
 */
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/kernels_impl.h"

#define ARCH_REQ_XCOMP_PERM 0x1023 /* asm/prctl.h, since Linux 5.16 */
#define XSTATE_TILE_DATA 18

/* Return the states that the OS saves at a thread switch; 0 when it does not use XSAVE. */
static uint32_t saved_states(void)
{
    uint32_t a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

/* AVX-VNNI is CPUID 7.1 EAX bit 4; it needs only AVX2's registers to be saved. */
static bool has_avx_vnni(void)
{
    uint32_t a, b, c, d;

    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

enum kern_isa kern_level_of_cpu(void)
{
    const uint32_t ymm = 0x6;  /* XCR0: xmm and upper halves of ymm */
    const uint32_t zmm = 0xe6; /* also mask registers, upper halves of zmm0-15, zmm16-31 */
    const uint32_t need_1c = bit_FMA | bit_AVX | bit_F16C;
    const uint32_t need_7b = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    const uint32_t states = saved_states();
    uint32_t a, b, c, d;

    if ((states & ymm) != ymm || !__get_cpuid(1, &a, &b, &c, &d) || (c & need_1c) != need_1c)
        return KERN_ISA_SCALAR;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
        return KERN_ISA_SCALAR;
    if ((states & zmm) != zmm || (b & need_7b) != need_7b || !(c & bit_AVX512VNNI))
        return has_avx_vnni() ? KERN_ISA_AVXVNNI : KERN_ISA_AVX2;
    return KERN_ISA_AVX512;
}

/* True: this process may use AMX. CPUID 7 EDX: tiles, and products of bytes. XCR0: their
 * configuration and their data, for which Linux makes room when asked. */
static bool may_use_amx(void)
{
    const uint32_t need_7d = 1u << 24 | 1u << 25, states = 1u << 17 | 1u << 18;
    uint32_t a, b, c, d;

    return (saved_states() & states) == states && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d & need_7d) == need_7d &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XSTATE_TILE_DATA) == 0;
}

bool kern_level_exists(enum kern_isa isa, enum kern_isa best)
{
    return isa == KERN_ISA_AMX ? best == KERN_ISA_AVX512 && may_use_amx() : isa <= best;
}

/* Fill in the AVX-VNNI products, in the encoding that the CPU has: AVX-VNNI's or AVX-512VL's. */
static void fill_vnni_256(struct kern_table *t)
{
    const bool vex = has_avx_vnni();

#define KERN_GEMM(weight, name)
#define KERN_GEMM_Q(weight, name)                                                                  \
    t->gemm[weight] = vex ? kern_gemm_##name##_avxvnni : kern_gemm_##name##_avx512vl;
#define KERN_OP(member, result, params)
#include "kernels/kernels.inc"
}

static void fill_avx2(struct kern_table *t)
{
#define KERN_FILL(member, body) t->member = kern_##body##_avx2;
#include "kernels/kernels.inc"
}

static void fill_avx512(struct kern_table *t)
{
#define KERN_FILL(member, body) t->member = kern_##body##_avx512;
#include "kernels/kernels.inc"
}

#ifndef KERN_NATIVE
void kern_fill_amx(struct kern_table *t)
{
#define KERN_GEMM(weight, name)
#define KERN_GEMM_AMX(weight, name) t->gemm[weight] = kern_gemm_##name##_amx;
#define KERN_OP(member, result, params)
#include "kernels/kernels.inc"
}
#endif

void kern_level_fill(struct kern_table *t, enum kern_isa isa)
{
    if (KERN_IS_BUILT(KERN_ISA_AVX2) && isa >= KERN_ISA_AVX2)
        fill_avx2(t);
    if (KERN_IS_BUILT(KERN_ISA_AVXVNNI) && isa >= KERN_ISA_AVXVNNI)
        fill_vnni_256(t);
    if (KERN_IS_BUILT(KERN_ISA_AVX512) && isa >= KERN_ISA_AVX512)
        fill_avx512(t);
    if (KERN_IS_BUILT(KERN_ISA_AMX) && isa == KERN_ISA_AMX)
        kern_fill_amx(t);
}
