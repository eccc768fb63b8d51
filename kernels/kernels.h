/* kernels/kernels.h - the arithmetic, as one table of function pointers.
 *
 * Kernels are pure: pointers and sizes in, numbers out. They know no model, sequence or request.
 * The `_scalar` body of each defines the answer to the bit; the bodies of other levels must
 * equal it (tests/check). From that follows promise P1: an output element depends on its own
 * inputs only, never on how many rows are in the call, how the rows were cut, or the ISA.
 *
 * Weights lie in panels of 16 output rows, interleaved so that a vector lane is an output row;
 * activations are broadcast. Each output element is one chain of fp32 FMAs over k in ascending
 * order, so there is no horizontal sum and nothing to split differently.
 *
 * Terms: fma(a,b,c) rounds once. `rne` rounds to nearest even. All other operations round
 * after each step (-ffp-contract=off). f16 and bf16 are widened exactly.
 *
 * Thread: any. A caller with n threads gives each one its own range of panels, rows or heads.
 * Memory: none is taken and none is kept. `out` never overlaps an input unless said.
 * Alignment: panels 64 bytes (kern_panel_bytes() is a multiple of 16: panels after the first may
 *         stand at 16); everything else the natural alignment of its type.
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/recurrent.h"

#define KERN_LANES 16     /* output rows in a panel */
#define KERN_GROUP 32     /* activation codes that share a scale */
#define KERN_BLOCK 16     /* tokens in a KV block */
#define KERN_SEGMENT 256  /* tokens in a softmax segment, counted from position 0 */
#define KERN_MAX_HEAD 576 /* largest key_dim and value_dim; both are multiples of 8 */

/* Instruction set levels. Each architecture has some, in ascending order; a build has those of one
 * architecture (kernels_impl.h).
 *
 * AVXVNNI is AVX2 with vpdpbusd on 256 bits: the products with quantised weights are its own, all
 * else is AVX2's. It has two builds of the same body: in AVX-VNNI's encoding, and in that of
 * AVX-512VL, which kern_init() takes on a CPU that has AVX-512 VNNI but not AVX-VNNI. AMX is AVX512
 * with products of 8 rows and more on tiles, of common types. It is never the default: it must be
 * asked for, because it has not been measured (gemm_q_amx.c).
 *
 * Every aarch64 CPU has NEON. DOTPROD (ARMv8.2) has products with quantised weights and attention
 * on codes of its own, I8MM (ARMv8.6) these products; all else is that of the level below. SVE is
 * used by none. */
enum kern_isa {
    KERN_ISA_SCALAR = 0,
    KERN_ISA_AVX2 = 1,
    KERN_ISA_AVXVNNI = 2,
    KERN_ISA_AVX512 = 3,
    KERN_ISA_AMX = 4,
    KERN_ISA_NEON = 5,
    KERN_ISA_DOTPROD = 6,
    KERN_ISA_I8MM = 7,
    KERN_N_ISA,
};

