/* core/formats/hf/recipe.h - rows of a GGUF tensor, made from tensors of a folder.
 *
 * A folder's tensors often differ from a GGUF file's: experts are separate, rows in another order,
 * matrices transposed, norms smaller by 1, numbers in 4 or 8 bits with their scales in another
 * tensor. A recipe makes one row when it is asked for, and keeps nothing.
 *
 * Numbers with scales become:
 *   FP8 (E4M3)               BF16: the product code * scale in float, rounded to nearest even
 *   8-bit integers           Q8_0 where each scale is a half-precision number, else BF16
 *   4-bit integers           Q4_0 where zero points are 8, else Q8_0 (codes less zero points fit
 *                            its signed bytes), where each scale is a half-precision number and
 *                            serves whole blocks of 32; else BF16
 *   MXFP4                    MXFP4
 * Q4_0, Q8_0 and MXFP4 hold the very numbers that were published: only BF16 rounds.
 *
 * Layouts of packed integers, of which each word holds 32 / bits codes, the lowest bits first:
 *   GPTQ   words along the inputs, [in / 8][out]; zero points [groups][out / 8], less 1 (0 is the
 *          highest) but for "gptq_v2"; g_idx: the group of each input
 *   AWQ    words along the outputs, [in][out / 8], whose codes are of outputs 0 2 4 6 1 3 5 7;
 *          zero points [groups][out / 8] alike
 *   packed (compressed-tensors) words along the inputs, [out][in / 8];
 *          zero points [out / 8][groups]
 *
 * Thread: rows are made by any.
 * Memory: a recipe is one block, freed with mem_free(), see gguf.h.
 * Sources: github.com/AutoGPTQ/AutoGPTQ and casper-hansen/AutoAWQ (their packing), and
 *          github.com/vllm-project/compressed-tensors; OCP Microscaling Formats
 *          (MXFP4, E8M0) and OFP8.
 */
#ifndef CORE_FORMATS_HF_RECIPE_H
#define CORE_FORMATS_HF_RECIPE_H

#include "core/formats/gguf/gguf.h"
#include "core/formats/hf/classes.h"

enum hf_code {
    CODE_PLAIN = 0, /* F32, F16, BF16 */
    CODE_FP8,
    CODE_INT8,
    CODE_PACKED,
    CODE_GPTQ,
    CODE_AWQ,
    CODE_MXFP4,
};

/* The parts of a weight. */
enum hf_role { ROLE_WEIGHT = 0, ROLE_SCALE, ROLE_ZERO, ROLE_ORDER, HF_N_ROLE };

struct hf_recipe {
    struct gguf_recipe base; /* groups of HF_N_ROLE parts; those that are absent have no bytes */
    enum hf_fit fit;
    enum hf_code code;
    enum block_type from, to; /* `from`: type of plain numbers */
    enum block_type scale_type;
    uint64_t n_in;                    /* values of a made row */
    uint64_t n_rows;                  /* made rows of a matrix */
    uint32_t n_head, n_kv_head, head; /* sizes of fused rows */
    uint32_t bits;
    bool is_symmetric;             /* no zero points: the middle code is 0 */
    uint32_t zero_more;            /* added to zero points */
    uint64_t rows_each, cols_each; /* rows and columns that share a scale */
    uint64_t n_scale_cols;
    uint64_t n_groups; /* groups of inputs: GPTQ, AWQ */
};

/* Create an empty recipe with room for this many groups of parts; NULL: out of memory. */
struct hf_recipe *hf_recipe_create(uint32_t n_groups);

/* Set the recipe's functions and its id. Called after all other fields are set. */
void hf_recipe_finish(struct hf_recipe *r);

/* Return scale number i, by the scales' type. */
float hf_scale(enum block_type type, const uint8_t *data, uint64_t i);

/* Decode E4M3 without infinities. */
float hf_fp8(uint8_t code);

/* Read the codes of row `row`, columns col .. col + 31, minus their zero points. */
void hf_codes(const struct hf_recipe *r, const struct gguf_part *parts, uint64_t row, uint64_t col,
              int16_t codes[32]);
/* Make the row, in blocks of r->to. */
void hf_coded_row(const struct hf_recipe *r, const struct gguf_part *parts, uint64_t row,
                  uint8_t *to);

#endif
