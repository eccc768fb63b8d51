/* core/model/traits.h - what tells the architectures apart, as one table.
 *
 * All of them are decoder-only transformers with RMS norms, grouped-query attention, rotary
 * positions and a gated feed-forward net. A row says which of the tensors a layer has and how rope
 * pairs dimensions; the tensors themselves, with their shapes, are a second table.
 *
 * Thread: any; the tables are constant.
 * Memory: none.
 */
#ifndef CORE_MODEL_TRAITS_H
#define CORE_MODEL_TRAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/gguf/gguf.h"
#include "core/model/model.h"

enum dim { DIM_ONE = 0, DIM_EMBD, DIM_Q, DIM_KV, DIM_HEAD, DIM_FF };

enum layer_tensor {
    LAYER_ATTN_NORM = 0,
    LAYER_Q,
    LAYER_K,
    LAYER_V,
    LAYER_Q_BIAS,
    LAYER_K_BIAS,
    LAYER_V_BIAS,
    LAYER_Q_NORM,
    LAYER_K_NORM,
    LAYER_ATTN_OUT,
    LAYER_FFN_NORM,
    LAYER_GATE,
    LAYER_UP,
    LAYER_DOWN,
    LAYER_N_TENSOR,
};

struct layer_tensor_row {
    const char *suffix; /* the name after "blk.N." */
    bool is_matrix;     /* struct matrix at `offset`, else const float * */
    enum dim n_in, n_out;
    size_t offset; /* in struct model_layer */
};

struct traits {
    const char *arch;  /* general.architecture, and the prefix of its keys */
    uint32_t required; /* bits of enum layer_tensor */
    uint32_t optional;
    bool rope_neox;
    float rope_base; /* where the file does not say */
};

/* The row of an architecture, or NULL. */
const struct traits *traits_find(struct gguf_str arch);

/* "llama, qwen2, qwen3", for the sentence that refuses another. */
const char *traits_names(void);

const struct layer_tensor_row *traits_layer_tensor(enum layer_tensor t);
uint32_t traits_dim(const struct model_shape *s, enum dim dim);

#endif
