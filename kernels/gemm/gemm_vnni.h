/* kernels/gemm/gemm_vnni.h - properties of the weight types for the VNNI bodies, and activations
 * packed for their tiles.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef KERNELS_GEMM_GEMM_VNNI_H
#define KERNELS_GEMM_GEMM_VNNI_H

#include <string.h>

#include "kernels/gemm/gemm_cut.h"

/* The step that turns a group's integer sums into floats. */
enum vnni_finish {
    VNNI_SCALE,   /* a scale */
    VNNI_MINIMUM, /* a scale and a minimum */
    VNNI_HALVES,  /* a scale for each half */
    VNNI_MINIMA,  /* a scale, and a minimum for each half */
};

struct vnni_type {
    enum vnni_finish finish;
    int32_t offset;      /* offset of the codes */
    size_t block_groups; /* groups of 32 that share a block: 1, 2, 4 or 8 */
    size_t block_bytes;
    size_t codes;      /* offset of the codes in a block */
    size_t code_bytes; /* bytes of a group's codes */
};

static const struct vnni_type VNNI_TYPE[KERN_N_WEIGHT] = {
    [KERN_Q8_0] = {VNNI_SCALE, 128, 1, KERN_Q8_0_GROUP, 32, 512},
    [KERN_Q4_0] = {VNNI_SCALE, 8, 1, KERN_Q4_0_GROUP, 32, 256},
    [KERN_Q5_0] = {VNNI_SCALE, 16, 1, KERN_Q5_0_GROUP, 32, 320},
    [KERN_Q4_1] = {VNNI_MINIMUM, 0, 1, KERN_Q4_1_GROUP, KERN_Q4_1_CODES, 256},
    [KERN_Q5_1] = {VNNI_MINIMUM, 0, 1, KERN_Q5_1_GROUP, KERN_Q4_1_CODES, 320},
    [KERN_Q4_K] = {VNNI_MINIMUM, 0, 8, KERN_Q4_K_GROUP, KERN_Q4_K_CODES, KERN_Q4_K_SUB},
    [KERN_Q5_K] = {VNNI_MINIMUM, 0, 8, KERN_Q5_K_GROUP, KERN_Q4_K_CODES, KERN_Q5_K_SUB},
    [KERN_Q6_K] = {VNNI_HALVES, 32, 8, KERN_Q6_K_GROUP, KERN_Q6_K_CODES, KERN_Q6_K_SUB},
    [KERN_Q3_K] = {VNNI_HALVES, 4, 8, KERN_Q3_K_GROUP, KERN_Q6_K_CODES, KERN_Q3_K_SUB},
    [KERN_Q2_K] = {VNNI_MINIMA, 0, 8, KERN_Q2_K_GROUP, KERN_Q2_K_CODES, KERN_Q2_K_SUB},
    [KERN_IQ4_NL] = {VNNI_SCALE, 128, 1, KERN_Q4_0_GROUP, 32, 256},
    [KERN_IQ4_XS] = {VNNI_SCALE, 128, 8, KERN_IQ4_XS_GROUP, KERN_IQ4_XS_CODES, KERN_IQ4_XS_SUB},
    [KERN_MXFP4] = {VNNI_SCALE, 12, 1, KERN_MXFP4_GROUP, KERN_MXFP4_CODES, 256},
    [KERN_TQ2_0] = {VNNI_SCALE, 1, 8, KERN_TQ2_0_GROUP, KERN_TQ2_0_CODES, KERN_TQ2_0_SUB},
    [KERN_IQ3_S] = {VNNI_SCALE, 16, 8, KERN_IQ3_GROUP, KERN_IQ3_CODES, KERN_IQ4_XS_SUB},
    [KERN_IQ3_XXS] = {VNNI_SCALE, 64, 8, KERN_IQ3_GROUP, KERN_IQ3_CODES, KERN_IQ4_XS_SUB},
    [KERN_IQ2_XS] = {VNNI_HALVES, 64, 8, KERN_IQ2_GROUP, KERN_IQ2_CODES, KERN_IQ2_SUB},
    [KERN_IQ2_XXS] = {VNNI_SCALE, 64, 8, KERN_IQ2_XXS_GROUP, KERN_IQ2_XXS_CODES, KERN_IQ2_SUB},
    [KERN_IQ1_S] = {VNNI_MINIMUM, 0, 8, KERN_IQ1_S_GROUP, KERN_IQ1_S_CODES, KERN_TQ2_0_SUB},
    [KERN_IQ1_M] = {VNNI_HALVES, 16, 8, KERN_IQ1_M_GROUP, KERN_IQ1_M_CODES, KERN_TQ2_0_SUB},
    [KERN_Q2_0] = {VNNI_SCALE, 1, 2, KERN_Q2_0_GROUP, KERN_TQ2_0_CODES, KERN_TQ2_0_SUB},
    [KERN_Q1_0] = {VNNI_SCALE, 1, 4, KERN_Q1_0_GROUP, KERN_Q1_0_CODES, KERN_Q1_0_SUB},
    [KERN_NVFP4] = {VNNI_HALVES, 12, 2, KERN_NVFP4_GROUP, KERN_NVFP4_CODES, KERN_NVFP4_SUB},
    [KERN_IQ4_K] = {VNNI_HALVES, 128, 8, KERN_IQ4_K_GROUP, KERN_Q6_K_CODES, KERN_IQ4_K_SUB},
    [KERN_IQ3_K] = {VNNI_HALVES, 128, 8, KERN_IQ3_K_GROUP, KERN_Q6_K_CODES, KERN_Q3_K_SUB},
    [KERN_IQ2_K] = {VNNI_HALVES, 32, 8, KERN_IQ2_K_GROUP, KERN_Q6_K_CODES, KERN_TQ2_0_SUB},
    [KERN_IQ6_K] = {VNNI_HALVES, 128, 8, KERN_IQ6_K_GROUP, KERN_IQ6_K_CODES, KERN_Q6_K_SUB},
    [KERN_IQ5_K] = {VNNI_HALVES, 128, 8, KERN_IQ5_K_GROUP, KERN_Q6_K_CODES, KERN_Q5_K_SUB},
    [KERN_IQ5_KS] = {VNNI_SCALE, 128, 8, KERN_IQ5_KS_GROUP, KERN_IQ_KS_CODES, KERN_Q5_K_SUB},
    [KERN_IQ4_KS] = {VNNI_SCALE, 128, 8, KERN_IQ4_KS_GROUP, KERN_IQ_KS_CODES, KERN_IQ4_K_SUB},
};

