/* core/model/traits.h - two tables that say how architectures differ.
 *
 * All of them are transformers of the same parts (model.h). A row of the first table, one an
 * architecture, says which tensors a layer has, its norms, rotation and activation, and the
 * defaults of metadata that its files leave out. A row of the second, one a tensor, gives the
 * tensor's name, its dimensions and its member of struct model. Biases of products are optional
 * everywhere: a file that has one was trained with it.
 *
 * Sources: the models' own descriptions, and for names and conventions the GGUF files as
 * convert_hf_to_gguf.py of llama.cpp writes them.
 *
 * Thread: any; the tables are constant.
 * Memory: none.
 */
#ifndef CORE_MODEL_TRAITS_H
#define CORE_MODEL_TRAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/formats/gguf/gguf.h"
#include "core/model/model.h"

enum dim {
    DIM_ONE = 0,
    DIM_EMBD,
    DIM_Q,         /* n_head x the width of a head's query (before MLA's key_up) */
    DIM_K,         /* outputs of k: n_kv_head x key_dim; with MLA its latent and rotated part */
    DIM_V,
    DIM_HEADS,
    DIM_QK_HEADS,  /* 1, or the number of heads if each has norm weights of its own */
    DIM_QK_KV_HEADS,
    DIM_Q_NORM,    /* width of the norm of queries: one head, or all heads */
    DIM_K_NORM,
    DIM_ATTN_OUT,  /* n_head x head_out */
    DIM_HEAD_OUT,
    DIM_FF,
    DIM_FF_EXPERT,
    DIM_FF_SHARED,
    DIM_EXPERTS,
    DIM_EXPERT_IN, /* width of an expert's input and output: n_moe_latent, or n_embd if that is 0 */
    DIM_LORA_Q,
    DIM_LATENT,
    DIM_NOPE,
    DIM_PER_LAYER,
    DIM_STREAMS,
    DIM_STREAMS_SQUARED,
    DIM_LAUREL,
};

enum layer_tensor {
    LAYER_ATTN_NORM = 0,
    LAYER_ATTN_NORM_AS_FFN, /* the only norm of a layer that is a feed-forward net alone */
    LAYER_ATTN_NORM_BIAS,
    LAYER_ATTN_NORM_2, /* norm of attention only; attn_norm is then the feed-forward net's */
    LAYER_ATTN_NORM_2_BIAS,
    LAYER_Q,
    LAYER_K,
    LAYER_V,
    LAYER_Q_BIAS,
    LAYER_K_BIAS,
    LAYER_V_BIAS,
    LAYER_Q_NORM,
    LAYER_K_NORM,
    LAYER_Q_NORM_BIAS,
    LAYER_K_NORM_BIAS,
    LAYER_SINKS,
    LAYER_ATTN_OUT,
    LAYER_ATTN_OUT_BIAS,
    LAYER_ATTN_POST_NORM,
    LAYER_ATTN_POST_NORM_AS_FFN, /* gpt-oss: the name of the norm before the experts */
    LAYER_ATTN_SUM_NORM,
    LAYER_ATTN_SUM_NORM_BIAS,
    LAYER_ATTN_NORM_2_AS_INPUT, /* jina-bert-v2: norm of the sum with attention's input */
    LAYER_ATTN_NORM_2_AS_INPUT_BIAS,
    LAYER_FFN_NORM,
    LAYER_FFN_NORM_BIAS,
    LAYER_FFN_NORM_BARE, /* falcon-h1: its name has no ending */
    LAYER_GATE,
    LAYER_UP,
    LAYER_DOWN,
    LAYER_GATE_BIAS,
    LAYER_UP_BIAS,
    LAYER_DOWN_BIAS,
    LAYER_ROUTER,
    LAYER_ROUTER_BIAS,
    LAYER_CHOICE_BIAS,
    LAYER_GATE_EXPERTS,
    LAYER_UP_EXPERTS,
    LAYER_DOWN_EXPERTS,
    LAYER_EXPERTS_IN,
    LAYER_EXPERTS_OUT,
    LAYER_GATE_EXPERTS_BIAS,
    LAYER_UP_EXPERTS_BIAS,
    LAYER_DOWN_EXPERTS_BIAS,
    LAYER_GATE_SHARED,
    LAYER_UP_SHARED,
    LAYER_DOWN_SHARED,
    LAYER_SHARED_GATE,
    LAYER_FFN_POST_NORM,
    LAYER_FFN_SUM_NORM,
    LAYER_FFN_SUM_NORM_BIAS,
    LAYER_Q_DOWN,
    LAYER_Q_DOWN_NORM,
    LAYER_Q_UP,
    LAYER_LATENT,
    LAYER_LATENT_NORM,
    LAYER_KEY_UP,
    LAYER_VALUE_UP,
    LAYER_ATTN_SUB_NORM,
    LAYER_FFN_SUB_NORM,
    LAYER_ATTN_SUM_NORM_AS_POST, /* grok's names of the norms of the branches' outputs */
    LAYER_FFN_SUM_NORM_AS_POST,
    LAYER_ROUTER_NORM,
    LAYER_EXPERTS_NORM,
    LAYER_BESIDE_POST_NORM,
    LAYER_EXPERTS_POST_NORM,
    LAYER_PER_LAYER_GATE,
    LAYER_PER_LAYER_OUT,
    LAYER_PER_LAYER_POST_NORM,
    LAYER_OUT_SCALE,
    LAYER_STREAM_ROUTER,
    LAYER_STREAM_ROUTER_NORM,
    LAYER_STREAM_PREDICT,
    LAYER_STREAM_CORRECT,
    LAYER_STREAM_SCALE,
    LAYER_LAUREL_IN,
    LAYER_LAUREL_OUT,
    LAYER_LAUREL_NORM,
    LAYER_N_TENSOR,
};