/* Packed weight types. Bytes of a panel for k columns (within 5 % of the GGUF bytes, but for the
 * codebook types and TQ1_0):
 *   F32   k x 16 floats, [k][16 lanes]
 *   F16, BF16   the same with 2-byte elements
 *   Q8_0  per group of 32: 16 f16 scales d, then codes u8 = q + 128 as [8 quads][16 lanes][4 k]
 *         (544 bytes)
 *   Q4_0  per group of 32: 16 f16 scales d, then [4][16 lanes][4 k] bytes: low nibble = code of
 *         quad r, high nibble = code of quad r + 4, code = q + 8 in 0..15 (288 bytes)
 *   Q4_K  per 256: 16 f16 d, 16 f16 dmin, sc[8 groups][16 lanes] u8, mn[8][16] u8, then per group
 *         of 32 the nibbles as in Q4_0 (2368 bytes)
 *   Q6_K  per 256: 16 f16 d, sc[16 halves][16 lanes] i8, then per group of 32 low nibbles as in
 *         Q4_0 (256 bytes) and high pairs [2][16 lanes][4 k] bytes: bits 2j.. of row r belong to
 *         quad 4r + j (128 bytes); code = q + 32 in 0..63 (3360 bytes)
 *   Q4_1  per group of 32: 16 f16 d, 16 f16 m, nibbles as in Q4_0 (320 bytes)
 *   Q5_0  per group of 32: 16 f16 d, nibbles, then top bits [16 lanes][4 k] bytes: bit j belongs
 *         to quad j; code = q + 16 in 0..31 (352 bytes)
 *   Q5_1  per group of 32: 16 f16 d, 16 f16 m, nibbles, top bits as in Q5_0 (384 bytes)
 *   Q5_K  per 256: d, dmin, sc and mn as in Q4_K, then per group of 32 nibbles and top bits as in
 *         Q5_0 (2880 bytes)
 *   Q3_K  per 256: 16 f16 d, sc[16 halves][16 lanes] i8, then per group of 32 pairs as in Q6_K
 *         (128 bytes) and top bits as in Q5_0 (64 bytes); code = q + 4 in 0..7 (1824 bytes)
 *   Q2_K  per 256: 16 f16 d, 16 f16 dmin, [16 halves][16 lanes] u8 with the scale sc in the low
 *         nibble and the minimum mn in the high one, then per group of 32 pairs as in Q6_K; code
 *         in 0..3 (1344 bytes)
 *   IQ4_NL  as Q4_0; a code stands for one of 16 numbers (codebook.h)
 *   IQ4_XS  per 256: 16 f16 d, sc[8 groups][16 lanes] i8, then per group of 32 nibbles as in Q4_0
 *         that stand for the numbers of IQ4_NL (2208 bytes)
 *   MXFP4 per group of 32: 16 exponents e of one byte, nibbles as in Q4_0 that stand for twice the
 *         numbers of E2M1; the scale is 2^(e - 128) (272 bytes)
 *   TQ2_0 per 256: 16 f16 d, then per group of 32 pairs as in Q6_K; code = q + 1 (1056 bytes)
 *   TQ1_0 as TQ2_0
 *   Q2_0  per 64: 16 f16 d, then per group of 32 pairs as in Q6_K; code = q + 1 (288 bytes)
 *   Q1_0  per 128: 16 f16 d, then per group of 32 bits as the top ones of Q5_0; 1 stands for 1 and
 *         0 for -1 (288 bytes)
 *   NVFP4 per 64: [4 halves][16 lanes] bytes e, then per group of 32 nibbles as in MXFP4; the scale
 *         is half of e as a number with four bits of exponent, biased by 7, and three of mantissa
 *         (576 bytes)
 *   IQ3_S, IQ3_XXS  per 256: 16 f16 d, [4 pairs of groups][16 lanes] u8 with the scale of the even
 *         group in the low nibble and that of the odd one in the high one, then per group of 32
 *         nibbles as in Q4_0: three bits of magnitude, one of sign (2144 bytes)
 *   IQ2_S, IQ2_XS  per 256: 16 f16 d, [8 groups][16 lanes] u8 with the scale of the first half in
 *         the low nibble and that of the second in the high one, then per group of 32 pairs and
 *         top bits as in Q3_K, the magnitude and the sign (1696 bytes)
 *   IQ2_XXS the same codes after d and scales as in IQ3_S (1632 bytes)
 *   IQ1_S d, and nibbles as the scales of IQ3_S: a scale in bits 0-2, the sign of the shift in
 *         bit 3; then per group of 32 pairs; code in 0 .. 2 (1120 bytes)
 *   IQ1_M per 256: 16 f16 d, [16 halves][16 lanes] u8 with a scale in bits 0-2 and the signs of the
 *         shifts of either 8 numbers in bits 3 and 4, then per group of 32 pairs (1312 bytes)
 *   IQ4_K, IQ3_K, IQ2_K  per 256: 16 f16 d, [16 halves][16 lanes] i8 2 sc + e, then per group of 32
 *         nibbles (2336 bytes), pairs and top bits as in Q3_K (1824), or pairs (1312); e shifts the
 *         numbers of a half that the codes stand for: by 4, 4 and 5
 *   IQ5_K the same with nibbles and top bits as in Q5_0 (2848 bytes); by 2
 *   IQ6_K per 256: d and sc as in Q6_K, [2][16 lanes] u8 with bit h of row r for e of half 8r + h,
 *         then codes as in Q6_K (3392 bytes); by 1
 *   IQ4_KS, IQ5_KS  per 256: 16 float d, the same in all blocks of a row, [8 groups][16 lanes] i8
 *         t, then per group of 32 codes as in IQ4_K (2240 bytes) and IQ5_K (2752); the scale is
 *         d (t | 1), and e the lowest bit of t
 * IQ2_K takes 8 % more than its file has, TQ1_0 22, IQ3_S 22, IQ3_XXS 37, IQ2_S 29, IQ2_XS 43,
 * IQ2_XXS 55, IQ1_S 40 and IQ1_M 46: of a panel that kept the file's indices, every quad would
 * be a gather of 16 patterns, some 12 ns where we measured. So it would stream 2 GB/s a core, a
 * tenth of what panels of codes do, and a product of many rows would wait for it too. Taking
 * five ternary digits out of a byte costs several times what pairs of bits do.
 * A quad is 4 consecutive k: quad j of a group holds k = 4j .. 4j+3. Rows past the matrix are zero
 * rows (scales 0, codes at the offset). */
