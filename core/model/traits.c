/* core/model/traits.c - see traits.h.
 *
 * Almost all of the file is the tables. traits_tensors() derives from an architecture's row and the
 * shape which tensors layer i must and may have, as bit sets, in one order: the base set, experts
 * in place of the dense net, shared keys and values, MLA, and last the parts that this layer lacks.
 * weights.c and adapter_load.c ask only these functions, never the architecture's name.
 */
#include "core/model/traits.h"

#include <string.h>

#define BIT(t) ((tensor_set)1 << LAYER_##t)

#define ATTENTION (BIT(Q) | BIT(K) | BIT(V) | BIT(ATTN_OUT))
#define PLAIN_FFN (BIT(UP) | BIT(DOWN))
#define GATED_FFN (PLAIN_FFN | BIT(GATE))
#define QKV_BIAS (BIT(Q_BIAS) | BIT(K_BIAS) | BIT(V_BIAS))
#define QK_NORM (BIT(Q_NORM) | BIT(K_NORM))
#define QK_NORM_B (QK_NORM | BIT(Q_NORM_BIAS) | BIT(K_NORM_BIAS))
#define ATTN_NORM_B (BIT(ATTN_NORM) | BIT(ATTN_NORM_BIAS))
#define FFN_NORM_B (BIT(FFN_NORM) | BIT(FFN_NORM_BIAS))
#define PRE_NORMS (BIT(ATTN_NORM) | BIT(FFN_NORM))
#define POST_NORMS (BIT(ATTN_POST_NORM) | BIT(FFN_POST_NORM))
#define GRANITE                                                                                    \
    (TRAIT_LOGIT_DIVIDE | TRAIT_EXPERT_NORM | TRAIT_ROPE_SWITCH | TRAIT_PAIRED_ROWS)
#define SUM_NORMS                                                                                  \
    (BIT(ATTN_SUM_NORM) | BIT(ATTN_SUM_NORM_BIAS) | BIT(FFN_SUM_NORM) | BIT(FFN_SUM_NORM_BIAS))
#define BIASES                                                                                     \
    (QKV_BIAS | BIT(ATTN_OUT_BIAS) | BIT(GATE_BIAS) | BIT(UP_BIAS) | BIT(DOWN_BIAS))

#define EXPERTS (BIT(ROUTER) | BIT(GATE_EXPERTS) | BIT(UP_EXPERTS) | BIT(DOWN_EXPERTS))
#define EXPERT_BIASES                                                                              \
    (BIT(ROUTER_BIAS) | BIT(CHOICE_BIAS) | BIT(GATE_EXPERTS_BIAS) | BIT(UP_EXPERTS_BIAS) |         \
     BIT(DOWN_EXPERTS_BIAS))
#define APART_NORMS                                                                                \
    (BIT(ROUTER_NORM) | BIT(EXPERTS_NORM) | BIT(BESIDE_POST_NORM) | BIT(EXPERTS_POST_NORM))
#define KEYS_VALUES (BIT(K) | BIT(V) | BIT(K_NORM))
#define PER_LAYER (BIT(PER_LAYER_GATE) | BIT(PER_LAYER_OUT) | BIT(PER_LAYER_POST_NORM))
#define STREAMS                                                                                    \
    (BIT(STREAM_ROUTER) | BIT(STREAM_ROUTER_NORM) | BIT(STREAM_PREDICT) | BIT(STREAM_CORRECT) |    \
     BIT(STREAM_SCALE) | BIT(LAUREL_IN) | BIT(LAUREL_OUT) | BIT(LAUREL_NORM))
#define SHARED_EXPERT (BIT(GATE_SHARED) | BIT(UP_SHARED) | BIT(DOWN_SHARED))
/* The tensors of attention, and of a feed-forward net, for layers that lack it. */
#define ATTENTION_PARTS                                                                            \
    (ATTENTION | LATENT | QKV_BIAS | QK_NORM_B | BIT(SINKS) | BIT(ATTN_OUT_BIAS) |                 \
     BIT(ATTN_SUB_NORM) | BIT(Q_DOWN) | BIT(Q_DOWN_NORM) | BIT(Q_UP))
#define FFN_PARTS                                                                                  \
    (GATED_FFN | BIT(GATE_BIAS) | BIT(UP_BIAS) | BIT(DOWN_BIAS) | EXPERTS | EXPERT_BIASES |        \
     SHARED_EXPERT | BIT(SHARED_GATE) | FFN_NORM_B | BIT(FFN_NORM_BARE) |                          \
     BIT(ATTN_POST_NORM_AS_FFN))

#define LLAMA (PRE_NORMS | ATTENTION | GATED_FFN)
#define GPT (ATTN_NORM_B | FFN_NORM_B | ATTENTION | PLAIN_FFN)
#define LATENT                                                                                     \
    (BIT(LATENT) | BIT(LATENT_NORM) | BIT(KEY_UP) | BIT(VALUE_UP) | BIT(ATTN_OUT))
#define QWEN_NEXT                                                                                  \
    (BIT(ATTN_NORM) | BIT(ATTN_POST_NORM_AS_FFN) | ATTENTION | QK_NORM | GATED_FFN)

/* A layer of a head for decisions. */
#define DECIDER (GPT | QKV_BIAS | BIT(ATTN_OUT_BIAS) | BIT(UP_BIAS) | BIT(DOWN_BIAS))
#define NEMOTRON_H (BIT(ATTN_NORM) | ATTENTION | PLAIN_FFN)

