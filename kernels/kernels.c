/* kernels/kernels.c - chooses the level and fills the table of kernels; sizes of stores and
 * rows.
 *
 * kern_init() first writes the scalar definition of every kernel into the table; then
 * kern_level_fill() (levels_*.c, one file for each architecture) overwrites those that the level
 * has better ones for. So no pointer is ever NULL, and a kernel without a vector body still works.
 * The lists of kernels are expansions of kernels.inc.
 */
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kernels_impl.h"

static const char *const ISA_NAME[KERN_N_ISA] = {
    "scalar", "avx2", "avxvnni", "avx512", "amx", "neon", "dotprod", "i8mm"};
static const char *const KV_NAME[KERN_N_KV] = {
    [KERN_KV_F16] = "f16", [KERN_KV_BF16] = "bf16", [KERN_KV_Q8_0] = "q8_0",
    [KERN_KV_Q4_0] = "q4_0", [KERN_KV_F32] = "f32"};

#ifdef QUIRE_DEBUG
/* The level of this CPU. In debug builds QUIRE_DEBUG_ISA lowers it, to test what a lesser CPU
 * does. */
enum kern_isa kern_isa_of_cpu(void)
{
    const char *name = getenv("QUIRE_DEBUG_ISA");
    const int most = name != NULL ? kern_isa_parse(name) : -1;
    const enum kern_isa isa = kern_level_of_cpu();

    return most >= 0 && most < (int)isa ? (enum kern_isa)most : isa;
}
#else
enum kern_isa kern_isa_of_cpu(void)
{
    return kern_level_of_cpu();
}
#endif

static enum kern_isa built_below(enum kern_isa isa)
{
    while (!KERN_IS_BUILT(isa))
        isa--;
    return isa;
}

enum kern_isa kern_isa_best(void)
{
    return built_below(kern_isa_of_cpu());
}

bool kern_isa_exists(enum kern_isa isa)
{
    return KERN_IS_BUILT(isa) && kern_level_exists(isa, kern_isa_best());
}

int kern_isa_parse(const char *name)
{
    for (int i = 0; i < KERN_N_ISA; i++)
        if (strcmp(name, ISA_NAME[i]) == 0)
            return i;
    return -1;
}

const char *kern_isa_name(enum kern_isa isa)
{
    return ISA_NAME[isa];
}

static void fill_scalar(struct kern_table *t)
{
#define KERN_FILL(member, body) t->member = kern_##body##_scalar;
#include "kernels/kernels.inc"
}

void kern_init(struct kern_table *t, enum kern_isa isa)
{
    const enum kern_isa best = kern_isa_best();

    fill_scalar(t);
    kern_level_fill(t, kern_isa_exists(isa) ? isa : built_below(isa < best ? isa : best));
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

/* Bytes of a number in a store without codes. */
static size_t kv_number_bytes(enum kern_kv kv)
{
    return kv == KERN_KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

size_t kern_kv_key_bytes(enum kern_kv kv, uint32_t key_dim)
{
    if (kv_has_codes(kv))
        return (size_t)key_dim / KERN_GROUP * KERN_Q8_0_GROUP;
    return (size_t)key_dim * KERN_BLOCK * kv_number_bytes(kv);
}

size_t kern_kv_value_bytes(enum kern_kv kv, uint32_t value_dim)
{
    if (kv == KERN_KV_Q8_0)
        return KERN_KV_Q8_CODES + (size_t)value_dim * KERN_BLOCK;
    if (kv == KERN_KV_Q4_0)
        return (size_t)value_dim / KERN_GROUP * (KERN_KV_Q4_SCALES + KERN_KV_Q4_CODES);
    return (size_t)value_dim * KERN_BLOCK * kv_number_bytes(kv);
}

size_t kern_state_floats(size_t n_row, size_t n_column)
{
    return (n_column + KERN_LANES - 1) / KERN_LANES * KERN_LANES * n_row;
}

size_t kern_attn_scratch(uint32_t n_row, uint32_t n_head, uint32_t key_dim, uint32_t value_dim)
{
    /* A tile's scores of a segment and its output; for every query its state and its numbers. */
    const size_t tile = KERN_SEGMENT + (((size_t)value_dim + 15) & ~(size_t)15);

    return sizeof(float) *
           (KERN_ATTN_TILE * tile + (size_t)n_row * n_head * (2 + (size_t)key_dim));
}