/* A set of a layer's tensors: bit i is number i of enum layer_tensor. */
__extension__ typedef unsigned __int128 tensor_set;

struct layer_tensor_row {
    const char *suffix; /* the name after "blk.N." */
    bool is_matrix;     /* struct matrix at `offset`, else const float * */
    enum dim n_in, n_out;
    enum dim n_each;    /* number of matrices: DIM_ONE, or one for each expert or head */
    size_t offset;      /* offset of the member in struct model_layer */
};

/* A tensor that has the rows of several tensors, in files that lack these. */
#define FUSED_MAX_PARTS 3
struct fused_row {
    const char *suffix;
    int n_parts;
    enum layer_tensor parts[FUSED_MAX_PARTS];
};

enum trait_flag {
    TRAIT_NEOX = 1 << 0,           /* rope pairs dimension j with j + n_rot/2 */
    TRAIT_PARALLEL = 1 << 1,       /* both branches take the same x ... */
    TRAIT_PARALLEL_KEY = 1 << 2,   /* ... if use_parallel_residual says so */
    TRAIT_PARALLEL_BARE = 1 << 3,  /* ... if the file has no norm before the second */
    TRAIT_ENCODER = 1 << 4,
    TRAIT_LEARNED_POS = 1 << 5,    /* positions are embedded; no rope */
    TRAIT_EMBED_ROOT = 1 << 6,     /* embeddings are scaled by sqrt(n_embd) */
    TRAIT_LOGIT_DIVIDE = 1 << 7,   /* logit_scale divides */
    TRAIT_EXPERT_NORM = 1 << 8,    /* unless expert_weights_norm says otherwise */
    TRAIT_FULL_NO_ROPE = 1 << 9,   /* layers without a window are not rotated */
    TRAIT_WINDOW_ROPE = 1 << 10,   /* layers with a window have a table of their own, not scaled */
    TRAIT_YARN_EXACT = 1 << 11,    /* yarn's range of dimensions is not rounded */
    TRAIT_QK_ROW = 1 << 12,        /* norms of queries and keys are taken over all heads */
    TRAIT_QK_EACH = 1 << 13,       /* ... over each head, with weights of its own */
    TRAIT_MLA = 1 << 14,
    TRAIT_ROPE_SWITCH = 1 << 15,   /* rope.scaling.finetuned false: no layer is rotated */
    TRAIT_PAIRED_ROWS = 1 << 25,   /* GGUF files have rows of q and k in another order than the
                                    * published weights: pairs that rotate are neighbours */
    TRAIT_EMBED_NORM = 1 << 16,    /* an encoder's embeddings are normed ... */
    TRAIT_OUT_NORM = 1 << 17,      /* ... and its last states */
    TRAIT_FULL_FIRST = 1 << 18,    /* of each window_period layers the first sees all tokens, not
                                    * the last */
    TRAIT_BARE_FIRST = 1 << 19,    /* layer 0 may have no norm before attention */
    TRAIT_ACT_KEY = 1 << 20,       /* hidden_activation may name another activation */
    TRAIT_MEAN_HEAD = 1 << 21,     /* see enum head_kind */
    TRAIT_PROJECTED = 1 << 22,     /* there may be dense layers after the pooling */
    TRAIT_ALIBI = 1 << 23,         /* scores fall with the distance of tokens (ALiBi); no rope */
    TRAIT_SINGLE_HEAD = 1 << 24,   /* a classifier may have cls alone, without cls.output */
    TRAIT_OUT_NORM_AS_EMBED = 1 << 26, /* the last norm has the name of the embedding's */
    TRAIT_DECIDES = 1 << 28,       /* the last decision.block_count layers may be a head for
                                    * decisions */
    TRAIT_MTP = 1 << 27,           /* a layer after the last one, if any, guesses tokens (struct
                                    * model_mtp), and has the tensors of the last layers */
};