/* Rows that name no kind of norm have RMS norms, rows without an activation silu. */
static const struct traits table[] = {
    {.arch = "llama", .required = LLAMA, .flags = TRAIT_EXPERT_NORM | TRAIT_PAIRED_ROWS},
    {.arch = "smollm3",
     .required = LLAMA,
     .flags = TRAIT_PAIRED_ROWS,
     .no_rope_period = 4},
    {.arch = "qwen2", .required = LLAMA | QKV_BIAS, .flags = TRAIT_NEOX},
    {.arch = "qwen2moe",
     .required = LLAMA,
     .optional = BIT(SHARED_GATE),
     .flags = TRAIT_NEOX},
    {.arch = "qwen3", .required = LLAMA | QK_NORM, .flags = TRAIT_NEOX},
    {.arch = "qwen3moe", .required = LLAMA | QK_NORM, .flags = TRAIT_NEOX | TRAIT_EXPERT_NORM},
    {.arch = "gemma",
     .required = LLAMA,
     .flags = TRAIT_NEOX | TRAIT_EMBED_ROOT,
     .act = KERN_ACT_GELU},
    {.arch = "gemma2",
     .required = LLAMA | POST_NORMS,
     .flags = TRAIT_NEOX | TRAIT_EMBED_ROOT,
     .act = KERN_ACT_GELU,
     .window = 4096,
     .window_period = 2,
     .attn_cap = 50.0f,
     .logit_cap = 30.0f,
     .wide_layers = 46},
    {.arch = "gemma3",
     .required = LLAMA | POST_NORMS | QK_NORM,
     .flags = TRAIT_NEOX | TRAIT_EMBED_ROOT | TRAIT_WINDOW_ROPE,
     .act = KERN_ACT_GELU,
     .window_base = 10000.0f,
     .window_period = 6,
     .wide_layers = 62},
    {.arch = "gemma3n",
     .required = LLAMA | POST_NORMS | QK_NORM | STREAMS,
     .flags = TRAIT_NEOX | TRAIT_EMBED_ROOT | TRAIT_WINDOW_ROPE,
     .attention = ATTN_TRAIT_UNIT_VALUES | ATTN_TRAIT_SHARED_KV,
     .act = KERN_ACT_GELU,
     .window_base = 10000.0f,
     .window_period = 5,
     .attn_scale = 1.0f},
    {.arch = "gemma4",
     .required = PRE_NORMS | POST_NORMS | QK_NORM | BIT(Q) | BIT(K) | BIT(ATTN_OUT) | GATED_FFN,
     .optional = BIT(V) | BIT(OUT_SCALE),
     .flags = TRAIT_NEOX | TRAIT_EMBED_ROOT | TRAIT_WINDOW_ROPE | TRAIT_EXPERT_NORM,
     .attention = ATTN_TRAIT_UNIT_VALUES | ATTN_TRAIT_SHARED_KV,
     .experts = EXPERT_TRAIT_APART,
     .act = KERN_ACT_GELU,
     .window_base = 10000.0f,
     .window_period = 6,
     .attn_scale = 1.0f},
    {.arch = "phi2",
     .required = ATTN_NORM_B | ATTENTION | PLAIN_FFN,
     .flags = TRAIT_NEOX | TRAIT_PARALLEL,
     .norm = NORM_LAYER,
     .act = KERN_ACT_GELU},
    {.arch = "phi3", .required = LLAMA, .flags = TRAIT_NEOX},
    {.arch = "granite", .required = LLAMA, .flags = GRANITE},
    {.arch = "granitemoe", .required = LLAMA, .flags = GRANITE},
    {.arch = "olmo2",
     .required = ATTENTION | GATED_FFN | POST_NORMS | QK_NORM,
     .flags = TRAIT_NEOX | TRAIT_QK_ROW | TRAIT_WINDOW_ROPE,
     .window_period = 4},
    {.arch = "starcoder2",
     .required = GPT,
     .flags = TRAIT_NEOX,
     .norm = NORM_LAYER,
     .act = KERN_ACT_GELU},
    {.arch = "starcoder",
     .required = GPT,
     .flags = TRAIT_LEARNED_POS,
     .norm = NORM_LAYER,
     .act = KERN_ACT_GELU},
    {.arch = "stablelm",
     .required = ATTN_NORM_B | ATTENTION | GATED_FFN,
     .optional = FFN_NORM_B | QK_NORM,
     .flags = TRAIT_NEOX | TRAIT_PARALLEL_BARE | TRAIT_QK_EACH,
     .norm = NORM_LAYER},
    {.arch = "gptneox",
     .required = GPT,
     .flags = TRAIT_NEOX | TRAIT_PARALLEL_KEY,
     .norm = NORM_LAYER,
     .act = KERN_ACT_GELU_ERF},
    {.arch = "gpt2",
     .required = GPT,
     .flags = TRAIT_LEARNED_POS,
     .norm = NORM_LAYER,
     .act = KERN_ACT_GELU},
    {.arch = "falcon",
     .required = ATTN_NORM_B | ATTENTION | PLAIN_FFN,
     .optional = BIT(ATTN_NORM_2) | BIT(ATTN_NORM_2_BIAS),
     .flags = TRAIT_NEOX | TRAIT_PARALLEL,
     .norm = NORM_LAYER,
     .act = KERN_ACT_GELU_ERF},
    {.arch = "internlm2", .required = LLAMA, .flags = TRAIT_PAIRED_ROWS},
    {.arch = "exaone", .required = LLAMA, .flags = TRAIT_NEOX},
    {.arch = "command-r",
     .required = BIT(ATTN_NORM) | ATTENTION | GATED_FFN,
     .optional = QK_NORM,
     .flags = TRAIT_PARALLEL | TRAIT_QK_EACH,
     .norm = NORM_LAYER},
    {.arch = "cohere2",
     .required = BIT(ATTN_NORM) | ATTENTION | GATED_FFN,
     .flags = TRAIT_PARALLEL | TRAIT_FULL_NO_ROPE,
     .norm = NORM_LAYER,
     .window_period = 4},
    {.arch = "deepseek2",
     .required = PRE_NORMS | LATENT | GATED_FFN,
     .flags = TRAIT_MLA | TRAIT_MTP,
     .attention = ATTN_TRAIT_TEMPERATURE,
     .experts = EXPERT_TRAIT_SIGMOID_BIASED},
    {.arch = "plm",
     .required = PRE_NORMS | LATENT | PLAIN_FFN,
     .flags = TRAIT_MLA,
     .act = KERN_ACT_RELU_SQR},
    {.arch = "gpt-oss",
     .required = BIT(ATTN_NORM) | BIT(ATTN_POST_NORM_AS_FFN) | ATTENTION | BIT(SINKS) | GATED_FFN,
     .flags = TRAIT_NEOX | TRAIT_EXPERT_NORM | TRAIT_YARN_EXACT,
     .act = KERN_ACT_SWIGLU_CLAMPED,
     .window_period = 2},
    {.arch = "glm4",
     .required = LLAMA | POST_NORMS,
     .attention = ATTN_TRAIT_SECTION_HALVES},
    {.arch = "glm4moe",
     .required = BIT(ATTN_NORM) | BIT(ATTN_POST_NORM_AS_FFN) | ATTENTION | GATED_FFN,
     .optional = QK_NORM,
     .flags = TRAIT_NEOX | TRAIT_MTP,
     .experts = EXPERT_TRAIT_SIGMOID},
    {.arch = "ernie4_5", .required = LLAMA},
    {.arch = "ernie4_5-moe", .required = LLAMA, .flags = TRAIT_EXPERT_NORM},
    {.arch = "hunyuan-dense",
     .required = LLAMA | QK_NORM,
     .flags = TRAIT_NEOX,
     .attention = ATTN_TRAIT_LATE_NORMS},
    {.arch = "hunyuan-moe",
     .required = LLAMA | QK_NORM,
     .flags = TRAIT_NEOX | TRAIT_EXPERT_NORM,
     .attention = ATTN_TRAIT_LATE_NORMS,
     .experts = EXPERT_TRAIT_SHARED},
    {.arch = "seed_oss",
     .required = BIT(ATTN_NORM) | BIT(ATTN_POST_NORM_AS_FFN) | ATTENTION | GATED_FFN,
     .flags = TRAIT_NEOX},
    {.arch = "exaone4",
     .required = ATTENTION | GATED_FFN | POST_NORMS | QK_NORM,
     .flags = TRAIT_NEOX | TRAIT_FULL_NO_ROPE,
     .attention = ATTN_TRAIT_PLAIN_ROPE,
     .window_period = 4},
    {.arch = "olmoe", .required = LLAMA | QK_NORM, .flags = TRAIT_NEOX | TRAIT_QK_ROW},
    {.arch = "phimoe",
     .required = ATTN_NORM_B | FFN_NORM_B | ATTENTION | GATED_FFN,
     .flags = TRAIT_NEOX,
     .experts = EXPERT_TRAIT_MIXER,
     .norm = NORM_LAYER,
     .eps_key = "attention.layer_norm_rms_epsilon"},
    {.arch = "dots1", .required = LLAMA | QK_NORM, .flags = TRAIT_NEOX},
    {.arch = "minimax-m2",
     .required = LLAMA | QK_NORM,
     .flags = TRAIT_NEOX | TRAIT_QK_ROW | TRAIT_EXPERT_NORM},
    {.arch = "mistral3",
     .required = LLAMA,
     .flags = TRAIT_EXPERT_NORM | TRAIT_PAIRED_ROWS,
     .attention = ATTN_TRAIT_TEMPERATURE | ATTN_TRAIT_YARN_WHOLE},
    {.arch = "qwen2vl", .required = LLAMA | QKV_BIAS, .flags = TRAIT_NEOX},
    {.arch = "qwen3vl", .required = LLAMA | QK_NORM, .flags = TRAIT_NEOX},
    {.arch = "qwen3vlmoe", .required = LLAMA | QK_NORM, .flags = TRAIT_NEOX | TRAIT_EXPERT_NORM},
    {.arch = "llama4",
     .required = LLAMA,
     .flags = TRAIT_FULL_NO_ROPE,
     .attention = ATTN_TRAIT_CHUNKED | ATTN_TRAIT_PLAIN_ROPE | ATTN_TRAIT_UNIT_NORMS |
                  ATTN_TRAIT_LATE_NORMS | ATTN_TRAIT_TEMPERATURE | ATTN_TRAIT_UNTURNED_WARM,
     .experts = EXPERT_TRAIT_SIGMOID | EXPERT_TRAIT_SHARED | EXPERT_TRAIT_WEIGH_INPUT,
     .window = 8192,
     .window_period = 4,
     .bare_experts = 128,
     .temperature = 0.1f,
     .temperature_length = 8192},
    {.arch = "bitnet",
     .required = LLAMA | BIT(ATTN_SUB_NORM) | BIT(FFN_SUB_NORM),
     .flags = TRAIT_NEOX},
    {.arch = "grok",
     .required = LLAMA | BIT(ATTN_SUM_NORM_AS_POST),
     .optional = BIT(FFN_POST_NORM) | BIT(FFN_SUM_NORM_AS_POST),
     .flags = TRAIT_NEOX,
     .attention = ATTN_TRAIT_OUTPUT_SCALE,
     .experts = EXPERT_TRAIT_BESIDE,
     .act = KERN_ACT_GELU,
     .attn_cap = 30.0f,
     .embed_scale = 78.38367176906169f,
     .logit_scale = 0.5773502691896257f,
     .attn_scale = 0.08838834764831845f,
     .router_cap = 30.0f},
    {.arch = "qwen3next",
     .required = QWEN_NEXT,
     .optional = BIT(SHARED_GATE),
     .flags = TRAIT_NEOX | TRAIT_EXPERT_NORM | TRAIT_MTP,
     .attention = ATTN_TRAIT_GATED | ATTN_TRAIT_WHOLE_SECTIONS,
     .recurrent = RECURRENT_DELTA,
     .recurrence = RECURRENT_TRAIT_PERIOD},
    {.arch = "qwen35",
     .required = QWEN_NEXT,
     .flags = TRAIT_NEOX | TRAIT_MTP,
     .attention = ATTN_TRAIT_GATED | ATTN_TRAIT_WHOLE_SECTIONS,
     .recurrent = RECURRENT_DELTA,
     .recurrence = RECURRENT_TRAIT_PERIOD | RECURRENT_TRAIT_SPREAD},
    {.arch = "qwen35moe",
     .required = QWEN_NEXT,
     .optional = BIT(SHARED_GATE),
     .flags = TRAIT_NEOX | TRAIT_EXPERT_NORM | TRAIT_MTP,
     .attention = ATTN_TRAIT_GATED | ATTN_TRAIT_WHOLE_SECTIONS,
     .recurrent = RECURRENT_DELTA,
     .recurrence = RECURRENT_TRAIT_PERIOD | RECURRENT_TRAIT_SPREAD},
    {.arch = "lfm2",
     .required = LLAMA | QK_NORM,
     .flags = TRAIT_NEOX | TRAIT_OUT_NORM_AS_EMBED,
     .recurrent = RECURRENT_CONV},
    {.arch = "lfm2moe",
     .required = LLAMA | QK_NORM,
     .flags = TRAIT_NEOX | TRAIT_OUT_NORM_AS_EMBED | TRAIT_EXPERT_NORM,
     .experts = EXPERT_TRAIT_SIGMOID,
     .recurrent = RECURRENT_CONV},
    {.arch = "kimi-linear",
     .required = PRE_NORMS | LATENT | GATED_FFN,
     .flags = TRAIT_MLA | TRAIT_EXPERT_NORM,
     .attention = ATTN_TRAIT_UNTURNED,
     .experts = EXPERT_TRAIT_SIGMOID,
     .recurrent = RECURRENT_DELTA,
     .recurrence = RECURRENT_TRAIT_PER_KEY},
    {.arch = "mamba",
     .required = BIT(ATTN_NORM),
     .recurrent = RECURRENT_MAMBA1,
     .recurrence = RECURRENT_TRAIT_ALL},
    {.arch = "mamba2",
     .required = BIT(ATTN_NORM),
     .recurrent = RECURRENT_MAMBA2,
     .recurrence = RECURRENT_TRAIT_ALL},
    {.arch = "jamba",
     .required = LLAMA,
     .attention = ATTN_TRAIT_UNTURNED,
     .experts = EXPERT_TRAIT_BY_ROUTER,
     .recurrent = RECURRENT_MAMBA1},
    {.arch = "granitehybrid",
     .required = LLAMA,
     .flags = GRANITE,
     .recurrent = RECURRENT_MAMBA2},
    {.arch = "nemotron_h",
     .required = NEMOTRON_H,
     .attention = ATTN_TRAIT_UNTURNED,
     .act = KERN_ACT_RELU_SQR,
     .recurrent = RECURRENT_MAMBA2,
     .recurrence = RECURRENT_TRAIT_ALONE},
    {.arch = "nemotron_h_moe",
     .required = NEMOTRON_H,
     .attention = ATTN_TRAIT_UNTURNED,
     .experts = EXPERT_TRAIT_SIGMOID | EXPERT_TRAIT_LATENT | EXPERT_TRAIT_BY_ROUTER,
     .act = KERN_ACT_RELU_SQR,
     .recurrent = RECURRENT_MAMBA2,
     .recurrence = RECURRENT_TRAIT_ALONE},
    {.arch = "falcon-h1",
     .required = BIT(ATTN_NORM) | BIT(FFN_NORM_BARE) | ATTENTION | GATED_FFN,
     .flags = TRAIT_NEOX,
     .recurrent = RECURRENT_MAMBA2,
     .recurrence = RECURRENT_TRAIT_BESIDE},
    {.arch = "bert",
     .required = ATTENTION | PLAIN_FFN | SUM_NORMS,
     .flags = TRAIT_ENCODER | TRAIT_EMBED_NORM | TRAIT_LEARNED_POS,
     .norm = NORM_LAYER,
     .act = KERN_ACT_GELU_ERF},
    {.arch = "nomic-bert",
     .required = ATTENTION | GATED_FFN | SUM_NORMS,
     .flags = TRAIT_NEOX | TRAIT_ENCODER | TRAIT_EMBED_NORM,
     .norm = NORM_LAYER},
    {.arch = "nomic-bert-moe",
     .required = ATTENTION | PLAIN_FFN | SUM_NORMS,
     .flags = TRAIT_NEOX | TRAIT_ENCODER | TRAIT_EMBED_NORM,
     .norm = NORM_LAYER,
     .act = KERN_ACT_GELU_ERF},
    {.arch = "jina-bert-v2",
     .required = ATTENTION | PLAIN_FFN | SUM_NORMS,
     .optional = BIT(GATE) | QK_NORM_B | BIT(ATTN_NORM_2_AS_INPUT) |
                 BIT(ATTN_NORM_2_AS_INPUT_BIAS),
     .flags = TRAIT_ENCODER | TRAIT_EMBED_NORM | TRAIT_ALIBI | TRAIT_QK_ROW | TRAIT_SINGLE_HEAD,
     .norm = NORM_LAYER,
     .act = KERN_ACT_GELU_ERF},
    {.arch = "jina-bert-v3",
     .required = ATTENTION | PLAIN_FFN | SUM_NORMS,
     .flags = TRAIT_NEOX | TRAIT_ENCODER | TRAIT_EMBED_NORM,
     .norm = NORM_LAYER,
     .act = KERN_ACT_GELU_ERF},
    {.arch = "modern-bert",
     .required = LLAMA,
     .optional = BIT(ATTN_NORM_BIAS) | BIT(FFN_NORM_BIAS),
     .flags = TRAIT_NEOX | TRAIT_ENCODER | TRAIT_EMBED_NORM | TRAIT_OUT_NORM | TRAIT_WINDOW_ROPE |
              TRAIT_FULL_FIRST | TRAIT_BARE_FIRST | TRAIT_ACT_KEY | TRAIT_MEAN_HEAD |
              TRAIT_DECIDES,
     .norm = NORM_LAYER,
     .act = KERN_ACT_GELU_ERF,
     .window_base = 10000.0f,
     .window_period = 3},
    {.arch = "eurobert",
     .required = LLAMA,
     .flags = TRAIT_NEOX | TRAIT_ENCODER | TRAIT_OUT_NORM},
    {.arch = "gemma-embedding",
     .required = LLAMA | POST_NORMS | QK_NORM,
     .flags = TRAIT_NEOX | TRAIT_ENCODER | TRAIT_EMBED_ROOT | TRAIT_OUT_NORM | TRAIT_WINDOW_ROPE |
              TRAIT_PROJECTED,
     .act = KERN_ACT_GELU,
     .window_base = 10000.0f,
     .window_period = 6},
};