enum kern_weight {
    KERN_F32 = 0,
    KERN_F16,
    KERN_BF16,
    KERN_N_FLOAT_WEIGHT,
    KERN_Q8_0 = KERN_N_FLOAT_WEIGHT,
    KERN_Q4_0,
    KERN_Q4_K,
    KERN_Q6_K,
    KERN_Q4_1,
    KERN_Q5_0,
    KERN_Q5_1,
    KERN_Q5_K,
    KERN_Q3_K,
    KERN_Q2_K,
    KERN_IQ4_NL,
    KERN_IQ4_XS,
    KERN_MXFP4,
    KERN_TQ2_0,
    KERN_TQ1_0,
    KERN_IQ3_S,
    KERN_IQ3_XXS,
    KERN_IQ2_S,
    KERN_IQ2_XS,
    KERN_IQ2_XXS,
    KERN_IQ1_S,
    KERN_IQ1_M,
    KERN_Q2_0,
    KERN_Q1_0,
    KERN_NVFP4,
    KERN_IQ4_K,
    KERN_IQ3_K,
    KERN_IQ2_K,
    KERN_IQ6_K,
    KERN_IQ5_K,
    KERN_IQ5_KS,
    KERN_IQ4_KS,
    KERN_N_WEIGHT,
};

/* True: the product takes quantised activation rows (kern.quantise) instead of float rows. */
bool kern_weight_is_quantised(enum kern_weight w);
/* The kind of a product's sums, which bounds its speed: floats, or integers of groups of 32
 * columns, with a scale for the group or for each half. Without VNNI narrow codes are summed in 16
 * bits, wide ones in 32. */
enum kern_product {
    KERN_PRODUCT_FLOAT = 0,
    KERN_PRODUCT_NARROW,
    KERN_PRODUCT_NARROW_HALVES,
    KERN_PRODUCT_WIDE,
    KERN_PRODUCT_WIDE_HALVES,
    KERN_N_PRODUCT,
};
enum kern_product kern_weight_product(enum kern_weight w);
const char *kern_product_name(enum kern_product product);
/* Return the number that k must be a multiple of: 1, 32, 64, 128 or 256. */
size_t kern_weight_group(enum kern_weight w);
const char *kern_weight_name(enum kern_weight w);

size_t kern_panel_bytes(enum kern_weight w, size_t k);

/* Interleave 16 rows, each in the GGUF format of the same name with k columns, into a panel;
 * rows[i] == NULL is a zero row. Load time only. */