/* Differences in attention. */
enum attn_trait {
    ATTN_TRAIT_LATE_NORMS = 1 << 0,    /* queries and keys are normed after their rotation */
    ATTN_TRAIT_TEMPERATURE = 1 << 1,   /* queries grow with their position if the keys say so */
    ATTN_TRAIT_YARN_WHOLE = 1 << 2,    /* yarn_log_multiplier is the weight itself, not a tenth of
                                        * it */
    ATTN_TRAIT_SECTION_HALVES = 1 << 3, /* TRAIT_NEOX where positions have several sections */
    ATTN_TRAIT_PLAIN_ROPE = 1 << 4,    /* TRAIT_FULL_NO_ROPE holds only where some have a window */
    ATTN_TRAIT_CHUNKED = 1 << 5,       /* windows begin at multiples of their size */
    ATTN_TRAIT_UNIT_NORMS = 1 << 6,    /* rotated queries and keys have norms without weights */
    ATTN_TRAIT_UNIT_VALUES = 1 << 8,   /* values have norms without weights */
    ATTN_TRAIT_OUTPUT_SCALE = 1 << 10, /* output_scale is the scale of scores; routers may be
                                        * capped */
    ATTN_TRAIT_SHARED_KV = 1 << 9,     /* the last layers may use keys and values of a layer before
                                        * them */
    ATTN_TRAIT_UNTURNED_WARM = 1 << 7, /* only layers without rope have a temperature; it counts
                                        * positions from 1 */
    ATTN_TRAIT_GATED = 1 << 11,        /* attn_q has a head's query and then its gate (attn_gate) */
    ATTN_TRAIT_UNTURNED = 1 << 12,     /* nothing is rotated, whatever the keys of rope say */
    ATTN_TRAIT_WHOLE_SECTIONS = 1 << 13, /* sections must cover all rotated pairs */
};