#define VECTOR(name, n, each, member)                                                              \
    {                                                                                              \
        .suffix = name, .n_in = DIM_##n, .n_out = DIM_##each,                                      \
        .offset = offsetof(struct model_layer, member)                                             \
    }
#define MATRIX(name, in, out, each, member)                                                        \
    {                                                                                              \
        .suffix = name, .is_matrix = true, .n_in = DIM_##in, .n_out = DIM_##out,                   \
        .n_each = DIM_##each, .offset = offsetof(struct model_layer, member)                       \
    }

static const struct layer_tensor_row layer_tensors[] = {
    [LAYER_ATTN_NORM] = VECTOR("attn_norm.weight", EMBD, ONE, attn_norm.weight),
    [LAYER_ATTN_NORM_AS_FFN] = VECTOR("attn_norm.weight", EMBD, ONE, ffn_norm.weight),
    [LAYER_ATTN_NORM_BIAS] = VECTOR("attn_norm.bias", EMBD, ONE, attn_norm.bias),
    [LAYER_ATTN_NORM_2] = VECTOR("attn_norm_2.weight", EMBD, ONE, ffn_norm.weight),
    [LAYER_ATTN_NORM_2_BIAS] = VECTOR("attn_norm_2.bias", EMBD, ONE, ffn_norm.bias),
    [LAYER_Q] = MATRIX("attn_q.weight", EMBD, Q, ONE, q),
    [LAYER_K] = MATRIX("attn_k.weight", EMBD, K, ONE, k),
    [LAYER_V] = MATRIX("attn_v.weight", EMBD, V, ONE, v),
    [LAYER_Q_BIAS] = VECTOR("attn_q.bias", Q, ONE, q_bias),
    [LAYER_K_BIAS] = VECTOR("attn_k.bias", K, ONE, k_bias),
    [LAYER_V_BIAS] = VECTOR("attn_v.bias", V, ONE, v_bias),
    [LAYER_Q_NORM] = VECTOR("attn_q_norm.weight", Q_NORM, QK_HEADS, q_norm.weight),
    [LAYER_K_NORM] = VECTOR("attn_k_norm.weight", K_NORM, QK_KV_HEADS, k_norm.weight),
    [LAYER_Q_NORM_BIAS] = VECTOR("attn_q_norm.bias", Q_NORM, QK_HEADS, q_norm.bias),
    [LAYER_K_NORM_BIAS] = VECTOR("attn_k_norm.bias", K_NORM, QK_KV_HEADS, k_norm.bias),
    [LAYER_SINKS] = VECTOR("attn_sinks.weight", HEADS, ONE, sinks),
    [LAYER_ATTN_OUT] = MATRIX("attn_output.weight", ATTN_OUT, EMBD, ONE, attn_out),
    [LAYER_ATTN_OUT_BIAS] = VECTOR("attn_output.bias", EMBD, ONE, attn_out_bias),
    [LAYER_ATTN_POST_NORM] =
        VECTOR("post_attention_norm.weight", EMBD, ONE, attn_post_norm.weight),
    [LAYER_ATTN_POST_NORM_AS_FFN] =
        VECTOR("post_attention_norm.weight", EMBD, ONE, ffn_norm.weight),
    [LAYER_ATTN_SUM_NORM] = VECTOR("attn_output_norm.weight", EMBD, ONE, attn_sum_norm.weight),
    [LAYER_ATTN_SUM_NORM_BIAS] = VECTOR("attn_output_norm.bias", EMBD, ONE, attn_sum_norm.bias),
    [LAYER_ATTN_NORM_2_AS_INPUT] =
        VECTOR("attn_norm_2.weight", EMBD, ONE, attn_input_norm.weight),
    [LAYER_ATTN_NORM_2_AS_INPUT_BIAS] =
        VECTOR("attn_norm_2.bias", EMBD, ONE, attn_input_norm.bias),
    [LAYER_FFN_NORM] = VECTOR("ffn_norm.weight", EMBD, ONE, ffn_norm.weight),
    [LAYER_FFN_NORM_BIAS] = VECTOR("ffn_norm.bias", EMBD, ONE, ffn_norm.bias),
    [LAYER_FFN_NORM_BARE] = VECTOR("ffn_norm", EMBD, ONE, ffn_norm.weight),
    [LAYER_GATE] = MATRIX("ffn_gate.weight", EMBD, FF, ONE, ffn.gate),
    [LAYER_UP] = MATRIX("ffn_up.weight", EMBD, FF, ONE, ffn.up),
    [LAYER_DOWN] = MATRIX("ffn_down.weight", FF, EMBD, ONE, ffn.down),
    [LAYER_GATE_BIAS] = VECTOR("ffn_gate.bias", FF, ONE, ffn.gate_bias),
    [LAYER_UP_BIAS] = VECTOR("ffn_up.bias", FF, ONE, ffn.up_bias),
    [LAYER_DOWN_BIAS] = VECTOR("ffn_down.bias", EMBD, ONE, ffn.down_bias),
    [LAYER_ROUTER] = MATRIX("ffn_gate_inp.weight", EMBD, EXPERTS, ONE, router),
    [LAYER_ROUTER_BIAS] = VECTOR("ffn_gate_inp.bias", EXPERTS, ONE, router_bias),
    [LAYER_CHOICE_BIAS] = VECTOR("exp_probs_b.bias", EXPERTS, ONE, choice_bias),
    [LAYER_GATE_EXPERTS] =
        MATRIX("ffn_gate_exps.weight", EXPERT_IN, FF_EXPERT, EXPERTS, experts.gate),
    [LAYER_UP_EXPERTS] = MATRIX("ffn_up_exps.weight", EXPERT_IN, FF_EXPERT, EXPERTS, experts.up),
    [LAYER_DOWN_EXPERTS] =
        MATRIX("ffn_down_exps.weight", FF_EXPERT, EXPERT_IN, EXPERTS, experts.down),
    [LAYER_EXPERTS_IN] = MATRIX("ffn_latent_down.weight", EMBD, EXPERT_IN, ONE, experts_in),
    [LAYER_EXPERTS_OUT] = MATRIX("ffn_latent_up.weight", EXPERT_IN, EMBD, ONE, experts_out),
    [LAYER_GATE_EXPERTS_BIAS] =
        VECTOR("ffn_gate_exps.bias", FF_EXPERT, EXPERTS, experts.gate_bias),
    [LAYER_UP_EXPERTS_BIAS] = VECTOR("ffn_up_exps.bias", FF_EXPERT, EXPERTS, experts.up_bias),
    [LAYER_DOWN_EXPERTS_BIAS] =
        VECTOR("ffn_down_exps.bias", EXPERT_IN, EXPERTS, experts.down_bias),
    [LAYER_GATE_SHARED] = MATRIX("ffn_gate_shexp.weight", EMBD, FF_SHARED, ONE, ffn.gate),
    [LAYER_UP_SHARED] = MATRIX("ffn_up_shexp.weight", EMBD, FF_SHARED, ONE, ffn.up),
    [LAYER_DOWN_SHARED] = MATRIX("ffn_down_shexp.weight", FF_SHARED, EMBD, ONE, ffn.down),
    [LAYER_SHARED_GATE] = MATRIX("ffn_gate_inp_shexp.weight", EMBD, ONE, ONE, shared_gate),
    [LAYER_FFN_POST_NORM] = VECTOR("post_ffw_norm.weight", EMBD, ONE, ffn_post_norm.weight),
    [LAYER_FFN_SUM_NORM] = VECTOR("layer_output_norm.weight", EMBD, ONE, ffn_sum_norm.weight),
    [LAYER_FFN_SUM_NORM_BIAS] = VECTOR("layer_output_norm.bias", EMBD, ONE, ffn_sum_norm.bias),
    [LAYER_Q_DOWN] = MATRIX("attn_q_a.weight", EMBD, LORA_Q, ONE, q_down),
    [LAYER_Q_DOWN_NORM] = VECTOR("attn_q_a_norm.weight", LORA_Q, ONE, q_down_norm.weight),
    [LAYER_Q_UP] = MATRIX("attn_q_b.weight", LORA_Q, Q, ONE, q),
    [LAYER_LATENT] = MATRIX("attn_kv_a_mqa.weight", EMBD, K, ONE, k),
    [LAYER_LATENT_NORM] = VECTOR("attn_kv_a_norm.weight", LATENT, ONE, latent_norm.weight),
    [LAYER_KEY_UP] = MATRIX("attn_k_b.weight", NOPE, LATENT, HEADS, key_up),
    [LAYER_VALUE_UP] = MATRIX("attn_v_b.weight", LATENT, HEAD_OUT, HEADS, value_up),
    [LAYER_ATTN_SUB_NORM] = VECTOR("attn_sub_norm.weight", ATTN_OUT, ONE, attn_sub_norm.weight),
    [LAYER_FFN_SUB_NORM] = VECTOR("ffn_sub_norm.weight", FF, ONE, ffn_sub_norm.weight),
    [LAYER_ATTN_SUM_NORM_AS_POST] =
        VECTOR("attn_output_norm.weight", EMBD, ONE, attn_post_norm.weight),
    [LAYER_FFN_SUM_NORM_AS_POST] =
        VECTOR("layer_output_norm.weight", EMBD, ONE, ffn_post_norm.weight),
    [LAYER_ROUTER_NORM] = VECTOR("ffn_gate_inp.scale", EMBD, ONE, router_norm.weight),
    [LAYER_EXPERTS_NORM] = VECTOR("pre_ffw_norm_2.weight", EMBD, ONE, experts_norm.weight),
    [LAYER_BESIDE_POST_NORM] =
        VECTOR("post_ffw_norm_1.weight", EMBD, ONE, beside_post_norm.weight),
    [LAYER_EXPERTS_POST_NORM] =
        VECTOR("post_ffw_norm_2.weight", EMBD, ONE, experts_post_norm.weight),
    [LAYER_PER_LAYER_GATE] = MATRIX("inp_gate.weight", EMBD, PER_LAYER, ONE, per_layer_gate),
    [LAYER_PER_LAYER_OUT] = MATRIX("proj.weight", PER_LAYER, EMBD, ONE, per_layer_out),
    [LAYER_PER_LAYER_POST_NORM] =
        VECTOR("post_norm.weight", EMBD, ONE, per_layer_post_norm.weight),
    [LAYER_STREAM_ROUTER] = MATRIX("altup_router.weight", EMBD, STREAMS, ONE, stream_router),
    [LAYER_STREAM_ROUTER_NORM] =
        VECTOR("altup_router_norm.weight", EMBD, ONE, stream_router_norm.weight),
    [LAYER_STREAM_PREDICT] =
        MATRIX("altup_predict_coef.weight", STREAMS, STREAMS_SQUARED, ONE, stream_predict),
    [LAYER_STREAM_CORRECT] =
        MATRIX("altup_correct_coef.weight", STREAMS, STREAMS, ONE, stream_correct),
    [LAYER_STREAM_SCALE] = VECTOR("altup_correct_scale.weight", EMBD, ONE, stream_scale),
    [LAYER_LAUREL_IN] = MATRIX("laurel_l.weight", EMBD, LAUREL, ONE, laurel_in),
    [LAYER_LAUREL_OUT] = MATRIX("laurel_r.weight", LAUREL, EMBD, ONE, laurel_out),
    [LAYER_LAUREL_NORM] = VECTOR("laurel_post_norm.weight", EMBD, ONE, laurel_norm.weight),
    [LAYER_OUT_SCALE] = VECTOR("layer_output_scale.weight", ONE, ONE, out_scale),
};
_Static_assert(sizeof(layer_tensors) / sizeof(layer_tensors[0]) == LAYER_N_TENSOR,
               "a row for every tensor of a layer");
