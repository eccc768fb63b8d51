/* core/model/traits.c - see traits.h. */
#include "core/model/traits.h"

#include <string.h>

#define BIT(t) (1u << LAYER_##t)

#define DENSE                                                                                      \
    (BIT(ATTN_NORM) | BIT(Q) | BIT(K) | BIT(V) | BIT(ATTN_OUT) | BIT(FFN_NORM) | BIT(GATE) |       \
     BIT(UP) | BIT(DOWN))
#define QKV_BIAS (BIT(Q_BIAS) | BIT(K_BIAS) | BIT(V_BIAS))
#define QK_NORM (BIT(Q_NORM) | BIT(K_NORM))

static const struct traits table[] = {
    {.arch = "llama", .required = DENSE, .optional = QKV_BIAS, .rope_base = 10000.0f},
    {.arch = "qwen2", .required = DENSE | QKV_BIAS, .rope_neox = true, .rope_base = 10000.0f},
    {.arch = "qwen3", .required = DENSE | QK_NORM, .rope_neox = true, .rope_base = 10000.0f},
};

#define VECTOR(name, n, member)                                                                    \
    {                                                                                              \
        .suffix = name, .n_in = DIM_##n, .n_out = DIM_ONE,                                         \
        .offset = offsetof(struct model_layer, member)                                             \
    }
#define MATRIX(name, in, out, member)                                                              \
    {                                                                                              \
        .suffix = name, .is_matrix = true, .n_in = DIM_##in, .n_out = DIM_##out,                   \
        .offset = offsetof(struct model_layer, member)                                             \
    }

static const struct layer_tensor_row layer_tensors[] = {
    [LAYER_ATTN_NORM] = VECTOR("attn_norm.weight", EMBD, attn_norm),
    [LAYER_Q] = MATRIX("attn_q.weight", EMBD, Q, q),
    [LAYER_K] = MATRIX("attn_k.weight", EMBD, KV, k),
    [LAYER_V] = MATRIX("attn_v.weight", EMBD, KV, v),
    [LAYER_Q_BIAS] = VECTOR("attn_q.bias", Q, q_bias),
    [LAYER_K_BIAS] = VECTOR("attn_k.bias", KV, k_bias),
    [LAYER_V_BIAS] = VECTOR("attn_v.bias", KV, v_bias),
    [LAYER_Q_NORM] = VECTOR("attn_q_norm.weight", HEAD, q_norm),
    [LAYER_K_NORM] = VECTOR("attn_k_norm.weight", HEAD, k_norm),
    [LAYER_ATTN_OUT] = MATRIX("attn_output.weight", Q, EMBD, attn_out),
    [LAYER_FFN_NORM] = VECTOR("ffn_norm.weight", EMBD, ffn_norm),
    [LAYER_GATE] = MATRIX("ffn_gate.weight", EMBD, FF, gate),
    [LAYER_UP] = MATRIX("ffn_up.weight", EMBD, FF, up),
    [LAYER_DOWN] = MATRIX("ffn_down.weight", FF, EMBD, down),
};
_Static_assert(sizeof(layer_tensors) / sizeof(layer_tensors[0]) == LAYER_N_TENSOR,
               "a row for every tensor of a layer");

const struct traits *traits_find(struct gguf_str arch)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strlen(table[i].arch) == arch.len && memcmp(table[i].arch, arch.data, arch.len) == 0)
            return &table[i];
    return NULL;
}

const char *traits_names(void)
{
    return "llama, qwen2, qwen3";
}

const struct layer_tensor_row *traits_layer_tensor(enum layer_tensor t)
{
    return &layer_tensors[t];
}

uint32_t traits_dim(const struct model_shape *s, enum dim dim)
{
    switch (dim) {
    case DIM_ONE:
        return 1;
    case DIM_EMBD:
        return s->n_embd;
    case DIM_Q:
        return s->n_head * s->head_dim;
    case DIM_KV:
        return s->n_kv_head * s->head_dim;
    case DIM_HEAD:
        return s->head_dim;
    case DIM_FF:
        return s->n_ff;
    }
    return 0;
}
