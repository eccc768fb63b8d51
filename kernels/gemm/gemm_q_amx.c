/* kernels/gemm/gemm_q_amx.c - products with quantised weights on AMX (amx-tile, amx-int8).
 *
 * tdpbssd adds to a tile of 16 rows by 16 lanes of int32 the products of up to 64 signed bytes of
 * each row by as many of each lane. A group of 32 columns has a scale of its own, so a tile takes
 * one group (of types with two scales, a half): half of what the unit could do at a time, but each
 * group's sums come out separately and exact, and are finished as on the other levels: each output
 * is one chain of FMAs over the groups. The sums of a group go through memory.
 *
 * Counted for Sapphire Rapids, in cycles of a group of 16 rows and one panel (Q8_0; two vector
 * operations, two loads and a store of 64 bytes a cycle; tdpbssd takes 16 whatever its depth):
 *
 *              products        convert, scale, add   offsets   loads   stores   the longest
 *   avx512      64              24                    0         84      0        88
 *   amx         16 (own unit)   24                    4         32      24       32
 *
 * So storing and loading the sums takes longest, and at best a product takes 0.36 of AVX-512's
 * time. That has not been measured, for lack of such a machine. Therefore AMX is used only where it
 * is asked for (`isa = amx`), and its check runs the instructions in a model of them
 * (tests/check/amx.h).
 *
 * Products of few rows are left to AVX-512, because a tile's loads and stores do not become fewer
 * with its rows. So are types that few files use.
 */
#include "kernels/gemm/vnni_512.inc"

#define NAME(op) kern_##op##_amx
#define ROWS 16
#define IN_REGISTERS 16
#define BLOCK(type) ROWS
#include "kernels/gemm/gemm_q_vnni_body.inc"

#define LEAST_ROWS 8 /* least rows of a product on AMX; with fewer, AVX-512 is used */
#define WHOLE 32     /* columns of a group, and of a half */
#define HALF 16

/* Operands of ldtilecfg: palette 1 has 8 tiles of 16 rows of 64 bytes at most. */
struct tile_config {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "what ldtilecfg reads");

/* The numbers of the tiles. Integer sums [rows][16 lanes], activations [rows][columns] and weights
 * [quads][16 lanes][4], each for a group or its first half, and for the second half. */
#define SUMS 0
#define SUMS_2 1
#define X 2
#define X_2 3
#define W 4
#define W_2 5

#define TEXT(n) #n
#define TILE_LOAD(n, at, stride)                                                                   \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" TEXT(n)                                          \
                     :                                                                             \
                     : "r"(at), "r"((size_t)(stride))                                              \
                     : "memory")
#define TILE_STORE(n, at, stride)                                                                  \
    __asm__ volatile("tilestored %%tmm" TEXT(n) ", (%0,%1,1)"                                      \
                     :                                                                             \
                     : "r"(at), "r"((size_t)(stride))                                              \
                     : "memory")
#define TILE_ZERO(n) __asm__ volatile("tilezero %%tmm" TEXT(n) : :)
#define TILE_DOT(sums, x, w)                                                                       \
    __asm__ volatile("tdpbssd %%tmm" TEXT(w) ", %%tmm" TEXT(x) ", %%tmm" TEXT(sums) : :)

static void configure(const size_t columns, size_t rows)
{
    struct tile_config c = {.palette = 1};

    for (size_t i = 0; i < 2; i++) {
        c.row_bytes[SUMS + i] = 64;
        c.n_rows[SUMS + i] = (uint8_t)rows;
        c.row_bytes[X + i] = (uint16_t)columns;
        c.n_rows[X + i] = (uint8_t)rows;
        c.row_bytes[W + i] = 64;
        c.n_rows[W + i] = (uint8_t)(columns / 4);
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(c));
}

/* A group that is being computed: its integer sums (one set for each half), and what finishes
 * them. */
struct amx_group {
    alignas(64) int32_t sums[2][ROWS][KERN_LANES];
    alignas(64) uint8_t quads[8][64];
    struct numbers n;
};

/* Begin a group: unpack all codes as signed bytes, then start their products with the rows' codes
 * at x. */
GEMM_INLINE void begin_group(const enum kern_weight type, struct amx_group *to, const uint8_t *w,
                             const size_t g, const uint8_t *x)
{
    const struct vnni_type *const of = &VNNI_TYPE[type];
    const uint8_t *codes = w + of->codes + g * of->code_bytes;
    const vi offset = vi_bytes(of->offset);

    to->n = numbers_of(type, NULL, w, g, 0);
    GEMM_UNROLL
    for (size_t j = 0; j < 8; j++)
        _mm512_store_si512(to->quads[j],
                           _mm512_sub_epi8(quad_of(type, codes, &to->n, j), offset));
    TILE_ZERO(SUMS);
    TILE_LOAD(X, x, 32);
    TILE_LOAD(W, to->quads, 64);
    TILE_DOT(SUMS, X, W);
    TILE_STORE(SUMS, to->sums[0], 64);
    if (of->finish == VNNI_HALVES) {
        TILE_ZERO(SUMS_2);
        TILE_LOAD(X_2, x + HALF, 32);
        TILE_LOAD(W_2, to->quads[4], 64);
        TILE_DOT(SUMS_2, X_2, W_2);
        TILE_STORE(SUMS_2, to->sums[1], 64);
    }
}