void kern_pack(enum kern_weight w, void *panel, const void *const rows[KERN_LANES], size_t k);

/* Panels of LoRA's B matrices, whose rows are too short for blocks: as kern_pack() makes them, but
 * for Q8_0 one scale for each row: [16 lanes] float d, then [k][16 lanes] i8. */
#define KERN_N_LORA (KERN_Q8_0 + 1) /* weight types of LoRA panels */
size_t kern_lora_panel_bytes(enum kern_weight w, size_t k);
/* Pack 16 rows of k floats, NULL: zeros, as Q8_0: d = max / 127, code = rne(row / d). */
void kern_lora_pack_q8_0(void *panel, const float *const rows[KERN_LANES], size_t k);

/* Write the k float values of row `lane` of a panel to `out` (embedding look-up); equals decoding
 * the row's GGUF blocks, bit for bit. */
void kern_unpack_row(enum kern_weight w, const void *panel, size_t lane, float *out, size_t k);

/* Return the bytes of a quantised activation row of k values (k % 32 == 0): codes int8[k], then
 * scale float[k/32], then sum int32[k/16] (sums of 16 codes each), padded to a multiple of 64
 * bytes. */
size_t kern_qrow_bytes(size_t k);

/* How keys and values are stored. A token's slot in a KV block is t % 16; of one block and head:
 *   F16   keys [key_dim][16 tokens], values [16 tokens][value_dim], f16
 *   BF16  the same in bf16
 *   F32   the same in f32
 *   Q8_0  keys: per 32 dimensions a group of a Q8_0 panel whose lanes are the tokens (16 f16
 *         scales, then codes u8 = q + 128 as [8 quads][16 tokens][4 dims]); values: 16 f16 scales,
 *         one a token, then codes u8 = q + 128 as [4 token quads][value_dim][4 tokens].
 *         key_dim and value_dim % 32 == 0
 *   Q4_0  keys as in Q8_0, for scores want them exact; values: scales f16 [value_dim / 32][16
 *         tokens], then [value_dim / 32][4 token quads][16][4 tokens] bytes: the low nibble is
 *         dimension d of a group of 32, the high one dimension d + 16; a code c in 0 .. 15 stands
 *         for 2 c - 15. key_dim and value_dim % 32 == 0 */
enum kern_kv {
    KERN_KV_F16 = 0,
    KERN_KV_BF16,
    KERN_KV_Q8_0,
    KERN_KV_Q4_0,
    KERN_KV_F32,
    KERN_N_KV,
};

/* "f16", "bf16", "q8_0", "q4_0", "f32" */
const char *kern_kv_name(enum kern_kv kv);
/* Return the number that key_dim and value_dim must be multiples of. */
uint32_t kern_kv_group(enum kern_kv kv);
/* Return the bytes of the keys, and of the values, of one head of a block. */
size_t kern_kv_key_bytes(enum kern_kv kv, uint32_t key_dim);
size_t kern_kv_value_bytes(enum kern_kv kv, uint32_t value_dim);

/* A query row of a call whose rows are not neighbours in `q`. */
struct kern_attn_row {
    uint32_t row; /* row of `q`, used for i */
    uint32_t pos; /* the row's position, for ALiBi */
};

/* Attention of a run of query rows of one sequence over one KV head; or, with `rows`, of rows of
 * several sequences over a prefix whose blocks they share (cascade). */