_Static_assert(LAYER_N_TENSOR <= 8 * sizeof(tensor_set), "a bit for every tensor of a layer");

static const struct fused_row fused[] = {
    {"attn_qkv.weight", 3, {LAYER_Q, LAYER_K, LAYER_V}},
    {"attn_qkv.bias", 3, {LAYER_Q_BIAS, LAYER_K_BIAS, LAYER_V_BIAS}},
    {"ffn_up.weight", 2, {LAYER_GATE, LAYER_UP}},
    {"ffn_up.bias", 2, {LAYER_GATE_BIAS, LAYER_UP_BIAS}},
    {"ffn_gate_up_exps.weight", 2, {LAYER_GATE_EXPERTS, LAYER_UP_EXPERTS}},
    {"ffn_gate_up_exps.bias", 2, {LAYER_GATE_EXPERTS_BIAS, LAYER_UP_EXPERTS_BIAS}},
};

const struct traits *traits_at(size_t i)
{
    return i < sizeof(table) / sizeof(table[0]) ? &table[i] : NULL;
}

const struct traits *traits_find(struct gguf_str arch)
{
    const struct traits *t;

    for (size_t i = 0; (t = traits_at(i)) != NULL; i++)
        if (strlen(t->arch) == arch.len && memcmp(t->arch, arch.data, arch.len) == 0)
            return t;
    return NULL;
}

