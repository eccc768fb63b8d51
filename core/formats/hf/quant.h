/* core/formats/hf/quant.h - quantization_config: how a folder's weights are stored.
 *
 * Supported are fp8, gptq, awq, mxfp4 and compressed-tensors (pack-quantized, float-quantized,
 * int-quantized, naive-quantized). Only weights are affected: where the config quantises
 * activations (dynamic or static), it is not done here, and input_scale is ignored.
 *
 * A weight consists of several tensors whose names have one beginning: hf_quant_split() tells them
 * apart. A tensor without such others is stored plainly.
 *
 * Thread: the one that loads.
 * Memory: none.
 * Errors: a sentence in the folder's `err`.
 */
#ifndef CORE_FORMATS_HF_QUANT_H
#define CORE_FORMATS_HF_QUANT_H

#include "core/formats/hf/recipe.h"
#include "core/formats/safetensors/safetensors.h"

struct hf_folder;

struct hf_quant {
    enum hf_code code; /* CODE_PLAIN: there is no quantization_config */
    uint32_t bits;
    uint32_t group; /* inputs that share a scale; 0: by the scales' shape */
    uint32_t zero_more;
    uint32_t block[2]; /* FP8: rows and columns of a scale; 0: by the scales' shape */
};

int hf_quant_read(const struct hf_folder *f, struct hf_quant *q);

/* Split a tensor's name into the weight's name and its part of it; false: it is ignored. */
bool hf_quant_split(const struct hf_quant *q, const char *theirs, char name[256],
                    enum hf_role *role);

/* The tensors of a weight; absent ones are NULL. */
struct hf_coded {
    const struct safetensor *parts[HF_N_ROLE];
};
/* Check their shapes and types and fill the recipe: code, bits, sizes, the type to make. *n_each:
 * matrices in them. ERR_FORMAT, ERR_UNSUPPORTED with a sentence. */
int hf_quant_shape(const struct hf_folder *f, const struct hf_quant *q,
                   const struct safetensors *files, const struct hf_coded *c, struct hf_recipe *r,
                   uint64_t *n_each);

#endif