struct kern_attn {
    const float *q; /* row i, head h of the group at q + i * q_stride + h * key_dim */
    float *out;     /* row i, head h at out + i * out_stride + h * value_dim */
    size_t q_stride;
    size_t out_stride;
    const uint8_t *keys;   /* the KV head's keys: those of block b at b * block_stride */
    const uint8_t *values; /* the KV head's values: those of block b at b * block_stride */
    size_t block_stride;   /* bytes */
    const uint32_t *table; /* token t lies in block table[t / 16], slot t % 16; entries of blocks
                            * that no row of this call sees are not read */
    uint32_t pos0;   /* row i is at position p = pos0 + i */
    uint32_t n_row;
    const struct kern_attn_row *rows; /* [n_row], or NULL: i is i. With them n_seen and `part` are
                                         set, window and ahead 0: each row sees n_seen tokens */
    uint32_t n_seen; /* 0: row i sees tokens up to its own position p; else tokens up to n_seen - 1
                      * ... */
    uint32_t window; /* ... 0: from token 0; else from token p + 1 - window, and at least one */
    uint32_t ahead;  /* used with n_seen only. 0: no further limit; else a row sees no token after p
                      * + ahead */
    uint32_t n_head; /* query heads sharing this KV head */
    uint32_t key_dim, value_dim;
    float scale;
    float cap;          /* 0: none; else a score s becomes cap * tanh(s / cap) */
    const float *slopes; /* [n_head] or NULL; ALiBi: of the score of token t in head h,
                            slopes[h] * |p - t| is taken off */
    const float *sinks; /* [n_head] or NULL: one more score for each head, without a value
                         * (attention sink) */
    uint32_t seg0, seg1; /* the softmax segments to visit: seg0 .. seg1 - 1, those that exist */
    /* NULL: all segments that a row sees are visited and `out` gets the result. Else `out` is not
     * touched, and each query leaves the state of each segment that it sees, so that several calls
     * may share the segments: query i * n_head + h at part + (i * n_head + h) * part_stride,
     * segment s of it at s * KERN_ATTN_PART(value_dim): maximum, sum, then the value_dim weighted
     * values. attn_merge computes the result from these states. Sinks are ignored then. With
     * n_merged > 1 the first n_merged segments leave one state, state 0, in which they are merged
     * ascending, as attn_merge would do it; segment s >= n_merged leaves state s - n_merged + 1.
     * One call has all of these segments, and without a window. */
    float *part;
    size_t part_stride; /* floats */
    uint32_t n_merged;
    float *scratch;     /* kern_attn_scratch() bytes, 64-byte aligned */
    /* Prefetching, which changes no result. next: the call that the thread probably makes next, or
     * NULL. At its end this call prefetches the keys of the first segment that `next` sees.
     * is_fetched: the thread's last call named this one as `next`. */
    const struct kern_attn *next;
    bool is_fetched;
};
#define KERN_ATTN_PART(value_dim) ((size_t)(value_dim) + 2) /* floats */
size_t kern_attn_scratch(uint32_t n_row, uint32_t n_head, uint32_t key_dim, uint32_t value_dim);

/* Activations of a feed-forward net: out[i] = f(gate[i]) * up[i], or f(gate[i]) where up is NULL;
 * s(x) = 1 / (1 + kern_exp(-x)).
 *   SILU      f(x) = x / (1 + kern_exp(-x))
 *   GELU      by tanh: f(x) = x / (1 + kern_exp(-2 * u)), u = 0.79788456 * (x + 0.044715 * x^3)
 *   GELU_ERF  f(x) = (0.5 * x) * (1 + erf(x / sqrt(2))), erf within 3e-7 of the real one
 *   SWIGLU_CLAMPED  up must be there: g = min(gate, 7), u = min(max(up, -7), 7),
 *             out = (g * s(1.702 * g)) * (u + 1)
 *   SIGMOID   f(x) = s(x)
 *   RELU_SQR  f(x) = x * x where x > 0, else 0
 *   RELU      f(x) = x where x > 0, else 0
 *   LINEAR    f(x) = x: a plain product */
enum kern_act {
    KERN_ACT_SILU = 0,
    KERN_ACT_GELU,
    KERN_ACT_GELU_ERF,
    KERN_ACT_SWIGLU_CLAMPED,
    KERN_ACT_SIGMOID,
    KERN_ACT_RELU_SQR,
    KERN_ACT_RELU,
    KERN_ACT_LINEAR,
    KERN_N_ACT,
};

/* Ranges that will be read after a product. While it multiplies, a product may prefetch them, since
 * a product of many rows leaves memory idle for part of its time. It is a hint, which bodies may
 * ignore. */