/* Remove the tensors of the parts that the layer lacks. */
static void drop_parts(struct traits_tensors *set, const struct model_layer *of)
{
    tensor_set lacks = 0;

    if (!of->has_attention)
        lacks |= ATTENTION_PARTS;
    if (!of->has_ffn)
        lacks |= FFN_PARTS;
    if (!of->has_attention && of->recurrent == RECURRENT_NONE) {
        lacks |= BIT(ATTN_NORM);
        set->required |= BIT(ATTN_NORM_AS_FFN);
    }
    set->required &= ~lacks;
    set->optional &= ~lacks;
}

/* Experts take the place of the dense net; they must have a gate if the dense net must. */
struct traits_tensors traits_tensors(const struct traits *t, const struct model_shape *s,
                                     uint32_t i, const struct model_layer *of, bool has_experts)
{
    struct traits_tensors set = {t->required, t->optional | BIASES};

    if (i >= s->n_layer - s->n_head_layers && i < s->n_layer)
        return (struct traits_tensors){.required = DECIDER};
    if (i == 0 && (t->flags & TRAIT_BARE_FIRST) != 0) {
        set.required &= ~BIT(ATTN_NORM);
        set.optional |= BIT(ATTN_NORM);
    }
    if (has_experts) {
        set.required = (set.required & ~(s->has_beside ? 0 : GATED_FFN)) | EXPERTS;
        set.optional = (set.optional & ~(BIT(GATE_BIAS) | BIT(UP_BIAS) | BIT(DOWN_BIAS))) |
                       EXPERT_BIASES;
        if (s->n_ff_shared > 0)
            set.required |= SHARED_EXPERT;
        if ((t->required & BIT(GATE)) == 0)
            set.required &= ~(BIT(GATE_EXPERTS) | BIT(GATE_SHARED));
        if (s->n_moe_latent > 0)
            set.required |= BIT(EXPERTS_IN) | BIT(EXPERTS_OUT);
        if ((t->experts & EXPERT_TRAIT_APART) != 0)
            set.required |= APART_NORMS;
    } else {
        set.optional &= ~BIT(SHARED_GATE);
    }
    if (((t->required | t->optional) & BIT(GATE)) == 0)
        set.optional &= ~(BIT(GATE_BIAS) | BIT(GATE_EXPERTS_BIAS));
    if (s->n_shared_kv > 0 && i >= s->n_layer - s->n_shared_kv) {
        set.required &= ~KEYS_VALUES;
        set.optional &= ~(KEYS_VALUES | BIT(K_BIAS) | BIT(V_BIAS));
    }
    if (s->n_per_layer > 0)
        set.required |= PER_LAYER;
    if ((t->flags & TRAIT_MLA) != 0) {
        set.optional &= ~QKV_BIAS;
        set.required |= s->n_lora_q > 0 ? BIT(Q_DOWN) | BIT(Q_DOWN_NORM) | BIT(Q_UP) : BIT(Q);
    }
    if ((t->attention & ATTN_TRAIT_GATED) != 0)
        set.optional &= ~QKV_BIAS;
    drop_parts(&set, of);
    return set;
}

