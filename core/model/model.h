/* core/model/model.h - a model: its shape and its packed weights.
 *
 * model_load() reads an open GGUF file, checks every dimension against the architecture's row in
 * the table of traits, and packs each matrix into panels of 16 rows (kernels.h) on `threads`
 * threads, or reads the panels from the weight cache (weight_cache.h). Afterwards the file may be
 * closed: the model owns all that it needs.
 *
 * All architectures are one transformer whose parts may be missing: a part that a layer does not
 * have is a matrix or vector without data. Weights that files fuse are cut apart when they are
 * packed.
 *
 * Thread: load from one thread; a loaded model is read-only.
 * Memory: one mapping for all panels, one for vectors and rope tables; model_destroy() frees.
 * Errors: a sentence that names the file, the key or tensor, and what was found.
 */
#ifndef CORE_MODEL_MODEL_H
#define CORE_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/formats/gguf/blocks.h"
#include "core/model/matrix.h"
#include "core/model/recurrent.h"
#include "kernels/kernels.h"
#include "kvcache/kv_groups.h"

struct gguf;
struct numa;

/* down(act(gate x) * up x), or down(act(up x)) without a gate; each may have biases. */
struct ffn {
    struct matrix gate, up; /* [n_ff][n_embd] */
    struct matrix down;     /* [n_embd][n_ff] */
    const float *gate_bias, *up_bias, *down_bias; /* [n_each][n_out] or NULL */
    bool has_relu; /* its activation is max(x, 0), not the shape's */
};

#define MODEL_NO_ROPE UINT32_MAX
#define MODEL_MAX_STREAMS 4
#define MODEL_MAX_EXPERTS_USED 64 /* most experts used by one token */
#define MODEL_MAX_EXPERT_GROUPS 64

/* A layer mixes tokens by attention, by a recurrent part, by both side by side (each takes
 * attn_norm's rows, and both results are added), or not at all; then comes a feed-forward net or
 * none.
 *
 * Norms stand before a branch (attn_norm, ffn_norm), after it (.._post_norm, over the branch's
 * output), or after the sum (.._sum_norm). */