struct kern_range {
    const void *at;
    size_t bytes;
};
struct kern_prefetch {
    const struct kern_range *ranges;
    size_t n;
};

struct kern_table {
    /* out[i * out_stride + 16 p + lane] = x[i] . w[16 p + lane], for i < m, p < n_panels.
     * x: float rows (x_stride bytes apart) for float weights, quantised rows otherwise.
     *  float weights: s = 0; per 256 columns (the last may be shorter): c = 0, then
     *    c = fma(x[j], w[j], c) for j ascending, then s = s + c.
     *  Q8_0, Q4_0, Q5_0: per group g ascending: n = integer sum of (code - offset) * x code over
     *    the group; s = fma((float)n, d * xs[g], s).
     *  Q4_1, Q5_1: n = sum of code * x code; s = fma((float)n, d * xs[g], s); then
     *    s = fma(m, xs[g] * (float)(sum of the group's x codes), s).
     *  Q4_K, Q5_K: the same with d * sc for d and -(dmin * mn) for m.
     *  Q6_K, Q3_K: a, b = the integer sums over the group's first and last 16 of (code - offset)
     *    * x code; t = fma((float)a, d * sc[2g], (float)b * (d * sc[2g+1]));
     *    s = fma(t, xs[g], s).
     *  Q2_K: n = sc[2g] * (sum over the first 16 of code * x code) + sc[2g+1] * (over the last);
     *    s = fma((float)n, d * xs[g], s); then for each half h, the first one first,
     *    s = fma(-(dmin * mn[h]), xs[g] * (float)(sum of the half's x codes), s).
     *  The rest, where v is the number that a code stands for (codebook.h):
     *  IQ4_NL, MXFP4, TQ2_0, TQ1_0, Q2_0, Q1_0, IQ4_XS, IQ3_S, IQ3_XXS, IQ2_XXS: n = sum of
     *    v * x code; s = fma((float)n, D * xs[g], s). D is d; 2^(e - 128); d; d; d; d; d * sc;
     *    d * sc; (d * sc) * 0.25; (d * sc) * 0.125;
     *    sc is 2 s + 1 where s is a scale of four bits or three.
     *  IQ2_S, IQ2_XS, IQ1_M: as Q6_K with the sums of v * x code, and (d * sc) * 0.125 for d * sc.
     *  NVFP4: the same with the half's scale for d * sc.
     *  IQ4_K, IQ3_K, IQ2_K: as Q6_K with the sums of v * x code.
     *  IQ1_S: as Q4_1 with d * sc for d and (d * (float)t) * 0.125 for m; t = +-sc - 8 sc, the sign
     *    that of the shift.
     * Any m >= 1; out_stride >= 16 * n_panels. `next`: see struct kern_prefetch; may be NULL. */
    void (*gemm[KERN_N_WEIGHT])(float *out, size_t out_stride, const void *x, size_t x_stride,
                                size_t m, const void *panels, size_t n_panels, size_t k,
                                const struct kern_prefetch *next);

    /* LoRA's second half: y = fma(c, scale, y) for y = out[i * out_stride + 16 p + lane], i < m,
     * p < n_panels; c = fma(x[i][j], w[16 p + lane][j], c) from 0 for j < k ascending. x: rows of
     * floats, x_stride floats apart. Made for k up to 256 and a few rows. Panels of Q8_0 are those
     * of kern_lora_panel_bytes(): w is the code, and y = fma(c, d[16 p + lane] * scale, y). */
    void (*lora_expand[KERN_N_LORA])(float *out, size_t out_stride, const float *x, size_t x_stride,
                                     size_t m, const void *panels, size_t n_panels, size_t k,
                                     float scale);

    /* Quantise columns from .. from + n - 1 of a row of k, whose numbers are x[0..n); from and n
     * are multiples of 32. Per group: a = max |x|; scale = a / 127; code = rne(x * (127 / a)),
     * all zero when a < 2^-100 (127 / a might overflow). Inputs are finite. */
    void (*quantise)(void *qrow, size_t k, const float *x, size_t from, size_t n);