/* Differences in mixtures of experts. */
enum expert_trait {
    EXPERT_TRAIT_SIGMOID = 1 << 0,     /* the router's gate where the file does not say ... */
    EXPERT_TRAIT_SIGMOID_BIASED = 1 << 1, /* ... or so if there are biases of the choice */
    EXPERT_TRAIT_MIXER = 1 << 2,       /* see EXPERT_MIXER */
    EXPERT_TRAIT_SHARED = 1 << 3,      /* there is a shared expert, as wide as one expert if no key
                                        * says otherwise */
    EXPERT_TRAIT_WEIGH_INPUT = 1 << 4, /* weights multiply the experts' inputs */
    EXPERT_TRAIT_BESIDE = 1 << 5,      /* the dense net may stay beside the experts: see
                                        * moe_scale */
    EXPERT_TRAIT_APART = 1 << 6,       /* the dense net stays, with other norms than the experts and
                                        * the router */
    EXPERT_TRAIT_LATENT = 1 << 7,      /* experts may have a narrower input than x (n_moe_latent) */
    EXPERT_TRAIT_BY_ROUTER = 1 << 8,   /* a layer has experts if it has a router */
};

/* Differences in recurrent layers. Without one of the first three, layers without KV heads are
 * recurrent. */
enum recurrent_trait {
    RECURRENT_TRAIT_PERIOD = 1 << 0, /* recurrent_layers tells which, or full_attention_interval:
                                      * all but the last layer of a period */
    RECURRENT_TRAIT_ALL = 1 << 1,    /* all layers are; they have neither attention nor FFN */
    RECURRENT_TRAIT_BESIDE = 1 << 2, /* all layers are, and have attention as well */
    RECURRENT_TRAIT_ALONE = 1 << 3,  /* a layer has a mixer or a feed-forward net, not both */
    RECURRENT_TRAIT_SPREAD = 1 << 4, /* sets recurrent_shape.is_spread */
    RECURRENT_TRAIT_PER_KEY = 1 << 5, /* sets recurrent_shape.is_per_key */
};

struct traits {
    const char *arch;  /* general.architecture, and the prefix of its keys */
    tensor_set required; /* tensors that a layer must have; layers with experts: see
                          * traits_tensors() */
    tensor_set optional;
    uint32_t flags;     /* enum trait_flag */
    uint32_t attention; /* enum attn_trait */
    uint32_t experts;   /* enum expert_trait */
    enum recurrent_kind recurrent; /* kind of the recurrent layers */
    uint32_t recurrence; /* enum recurrent_trait */
    enum norm_kind norm;
    const char *eps_key; /* key of the norms' epsilon; NULL: the usual key for the kind of norm */
    enum kern_act act;
    float rope_base;        /* default of the rope base; 0: 10000 */
    float window_base;      /* with TRAIT_WINDOW_ROPE: rope base of layers with a window; 0: as
                             * without a window */
    uint32_t window;        /* window for files without the key */
    uint32_t window_period; /* one of so many layers sees all tokens; 0: none does */
    uint32_t no_rope_period; /* the last of each so many layers is not rotated; 0: no such period */
    float attn_cap, logit_cap; /* soft caps for files without the keys */
    uint32_t wide_layers;   /* with this many layers, scores are scaled by 1/sqrt(n_embd /
                             * n_head) */
    uint32_t bare_experts;  /* with this many experts, there are no ATTN_TRAIT_UNIT_NORMS */
    /* defaults for files that lack the keys; 0: the usual value */
    float temperature;
    uint32_t temperature_length;
    float embed_scale, logit_scale, attn_scale, router_cap;
};

/* Return the row of an architecture, or NULL. */
const struct traits *traits_find(struct gguf_str arch);

/* Return row i of the table, i = 0, 1, ...; NULL after the last. */
const struct traits *traits_at(size_t i);

/* Return the tensors that layer `i` must have and may have, except those of its recurrent part;
 * `of` says which parts it has. */
struct traits_tensors {
    tensor_set required, optional;
};
struct traits_tensors traits_tensors(const struct traits *t, const struct model_shape *s,
                                     uint32_t i, const struct model_layer *of, bool has_experts);

const struct layer_tensor_row *traits_layer_tensor(enum layer_tensor t);
uint32_t traits_dim(const struct model_shape *s, enum dim dim);

/* Return the i-th fused tensor, or NULL after the last. */
const struct fused_row *traits_fused(size_t i);

#endif