GEMM_INLINE vf sums_of(const struct amx_group *g, const size_t half, const size_t r)
{
    return vf_of(_mm512_load_si512(g->sums[half][r]));
}

/* Finish a row of a group as add_rows() does; `number` and `other` point at what
 * vnni_pack_numbers() made. */
GEMM_INLINE vf finished(const enum kern_weight type, const struct amx_group *g, const size_t r,
                        vf scale, const uint8_t *number, const uint8_t *other, vf sum)
{
    const enum vnni_finish finish = VNNI_TYPE[type].finish;

    if (finish == VNNI_HALVES)
        return vf_fma(vf_fma(sums_of(g, 0, r), g->n.scale[0],
                             vf_mul(sums_of(g, 1, r), g->n.scale[1])),
                      scale, sum);
    sum = vf_fma(sums_of(g, 0, r), vf_mul(g->n.scale[0], scale), sum);
    if (finish == VNNI_MINIMUM || finish == VNNI_MINIMA)
        sum = vf_fma(g->n.minimum[0], vf_all(number), sum);
    if (finish == VNNI_MINIMA)
        sum = vf_fma(g->n.minimum[1], vf_all(other), sum);
    return sum;
}

/* s += a group of the first n rows; at `extra` the first one's scale, `room` bytes from a row's to
 * the next one's, and the other numbers in further arrays. */
GEMM_INLINE void finish_group(const enum kern_weight type, vf *s, const struct amx_group *g,
                              const uint8_t *extra, size_t room, size_t n)
{
    const size_t array = room * n;

    GEMM_UNROLL
    for (size_t r = 0; r < ROWS; r++)
        if (r < n)
            s[r] = finished(type, g, r, vf_all(extra + r * room), extra + array + r * room,
                            extra + 2 * array + r * room, s[r]);
}

/* Multiply n rows by a panel. A group's products are begun before those of the group before it are
 * finished, because the tile unit takes a while. */
GEMM_INLINE void tile_panel(const enum kern_weight type, const struct cut_tile *t,
                            struct cut_ahead *ahead, const uint8_t *w, float *out, size_t n)
{
    const struct vnni_type *const of = &VNNI_TYPE[type];
    const size_t n_groups = t->cols / 32, in_block = of->block_groups;
    const size_t room = 4 * VNNI_ROOM(n);
    const uint8_t *extra = t->x + vnni_extra(n, 0);
    struct amx_group groups[2];
    vf s[ROWS];

    GEMM_UNROLL
    for (size_t r = 0; r < ROWS; r++)
        s[r] = t->first || r >= n ? vf_zero() : vf_load(out + r * t->out_stride);
    for (size_t i = 0; i <= n_groups; i++) {
        if (i < n_groups) {
            cut_fetch(ahead, ROWS);
            begin_group(type, &groups[i % 2], w + i / in_block * of->block_bytes, i % in_block,
                        t->x + 32 * n * i);
        }
        if (i > 0)
            finish_group(type, s, &groups[(i - 1) % 2], extra + 4 * (i - 1), room, n);
    }
    GEMM_UNROLL
    for (size_t r = 0; r < ROWS; r++)
        if (r < n)
            vf_store(out + r * t->out_stride, s[r]);
}

GEMM_INLINE void run_amx(const enum kern_weight type, const struct cut_tile *t, size_t n)
{
    struct cut_ahead ahead = t->ahead;

    configure(VNNI_TYPE[type].finish == VNNI_HALVES ? HALF : WHOLE, n);
    for (size_t p = 0; p < t->n_panels; p++)
        tile_panel(type, t, &ahead, t->w + p * t->panel_bytes, t->out + 16 * p, n);
    __asm__ volatile("tilerelease"); /* otherwise every context switch would save 8 KiB */
}

/* One body serves any number of rows; gemm_cut.h calls tiles by their number of rows, so each
 * number has a name. */
#define AMX_RUN(name, t, n) name##_any(t, n)
#define AMX_KIND(type, name)                                                                       \
    static __attribute__((noinline)) void name##_any(const struct cut_tile *t, size_t n)           \
    {                                                                                              \
        run_amx(type, t, n);                                                                       \
    }                                                                                              \
    CUT_TILES_16(AMX_RUN, name, name)                                                              \
    void NAME(gemm_##name) KERN_GEMM_PARAMS                                                        \
    {                                                                                              \
        static void (*const tile[])(const struct cut_tile *t) = {CUT_NAMES_16(name)};              \
        static const struct cut_kind kind = {.weight = type,                                       \
                                             .group = 32,                                          \
                                             .max_tile = ROWS,                                     \
                                             .low_tile = ROWS,                                     \
                                             .room = vnni_room,                                    \
                                             .pack = vnni_pack,                                    \
                                             .tile = tile};                                        \
                                                                                                   \
        if (m < LEAST_ROWS)                                                                        \
            kern_gemm_##name##_avx512(out, out_stride, x, x_stride, m, panels, n_panels, k, next); \
        else                                                                                       \
            cut_drive(&kind, out, out_stride, x, x_stride, m, panels, n_panels, k, next);          \
    }

VNNI_KINDS_Q(AMX_KIND)
VNNI_KINDS_IQ4(AMX_KIND)