    /* out[i] = (x[i] * r) * w[i], r = 1 / sqrt(ss / n + eps); ss: 16 virtual lanes, lane j =
     * fma chain of squares over i = j, j+16, ...; then the tree of kern_lanes_sum. out may be x. */
    void (*rmsnorm)(float *out, const float *x, const float *w, size_t n, float eps);

    /* mean = (sum of x in 16 virtual lanes, then the tree) / n; ss = chain of squares of x - mean
     * as in rmsnorm; r = 1 / sqrt(ss / n + eps); out[i] = ((x[i] - mean) * r) * w[i], then + b[i]
     * unless b is NULL. out may be x. */
    void (*layernorm)(float *out, const float *x, const float *w, const float *b, size_t n,
                      float eps);

    /* Rotate the first n_rot dimensions of each of n_head heads, in place. Pair j (of n_rot/2) is
     * (2j, 2j+1), or (j, j + n_rot/2) when neox. a' = fma(a, c, -(b * s)); b' = fma(a, s, b * c).
     */
    void (*rope)(float *x, size_t n_head, size_t head_dim, size_t n_rot, const float *cos,
                 const float *sin, bool neox);

    /* Scores: fma chain over key_dim ascending from 0, then * scale; then `cap`, if there is one;
     * then, with slopes, s = fma(-slopes[h], (float)|p - t|, s).
     * Per segment of 256 absolute positions with a visible token: m = max of the visible scores;
     * e[t] = exp(score[t] - m); l = sum of e in 16 virtual lanes (lane t % 16, ascending) then
     * kern_lanes_sum; o[d] = fma chain over visible t ascending from 0 of e[t] * v[t][d]. Segments
     * merge ascending into (M, L, O), the first one copied: M' = max(M, m); a = exp(M - M'),
     * b = exp(m - M'); L' = fma(L, a, l * b); O' = fma(O, a, o * b). A sink is one more segment,
     * the last: m = sink, l = 1, o = 0. Result O / L. Only visible tokens are ever added.
     * On a Q8_0 store the same but for the products. Scores: q[d] * scale quantised per 32
     * dimensions as by `quantise` (codes, qs); per group g ascending: n = integer sum of
     * (key code - 128) * query code; s = fma((float)n, ks[t] * qs[g], s) from 0. Values:
     * e[t] * vs[t] of the visible t, 0 for the others, quantised per 32 tokens (counted from the
     * segment's first) as by `quantise` (codes, es); o[d]: per group g that has a visible token
     * ascending: n = integer sum over visible t of (value code - 128) * e's code;
     * o = fma((float)n, es[g], o) from 0. ks and vs are the stored scales, widened. On a Q4_0
     * store a value's number is 2 c - 15 instead, and each 32 dimensions of o come of their own
     * vs, and so of their own codes of e[t] * vs[t]. */
    void (*attn[KERN_N_KV])(const struct kern_attn *a);

    /* The result of one query from the n_state states of the segments that it sees, one after the
     * other (see kern_attn.part), and its head's sink, unless NULL. Equals what attn writes without
     * `part`. */
    void (*attn_merge)(float *out, const float *part, size_t n_state, size_t value_dim,
                       const float *sink);

    /* Store one token's keys and values (rne) into slot `slot` of a block's layer: the heads' keys
     * one after the other, and their values; k: [n_kv][key_dim], v: [n_kv][value_dim]. Inputs are
     * finite.
     * Into a Q8_0 store: of 32 dimensions of a key, or all of a value: a = max |x|;
     * d = f16(a / 127), at most 65504; code = rne(x * (1 / d)), kept within -127 .. 127, all zero
     * when d is 0. Into a Q4_0 store keys likewise; of 32 dimensions of a value: d = f16(a / 15),
     * at most 65504; c = rne(x * (0.5 / d) + 7.5), kept within 0 .. 15 before it is rounded, 8 when
     * d is 0. */
    void (*kv_write[KERN_N_KV])(uint8_t *keys, uint8_t *values, size_t slot, const float *k,
                                const float *v, size_t n_kv, size_t key_dim, size_t value_dim);