struct model_layer {
    bool has_attention, has_ffn;
    enum recurrent_kind recurrent;         /* NONE: the layer has no state */
    struct recurrent mix;                  /* weights of the recurrent part */
    size_t state_at;                       /* offset of the layer's state in a sequence's, in
                                            * floats */
    struct norm attn_norm;                 /* [n_embd] */
    struct matrix q, k, v;                 /* [n_head*key_dim | n_kv_head*key_dim | ..][n_embd] */
    const float *q_bias, *k_bias, *v_bias; /* [n_out] or NULL */
    struct norm q_norm, k_norm;            /* see model_shape.qk_norm */
    struct norm v_norm;                    /* [value_dim], over each head */
    const float *sinks;                    /* [n_head] or NULL: see kern_attn */
    struct matrix attn_gate;               /* [n_head*value_dim][n_embd]: the heads' results are
                                            * multiplied by sigmoids of its outputs */
    struct matrix attn_out;                /* [n_embd][n_head*head_out] */
    const float *attn_out_bias;            /* [n_embd] or NULL */
    struct norm attn_sub_norm;             /* [n_head*head_out], over the input of attn_out */
    struct norm attn_post_norm, attn_sum_norm, ffn_norm;
    struct norm attn_input_norm;           /* over the sum of attn_sum_norm's output and attention's
                                            * input x; without a weight x is not added again */
    struct ffn ffn;                        /* in a layer with experts: the shared expert, if any */
    struct norm ffn_sub_norm;              /* [n_ff], over the input of ffn.down */
    bool is_sparse;                        /* gates below mean + sparsity * deviation become 0 */
    float sparsity;                        /* in standard deviations; other gates become their
                                            * excess over the bound */
    struct matrix router;                  /* [n_expert][n_embd] in a layer with experts */
    const float *router_bias;              /* [n_expert] or NULL: added to the router's outputs */
    const float *choice_bias;              /* [n_expert] or NULL: added for the choice of experts
                                            * only, not to weights */
    struct ffn experts;                    /* n_expert nets */
    /* with n_moe_latent: map x to the experts' input, and the experts' sum back to x */
    struct matrix experts_in, experts_out; /* [n_moe_latent][n_embd], [n_embd][n_moe_latent] */
    /* norms of the parts of a layer that has a dense net beside its experts */
    struct norm router_norm, experts_norm; /* [n_embd], over x: before the router, before the
                                            * experts */
    struct norm beside_post_norm, experts_post_norm; /* over the output of the dense net, of the
                                                      * experts */
    /* per-layer embedding: out(act(gate x) * the layer's part of the token's row), normed, is added
     * to x */
    struct matrix per_layer_gate, per_layer_out; /* [n_per_layer][n_embd], [n_embd][n_per_layer] */
    struct norm per_layer_post_norm;       /* [n_embd] */
    const float *out_scale;                /* [1] or NULL: x is multiplied by it after the layer */
    /* for a model with several streams (AltUp, arXiv 2301.13310; n_streams): a router of the first
     * stream weighs them, see forward_streams.c */
    struct matrix stream_router;           /* [n_streams][n_embd] */
    struct norm stream_router_norm;        /* [n_embd] */
    struct matrix stream_predict;          /* [n_streams*n_streams][n_streams] */
    struct matrix stream_correct;          /* [n_streams][n_streams] */
    const float *stream_scale;             /* [n_embd], multiplied into the input of
                                            * per_layer_gate */
    /* a low-rank net parallel to attention (LAuReL, arXiv 2411.07501): attention's input, and the
     * normed laurel_out(laurel_in(input)), are added too */
    struct matrix laurel_in, laurel_out;   /* [n_laurel][n_embd], [n_embd][n_laurel] */
    struct norm laurel_norm;
    struct matrix shared_gate;             /* [1][n_embd]: its sigmoid scales the shared expert */
    struct norm ffn_post_norm, ffn_sum_norm;
    /* Latent attention (DeepSeek's MLA). If q_down exists, queries are q times the normed outputs
     * of q_down. The outputs of k, a latent vector and a rotated part, are the keys and values of
     * all heads; a head's key_up maps its query into the latent space, value_up its result out of
     * it. */
    struct matrix q_down;        /* [n_lora_q][n_embd] */
    struct norm q_down_norm;     /* [n_lora_q] */
    struct norm latent_norm;     /* [n_latent] */
    struct matrix key_up;        /* n_head of [n_latent][n_nope] */
    struct matrix value_up;      /* n_head of [head_out][n_latent] */
    /* Sizes of this layer. They may differ from the shape's, for instance in layers with a window;
     * with MLA they are the shape's. */
    uint32_t n_kv_head, key_dim, value_dim, n_rot, n_ff; /* n_kv_head 0: the layer has no
                                                          * attention */
    bool shares_kv;              /* the layer makes no keys and values and reads those of the last
                                  * earlier layer of its kind; see kv */
    uint32_t window;             /* tokens that the layer sees, up to and including its own; 0:
                                  * all */
    uint32_t ahead;              /* encoders with a window: tokens after its own that a row sees;
                                  * window is ahead + 1 */
    struct kv_location kv;          /* where its keys and values are in the KV cache */
    uint32_t rope;               /* index in the model's rope tables, or MODEL_NO_ROPE */
    const float *query_scale;    /* [n_ctx] or NULL: a query is multiplied by the factor of its
                                  * position */
};

/* Says over which values q_norm and k_norm are taken. */
enum qk_norm {
    QK_NORM_HEAD = 0,  /* each head, all with one weight */
    QK_NORM_EACH_HEAD, /* each head with a weight of its own */
    QK_NORM_ROW,       /* all heads together */
};

enum norm_kind { NORM_RMS = 0, NORM_LAYER };

