/* kernels/kernels.c - what the CPU allows, and the table that follows from it. */
#include "kernels/kernels.h"

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/kernels_impl.h"

#define ARCH_REQ_XCOMP_PERM 0x1023 /* asm/prctl.h, since Linux 5.16 */
#define XSTATE_TILE_DATA 18

/* A build for one CPU (the Makefile's NATIVE) has the level KERN_NATIVE and what that builds upon:
 * AVX-512 has all kernels of its own, AVX-VNNI the products. Constant where `isa` is, so that no
 * other level's kernels are linked. */
#ifdef KERN_NATIVE
#define IS_BUILT(isa)                                                                              \
    ((isa) == KERN_NATIVE || (isa) == KERN_ISA_SCALAR ||                                           \
     ((isa) == KERN_ISA_AVX2 && KERN_NATIVE == KERN_ISA_AVXVNNI))
#else
#define IS_BUILT(isa) true
#endif

static const char *const ISA_NAME[] = {"scalar", "avx2", "avxvnni", "avx512", "amx"};
static const char *const KV_NAME[KERN_N_KV] = {
    [KERN_KV_F16] = "f16", [KERN_KV_BF16] = "bf16", [KERN_KV_Q8_0] = "q8_0",
    [KERN_KV_Q4_0] = "q4_0"};

/* The states that the OS saves at a thread switch; 0 when it does not use XSAVE. */
static uint32_t saved_states(void)
{
    uint32_t a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

/* CPUID 7.1 EAX bit 4; the state that it needs is AVX2's. */
static bool has_avx_vnni(void)
{
    uint32_t a, b, c, d;

    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

static enum kern_isa cpu_isa(void)
{
    const uint32_t ymm = 0x6;  /* XCR0: xmm and upper halves of ymm */
    const uint32_t zmm = 0xe6; /* and mask registers, upper halves of zmm0-15, zmm16-31 */
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

#ifdef QUIRE_DEBUG
/* For tests of what a lesser CPU does: QUIRE_DEBUG_ISA names the highest level that exists. */
enum kern_isa kern_isa_of_cpu(void)
{
    const char *name = getenv("QUIRE_DEBUG_ISA");
    const int most = name != NULL ? kern_isa_parse(name) : -1;
    const enum kern_isa isa = cpu_isa();

    return most >= 0 && most < (int)isa ? (enum kern_isa)most : isa;
}
#else
enum kern_isa kern_isa_of_cpu(void)
{
    return cpu_isa();
}
#endif

static enum kern_isa built_below(enum kern_isa isa)
{
    while (!IS_BUILT(isa))
        isa--;
    return isa;
}

enum kern_isa kern_isa_best(void)
{
    return built_below(kern_isa_of_cpu());
}

/* CPUID 7 EDX: tiles, and products of bytes. XCR0: their configuration and their data, which the
 * kernel makes room for when it is asked to. */
static bool may_use_amx(void)
{
    const uint32_t need_7d = 1u << 24 | 1u << 25, states = 1u << 17 | 1u << 18;
    uint32_t a, b, c, d;

    return (saved_states() & states) == states && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d & need_7d) == need_7d &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XSTATE_TILE_DATA) == 0;
}

bool kern_isa_exists(enum kern_isa isa)
{
    if (isa == KERN_ISA_AMX)
        return IS_BUILT(isa) && kern_isa_best() == KERN_ISA_AVX512 && may_use_amx();
    return isa <= kern_isa_best() && IS_BUILT(isa);
}

int kern_isa_parse(const char *name)
{
    for (int i = 0; i <= KERN_ISA_AMX; i++)
        if (strcmp(name, ISA_NAME[i]) == 0)
            return i;
    return -1;
}

const char *kern_isa_name(enum kern_isa isa)
{
    return ISA_NAME[isa];
}

/* The same body in the encoding that the CPU knows: at this level it has one or the other. */
static void fill_vnni_256(struct kern_table *t)
{
    const bool vex = has_avx_vnni();

#define KERN_GEMM(weight, name)
#define KERN_GEMM_Q(weight, name)                                                                  \
    t->gemm[weight] = vex ? kern_gemm_##name##_avxvnni : kern_gemm_##name##_avx512vl;
#define KERN_OP(member, result, params)
#include "kernels/kernels.inc"
}

static void fill_scalar(struct kern_table *t)
{
#define KERN_FILL(member, body) t->member = kern_##body##_scalar;
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

void kern_init(struct kern_table *t, enum kern_isa isa)
{
    const enum kern_isa best = kern_isa_best();
    const enum kern_isa most = built_below(isa < best ? isa : best);

    fill_scalar(t);
    if (IS_BUILT(KERN_ISA_AVX2) && most >= KERN_ISA_AVX2)
        fill_avx2(t);
    if (IS_BUILT(KERN_ISA_AVXVNNI) && most >= KERN_ISA_AVXVNNI)
        fill_vnni_256(t);
    if (IS_BUILT(KERN_ISA_AVX512) && most >= KERN_ISA_AVX512)
        fill_avx512(t);
    if (isa == KERN_ISA_AMX && kern_isa_exists(isa))
        kern_fill_amx(t);
}

size_t kern_qrow_bytes(size_t k)
{
    const size_t raw = k + k / KERN_GROUP * sizeof(float) + k / 16 * sizeof(int32_t);

    return (raw + 63) & ~(size_t)63;
}

const char *kern_kv_name(enum kern_kv kv)
{
    return KV_NAME[kv];
}

static bool kv_has_codes(enum kern_kv kv)
{
    return kv == KERN_KV_Q8_0 || kv == KERN_KV_Q4_0;
}

uint32_t kern_kv_group(enum kern_kv kv)
{
    return kv_has_codes(kv) ? KERN_GROUP : 1;
}

size_t kern_kv_key_bytes(enum kern_kv kv, uint32_t key_dim)
{
    if (kv_has_codes(kv))
        return (size_t)key_dim / KERN_GROUP * KERN_Q8_0_GROUP;
    return (size_t)key_dim * KERN_BLOCK * sizeof(uint16_t);
}

size_t kern_kv_value_bytes(enum kern_kv kv, uint32_t value_dim)
{
    if (kv == KERN_KV_Q8_0)
        return KERN_KV_Q8_CODES + (size_t)value_dim * KERN_BLOCK;
    if (kv == KERN_KV_Q4_0)
        return (size_t)value_dim / KERN_GROUP * (KERN_KV_Q4_SCALES + KERN_KV_Q4_CODES);
    return (size_t)value_dim * KERN_BLOCK * sizeof(uint16_t);
}

size_t kern_state_floats(size_t n_row, size_t n_column)
{
    return (n_column + KERN_LANES - 1) / KERN_LANES * KERN_LANES * n_row;
}

size_t kern_attn_scratch(uint32_t n_row, uint32_t n_head, uint32_t key_dim, uint32_t value_dim)
{
    /* Scores of a segment and its output, for a tile; of every query its state and its numbers. */
    const size_t tile = KERN_SEGMENT + (((size_t)value_dim + 15) & ~(size_t)15);

    return sizeof(float) *
           (KERN_ATTN_TILE * tile + (size_t)n_row * n_head * (2 + (size_t)key_dim));
}