    /* See enum kern_act. out may be gate, or up. */
    void (*act[KERN_N_ACT])(float *out, const float *gate, const float *up, size_t n);

    /* out[i] = fma(x[i], scale, out[i]): with scale 1 a plain sum. */
    void (*add)(float *out, const float *x, float scale, size_t n);

    /* x[i] = x[i] * scale. */
    void (*scale)(float *x, float scale, size_t n);

    /* x[i] = cap * tanh(x[i] / cap), tanh(z) = 1 - 2 / (1 + kern_exp(2 * z)), within 3e-7 * cap. */
    void (*cap)(float *x, float cap, size_t n);

    /* max of x[0..n), n >= 1; NaN elements are passed over (all NaN: -inf); a zero is +0. */
    float (*max)(const float *x, size_t n);

    /* The first i with x[i] == value (so never a NaN; -0 == +0), or n. */
    size_t (*find)(const float *x, size_t n, float value);

    /* sum of kern_exp((x[i] - max) * scale) in 16 virtual lanes, then kern_lanes_sum. */
    float (*sum_exp)(const float *x, size_t n, float max, float scale);

    /* Recurrent layers: see recurrent.h. */
    void (*conv)(const struct kern_conv *a);
    void (*mamba1)(const struct kern_mamba1 *a);
    void (*mamba2)(const struct kern_mamba2 *a);
    void (*delta)(const struct kern_delta *a);

    /* out[i] = x[i] * r, r = scale / sqrt(ss + eps); ss as in rmsnorm. out may be x. */
    void (*l2norm)(float *out, const float *x, size_t n, float eps, float scale);

    /* softplus p(z) = max(z, 0) + l(kern_exp(-|z|)); l(e) = log(1 + e): f = e / (2 + e), s = f * f,
     * p = 1/15, then p = fma(p, s, 1 / n) for n = 13, 11 ... 1; l = (f + f) * p. |error| < 3e-7 of
     * it, but for z < -87.33, where it is 0.
     * out[i] = p(x[i] + bias[i]); with a, kern_exp(a[i] * p(x[i] + bias[i])): what is kept of a
     * state. out may be x. */
    void (*softplus)(float *out, const float *x, const float *bias, const float *a, size_t n);
};

/* Return the best level that this CPU and OS allow (on x86-64: checks XCR0 as well as CPUID), never
 * AMX. In debug builds the variable QUIRE_DEBUG_ISA lowers it. */
enum kern_isa kern_isa_of_cpu(void);
/* Return the best level that this build has, up to kern_isa_of_cpu(). */
enum kern_isa kern_isa_best(void);
/* True: kern_init() may be called with this level. A build for one CPU has only its own levels. For
 * AMX it asks the kernel for permission, which then holds for all threads of the process. */
bool kern_isa_exists(enum kern_isa isa);
/* Return the level called "scalar", "avx2", "avxvnni", "avx512", "amx" ..., or -1 if the name is
 * unknown; the caller handles "auto". */
int kern_isa_parse(const char *name);
const char *kern_isa_name(enum kern_isa isa);

/* Fill the table with the best bodies up to level `isa` (at most kern_isa_best(), or AMX if
 * kern_isa_exists()). First the scalar bodies, then those of each higher level, so that no member
 * is NULL. */
void kern_init(struct kern_table *t, enum kern_isa isa);

/* Definitions that other code uses too. */
/* Return e^x: 0 for x < -87.33, +inf for x > 88.72, NaN for NaN; else |error| < 2 ulp. */
float kern_exp(float x);
/* Natural logarithm in double from an explicit sequence; x > 0 and finite. */
double kern_log(double x);
/* Add 16 lanes in a fixed tree: l[i]+l[i+8], then +4, +2, +1. */
float kern_lanes_sum(const float l[KERN_LANES]);

#endif