/* The classifier's net: it makes label scores from a text's hidden states. */
enum head_kind {
    HEAD_FIRST = 0, /* from the first token's state x: out * tanh(dense * x) */
    HEAD_MEAN,      /* from the mean state x: out * norm(gelu(dense * x)) */
    HEAD_SINGLE,    /* from the first token's state x: tanh(out * x) */
    HEAD_LAST,      /* from a decoder's last state x: out * tanh(dense * x) */
};

/* The nets that read each token's state x by itself, after the last norm. */
enum token_head {
    TOKEN_HEAD_NONE = 0,
    TOKEN_HEAD_LABELS, /* scores of the token's labels: out * x, or out * norm(gelu(dense * x)) */
    TOKEN_HEAD_VECTOR, /* a vector of late interaction, whose length is not used: out * x */
    TOKEN_HEAD_WEIGHT, /* the token's lexical weight, max(0, out * x), of which the engine computes
                        * out * x */
    TOKEN_HEAD_COUNT,
};

/* How the outputs of a router become weights of the chosen experts. */
enum expert_gate {
    EXPERT_SOFTMAX = 0,
    EXPERT_SIGMOID,
    EXPERT_MIXER, /* a softmax over the remaining experts whose outputs are near the chosen one's
                   * (SparseMixer, arXiv 2409.12136): see forward_moe.c */
};

struct model_shape {
    uint32_t n_vocab, n_embd, n_layer;
    uint32_t n_ff;               /* width of the widest dense net; 0: no layer has one */
    uint32_t n_head, n_kv_head;  /* 0: no layer has attention */
    struct recurrent_shape recurrent;
    uint32_t key_dim, value_dim; /* floats of a key, of a value, of one KV head */
    uint32_t window_dim;         /* key_dim and value_dim of layers with a window; 0: as in the
                                  * others */
    uint32_t window_rot;         /* n_rot of layers with a window */
    uint32_t n_shared_kv;        /* number of last layers that use keys and values of earlier
                                  * ones */
    uint32_t n_streams;          /* AltUp's streams; 1: only x */
    uint32_t n_laurel;           /* rank of LAuReL's net */
    uint32_t n_per_layer;        /* values of a token's per-layer embedding for each layer; 0: there
                                  * is none */
    uint32_t head_out;           /* values of a head that attn_out takes: value_dim, except with
                                  * MLA */
    uint32_t n_latent, n_lora_q, n_nope; /* only MLA, else 0; n_nope: values of a head's query that
                                          * are not rotated */
    uint32_t n_rot;              /* dimensions that rope rotates, even; 0: none */
    uint32_t n_ctx_train;
    uint32_t n_ctx;              /* positions this instance serves: rope tables reach this far */
    uint32_t window;             /* tokens of the window (an encoder's: both sides together); 0: no
                                  * layer has one */
    bool is_chunked;             /* windows begin at multiples of their size, whole KERN_SEGMENTs */
    uint32_t n_expert, n_expert_used, n_ff_expert, n_ff_shared;
    uint32_t n_moe_latent;       /* width of an expert's input and output; 0: n_embd */
    uint32_t n_expert_group, n_expert_group_used; /* a token's experts are in this many groups, each
                                                   * of n_expert / n_expert_group neighbours; 0:
                                                   * there are no groups */
    uint32_t pooling_type; /* pooling of embeddings, as the file numbers it: 1 mean, 2 first, 3
                            * last, 4 for a classifier, 5 for a classifier of tokens */
    uint32_t n_labels;     /* labels of the classifier; 0: there is none */
    uint32_t n_token_out[TOKEN_HEAD_COUNT]; /* outputs of each token head; 0: there is none. The
                                             * labels of tokens are also n_labels, and a model with
                                             * them has no classifier of texts */
    bool skips_bos;        /* a text's vectors of tokens leave out that of BOS, as bge-m3's */
    enum head_kind head_kind;
    uint32_t n_head_layers; /* last layers that belong to a head for decisions; 0: there are none */
    uint32_t n_wide;       /* widest output of the projections; 0: there are none */
    uint32_t n_token_types; /* an encoder's token types: 1, or 2 and more, of which the second is a
                             * second text's */
    enum norm_kind norm;
    float norm_eps;
    enum qk_norm qk_norm;
    bool late_qk_norm;           /* queries and keys are normed after the rotation */
    enum kern_act act;
    enum expert_gate expert_gate;
    bool expert_norm;            /* weights of the chosen experts are made to sum to 1 */
    float expert_scale;
    bool experts_weigh_input;    /* weights multiply the experts' inputs, not their outputs */
    float router_scale, router_cap; /* a factor of the router's outputs, then a soft cap of them; 0:
                                     * none */
    bool has_beside;             /* a dense net runs beside the experts, instead of a shared
                                  * expert */
    float moe_scale;             /* with has_beside: factor of the sum of both */
    bool rope_neox;
    bool is_parallel;            /* both branches of a layer take the same x */
    bool is_encoder;             /* tokens see all tokens; there are no logits, only embeddings */
    float embed_scale, residual_scale, logit_scale; /* factors; 1: no scaling */
    float attn_scale;            /* factor of attention scores */
    float attn_cap, logit_cap;   /* soft caps; 0: none */
};