/* Groups that a packed tile of T rows has room for: 32 codes and three 4-byte values each. */
#define VNNI_ROOM(T) (CUT_X_BYTES / (44 * (T)) / 8 * 8)

/* A tile of T rows: codes [group][T][32], then three arrays [T][VNNI_ROOM(T)] of what a group's
 * finish takes: scales; where the integer sums start, or scale * sum; that of the other half. */
GEMM_INLINE size_t vnni_extra(const size_t T, const size_t i)
{
    return VNNI_ROOM(T) * T * (32 + 4 * i);
}

static inline size_t vnni_room(size_t m)
{
    return 32 * VNNI_ROOM(m);
}

static inline void vnni_pack_numbers(uint8_t *dst, const struct vnni_type *type,
                                     const struct kern_qrow *row, const struct gemm_rows *rows,
                                     size_t t)
{
    const size_t room = VNNI_ROOM(rows->m);
    const size_t n = rows->cols / 32;
    const float *restrict scale = row->scale + rows->c0 / 32;
    const int32_t *restrict sum = row->sum + rows->c0 / 16;
    void *first = dst + vnni_extra(rows->m, 1) + 4 * room * t;
    void *second = dst + vnni_extra(rows->m, 2) + 4 * room * t;
    int32_t *restrict int0 = first;
    int32_t *restrict int1 = second;
    float *restrict float0 = first;
    float *restrict float1 = second;

    memcpy(dst + vnni_extra(rows->m, 0) + 4 * room * t, scale, 4 * n);
    switch (type->finish) {
    case VNNI_SCALE:
        for (size_t g = 0; g < n; g++)
            int0[g] = -type->offset * (sum[2 * g] + sum[2 * g + 1]);
        break;
    case VNNI_MINIMUM:
        for (size_t g = 0; g < n; g++)
            float0[g] = scale[g] * (float)(sum[2 * g] + sum[2 * g + 1]);
        break;
    case VNNI_HALVES:
        for (size_t g = 0; g < n; g++) {
            int0[g] = -type->offset * sum[2 * g];
            int1[g] = -type->offset * sum[2 * g + 1];
        }
        break;
    case VNNI_MINIMA:
        for (size_t g = 0; g < n; g++) {
            float0[g] = scale[g] * (float)sum[2 * g];
            float1[g] = scale[g] * (float)sum[2 * g + 1];
        }
        break;
    }
}

static inline void vnni_pack(uint8_t *dst, enum kern_weight w, const struct gemm_rows *rows)
{
    const size_t m = rows->m;

    for (size_t t = 0; t < m; t++) {
        const struct kern_qrow row = kern_qrow(rows->x + t * rows->stride, rows->k);
        const int8_t *code = row.code + rows->c0;

        for (size_t g = 0; g < rows->cols / 32; g++)
            memcpy(dst + 32 * (g * m + t), code + 32 * g, 32);
        vnni_pack_numbers(dst, &VNNI_TYPE[w], &row, rows, t);
    }
}

#endif