const struct layer_tensor_row *traits_layer_tensor(enum layer_tensor t)
{
    return &layer_tensors[t];
}

const struct fused_row *traits_fused(size_t i)
{
    return i < sizeof(fused) / sizeof(fused[0]) ? &fused[i] : NULL;
}

uint32_t traits_dim(const struct model_shape *s, enum dim dim)
{
    switch (dim) {
    case DIM_ONE:
        return 1;
    case DIM_EMBD:
        return s->n_embd;
    case DIM_Q:
        return s->n_head * (s->n_latent > 0 ? s->n_nope + s->n_rot : s->key_dim);
    case DIM_K:
        return s->n_kv_head * s->key_dim;
    case DIM_V:
        return s->n_kv_head * s->value_dim;
    case DIM_HEADS:
        return s->n_head;
    case DIM_QK_HEADS:
        return s->qk_norm == QK_NORM_EACH_HEAD ? s->n_head : 1;
    case DIM_QK_KV_HEADS:
        return s->qk_norm == QK_NORM_EACH_HEAD ? s->n_kv_head : 1;
    case DIM_Q_NORM:
        return s->qk_norm == QK_NORM_ROW ? s->n_head * s->key_dim : s->key_dim;
    case DIM_K_NORM:
        return s->qk_norm == QK_NORM_ROW ? s->n_kv_head * s->key_dim : s->key_dim;
    case DIM_ATTN_OUT:
        return s->n_head * s->head_out;
    case DIM_HEAD_OUT:
        return s->head_out;
    case DIM_FF:
        return s->n_ff;
    case DIM_FF_EXPERT:
        return s->n_ff_expert;
    case DIM_FF_SHARED:
        return s->n_ff_shared;
    case DIM_EXPERTS:
        return s->n_expert;
    case DIM_EXPERT_IN:
        return s->n_moe_latent > 0 ? s->n_moe_latent : s->n_embd;
    case DIM_LORA_Q:
        return s->n_lora_q;
    case DIM_LATENT:
        return s->n_latent;
    case DIM_NOPE:
        return s->n_nope;
    case DIM_PER_LAYER:
        return s->n_per_layer;
    case DIM_STREAMS:
        return s->n_streams;
    case DIM_STREAMS_SQUARED:
        return s->n_streams * s->n_streams;
    case DIM_LAUREL:
        return s->n_laurel;
    }
    return 0;
}