/* The parts around a layer that guesses the token after the next one (multi-token prediction, MTP;
 * "nextn" in files). The layer's input at a position is eh_proj times two concatenated, normed
 * vectors: the token's embedding, and output_norm's output for the token before it. The layer's
 * output goes through output_norm and output, which make logits; the output of output_norm is its
 * hidden state, from which it can guess further tokens. */
struct model_mtp {
    struct norm embed_norm, hidden_norm; /* [n_embd] */
    struct matrix eh_proj;               /* [n_embd][2*n_embd] */
    struct matrix embed;                 /* embed, output_norm and output are the model's own */
    struct norm output_norm;             /* ... unless the file has others for this layer */
    struct matrix output;
};

#define MODEL_N_ROPE 2
#define MODEL_N_QUESTION 3 /* kinds of questions: a choice, a score, yes or no */
#define MODEL_N_PROJECTION 2

struct rope_table {
    const float *cos, *sin; /* [n_ctx][n_rot/2] */
};

/* The classifier; see enum head_kind. */
struct model_head {
    struct matrix dense; /* may be missing: then `out` takes x itself */
    const float *dense_bias;
    struct norm norm;
    struct matrix out;
    const float *out_bias;
    /* with n_head_layers: the head begins with output_norm of x and the kind of question */
    const float *questions; /* [MODEL_N_QUESTION][n_embd] added to x, by the kind of question */
    struct norm state_norm; /* over x behind the head's layers, instead of output_norm */
};

#define MODEL_MAX_TEMPERATURES 24

struct model_temperature { /* by which the scores of some questions' options are divided */
    char name[24]; /* a kind of question ("choice"), or a kind and a range ("choice.3_5") */
    float value;
};

/* Metadata of a file whose model was trained for decisions. */
struct model_decision {
    char type[32]; /* its family, as the file names it ("kev"); "": it was not trained for them */
    struct model_temperature temperatures[MODEL_MAX_TEMPERATURES];
    uint32_t n_temperatures;
    uint32_t max_head_tokens; /* a question and its options are cut to so many tokens; 0: not */
};

