/* kernels/gemm/weight.c - the weight types: their names, and the sizes of their rows and panels.
 *
 * One table, FORMAT, has a row for each weight type; everything that is known of a type without
 * reading its numbers (group, bytes of a GGUF block and of a panel) is looked up there. The panel
 * layouts are drawn in kernels.h, their sizes are in kernels_impl.h.
 */
#include "kernels/gemm/codebook.h"
#include "kernels/gemm/gemm_common.h"
#include "kernels/kernels_impl.h"

struct weight_format {
    const char *name;
    bool quantised;
    uint16_t group;       /* columns of a group */
    uint16_t block_bytes; /* bytes of the GGUF row, per group */
    uint16_t panel_bytes; /* bytes of the panel, per group */
};

static const struct weight_format FORMAT[KERN_N_WEIGHT] = {
    [KERN_F32] = {"F32", false, 1, 4, 64},
    [KERN_F16] = {"F16", false, 1, 2, 32},
    [KERN_BF16] = {"BF16", false, 1, 2, 32},
    [KERN_Q8_0] = {"Q8_0", true, 32, 34, KERN_Q8_0_GROUP},
    [KERN_Q4_0] = {"Q4_0", true, 32, 18, KERN_Q4_0_GROUP},
    [KERN_Q4_K] = {"Q4_K", true, 256, 144, KERN_Q4_K_GROUP},
    [KERN_Q6_K] = {"Q6_K", true, 256, 210, KERN_Q6_K_GROUP},
    [KERN_Q4_1] = {"Q4_1", true, 32, 20, KERN_Q4_1_GROUP},
    [KERN_Q5_0] = {"Q5_0", true, 32, 22, KERN_Q5_0_GROUP},
    [KERN_Q5_1] = {"Q5_1", true, 32, 24, KERN_Q5_1_GROUP},
    [KERN_Q5_K] = {"Q5_K", true, 256, 176, KERN_Q5_K_GROUP},
    [KERN_Q3_K] = {"Q3_K", true, 256, 110, KERN_Q3_K_GROUP},
    [KERN_Q2_K] = {"Q2_K", true, 256, 84, KERN_Q2_K_GROUP},
    [KERN_IQ4_NL] = {"IQ4_NL", true, 32, 18, KERN_Q4_0_GROUP},
    [KERN_IQ4_XS] = {"IQ4_XS", true, 256, 136, KERN_IQ4_XS_GROUP},
    [KERN_MXFP4] = {"MXFP4", true, 32, 17, KERN_MXFP4_GROUP},
    [KERN_TQ2_0] = {"TQ2_0", true, 256, 66, KERN_TQ2_0_GROUP},
    [KERN_TQ1_0] = {"TQ1_0", true, 256, 54, KERN_TQ2_0_GROUP},
    [KERN_IQ3_S] = {"IQ3_S", true, 256, 110, KERN_IQ3_GROUP},
    [KERN_IQ3_XXS] = {"IQ3_XXS", true, 256, 98, KERN_IQ3_GROUP},
    [KERN_IQ2_S] = {"IQ2_S", true, 256, 82, KERN_IQ2_GROUP},
    [KERN_IQ2_XS] = {"IQ2_XS", true, 256, 74, KERN_IQ2_GROUP},
    [KERN_IQ2_XXS] = {"IQ2_XXS", true, 256, 66, KERN_IQ2_XXS_GROUP},
    [KERN_IQ1_S] = {"IQ1_S", true, 256, 50, KERN_IQ1_S_GROUP},
    [KERN_IQ1_M] = {"IQ1_M", true, 256, 56, KERN_IQ1_M_GROUP},
    [KERN_Q2_0] = {"Q2_0", true, 64, 18, KERN_Q2_0_GROUP},
    [KERN_Q1_0] = {"Q1_0", true, 128, 18, KERN_Q1_0_GROUP},
    [KERN_NVFP4] = {"NVFP4", true, 64, 36, KERN_NVFP4_GROUP},
    [KERN_IQ4_K] = {"IQ4_K", true, 256, 144, KERN_IQ4_K_GROUP},
    [KERN_IQ3_K] = {"IQ3_K", true, 256, 110, KERN_IQ3_K_GROUP},
    [KERN_IQ2_K] = {"IQ2_K", true, 256, 76, KERN_IQ2_K_GROUP},
    [KERN_IQ6_K] = {"IQ6_K", true, 256, 212, KERN_IQ6_K_GROUP},
    [KERN_IQ5_K] = {"IQ5_K", true, 256, 176, KERN_IQ5_K_GROUP},
    [KERN_IQ5_KS] = {"IQ5_KS", true, 256, 168, KERN_IQ5_KS_GROUP},
    [KERN_IQ4_KS] = {"IQ4_KS", true, 256, 136, KERN_IQ4_KS_GROUP},
};

bool kern_weight_is_quantised(enum kern_weight w)
{
    return FORMAT[w].quantised;
}

enum kern_product kern_weight_product(enum kern_weight w)
{
    if (!FORMAT[w].quantised)
        return KERN_PRODUCT_FLOAT;
    if (gemm_is_wide(w))
        return gemm_has_halves(w) ? KERN_PRODUCT_WIDE_HALVES : KERN_PRODUCT_WIDE;
    return gemm_has_halves(w) ? KERN_PRODUCT_NARROW_HALVES : KERN_PRODUCT_NARROW;
}

const char *kern_product_name(enum kern_product product)
{
    static const char *const names[KERN_N_PRODUCT] = {"float", "narrow", "narrow_halves", "wide",
                                                      "wide_halves"};

    return names[product];
}

size_t kern_weight_group(enum kern_weight w)
{
    return FORMAT[w].group;
}

const char *kern_weight_name(enum kern_weight w)
{
    return FORMAT[w].name;
}

size_t kern_block_bytes(enum kern_weight w)
{
    return FORMAT[w].block_bytes;
}

size_t kern_row_head(enum kern_weight w)
{
    return kern_has_row_scale(w) ? sizeof(float) : 0;
}

size_t kern_panel_bytes(enum kern_weight w, size_t k)
{
    return k / FORMAT[w].group * FORMAT[w].panel_bytes;
}