struct model {
    struct model_shape shape;
    struct model_decision decision;
    char arch[32];
    char name[128]; /* general.name, or the file's base name without .gguf */
    char ftype[32]; /* the most common matrix type by bytes: "Q8_0" */
    uint64_t n_params;
    enum block_type load_type;         /* see struct model_options; adapters follow it */
    uint64_t file_bytes, weight_bytes; /* bytes of the file's weights; of the packed ones */
    uint64_t table_bytes;              /* bytes of the rope tables, which weight_bytes leaves out */
    struct matrix embed;               /* [n_vocab][n_embd]; row look-up by kern_unpack_row */
    struct matrix stream_in, stream_out; /* n_streams-1 matrices [n_embd][n_embd]: stream_in maps
                                          * the embedding to each other stream, stream_out its
                                          * result back */
    struct matrix per_layer_embed;     /* [n_vocab][n_layer*n_per_layer], with n_per_layer */
    struct matrix per_layer_in;        /* [n_layer*n_per_layer][n_embd], takes the embedding */
    struct norm per_layer_norm;        /* [n_per_layer], over per_layer_in's outputs for each
                                        * layer */
    struct matrix pos_embed;           /* [n_ctx_train][n_embd], where positions are learned */
    const float *type_embed;           /* [n_token_types][n_embd] or NULL: added to tokens */
    struct norm embed_norm;
    struct norm output_norm;
    struct matrix output;              /* has embed's panels when tied; an encoder has none */
    const float *output_bias;          /* [n_vocab] or NULL */
    struct model_head head;            /* with n_labels */
    struct model_head token_heads[TOKEN_HEAD_COUNT]; /* with n_token_out */
    struct matrix projections[MODEL_N_PROJECTION]; /* dense layers for pooled vectors, applied in
                                                    * this order; the last has n_embd outputs; each
                                                    * may be missing */
    char **labels;                     /* [n_labels] names, or NULL */
    float *slopes;                     /* [n_head] of ALiBi, or NULL: see kern_attn */
    float *query_scale;                /* [n_ctx] or NULL: the memory of the layers' query_scale */
    float *ones;                       /* ones, the weights of norms without weights; or NULL */
    bool has_mtp;
    struct model_mtp mtp;
    struct model_layer *layers;        /* [model_n_layers()]; with has_mtp the last one guesses
                                        * tokens and is not part of the model */
    struct kv_groups groups;           /* KV cache groups of the layers with keys; without such
                                        * layers one empty group */
    size_t state_floats;               /* floats of a sequence's recurrent states; 0: no layer has
                                        * one */
    struct rope_table ropes[MODEL_N_ROPE]; /* model_layer.rope says which */
    uint32_t n_parts;                  /* parts of each matrix: 1, or one for each memory node */
    bool is_cached;                    /* the panels came from the weight cache */
    void *arena;                       /* private: the mappings that the pointers above point
                                        * into */
};

/* Return the number of layers, including the one that guesses tokens. */
static inline uint32_t model_n_layers(const struct model *m)
{
    return m->shape.n_layer + (m->has_mtp ? 1 : 0);
}

struct model_options {
    uint32_t n_ctx;   /* wanted context in tokens, at most the model's own; 0: the model's own */
    uint32_t threads; /* for packing, >= 1 */
    /* Folder of the cache of packed weights (weight_cache.h), "" for the model's own folder; NULL:
     * no cache. A model that does not come from a file has none. An error of the cache is logged,
     * and the model packed. */
    const char *weight_cache;
    /* Called on the loading thread with bytes packed so far and in total; may be NULL. */
    void (*progress)(void *ud, uint64_t done, uint64_t total);
    void *progress_ud;
    /* Stop after the plan: the model has its shape, sizes and address space, but no weights are
     * read and no RAM is used for them. */
    bool only_plan;
    /* Load the layer that guesses tokens (struct model_mtp), if the file has it. */
    bool wants_mtp;
    /* Quantise matrices in F32, F16 and BF16 to Q8_0, Q6_K or Q4_0, row by row while they are
     * packed, except those that quantised files keep, routers and learned positions. Rows that are
     * not whole blocks of the type become Q8_0, or stay if they are not whole blocks of Q8_0
     * either; with Q4_0 the output matrix becomes Q6_K. BLOCK_F32: all stay as they are. */
    enum block_type load_type;
    /* The memory nodes to place panels on; borrowed for the call. NULL: the kernel's choice. */
    const struct numa *numa;
};

int model_load(struct model **out, const struct gguf *g, const struct model_options *options,
               char *err, size_t err_len);
void model_destroy(struct model **m);

/* Return the share of the panels' pages that are on the nodes that `numa`, the same as at loading,
 * plans: see numa_placed_share(). */
double model_placed_share(const struct model *m, const struct numa *numa);

#endif
