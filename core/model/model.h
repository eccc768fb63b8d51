/* core/model/model.h - a model: its shape and its packed weights.
 *
 * model_load() reads an open GGUF file, checks every dimension against the architecture's row in
 * the table of traits, and packs each matrix into panels of 16 rows (kernels.h) on `threads`
 * threads, or reads the panels from the weight cache (weight_cache.h). Afterwards the file
 * may be closed: the model owns all that it needs.
 *
 * All architectures are one transformer whose parts may be missing: what a layer does not have is
 * a matrix or vector without data. Weights that files fuse are cut apart when they are packed.
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
};

#define MODEL_NO_ROPE UINT32_MAX
#define MODEL_MAX_STREAMS 4
#define MODEL_MAX_EXPERTS_USED 64 /* by one token */
#define MODEL_MAX_EXPERT_GROUPS 64

/* What mixes a layer's tokens is attention, a recurrent part, both side by side (each takes
 * attn_norm's rows, and both are added), or nothing; behind it there is a feed-forward net or none.
 *
 * Norms stand before a branch (attn_norm, ffn_norm), behind it (.._post_norm, on what it adds), or
 * behind the sum (.._sum_norm). */
struct model_layer {
    bool has_attention, has_ffn;
    enum recurrent_kind recurrent;         /* NONE: it has no state */
    struct recurrent mix;                  /* the weights of its recurrent part ... */
    size_t state_at;                       /* ... and floats before its state in a sequence's */
    struct norm attn_norm;                 /* [n_embd] */
    struct matrix q, k, v;                 /* [n_head*key_dim | n_kv_head*key_dim | ..][n_embd] */
    const float *q_bias, *k_bias, *v_bias; /* [n_out] or NULL */
    struct norm q_norm, k_norm;            /* see model_shape.qk_norm */
    struct norm v_norm;                    /* [value_dim], of each head */
    const float *sinks;                    /* [n_head] or NULL: see kern_attn */
    struct matrix attn_gate;               /* [n_head*value_dim][n_embd]: the heads' results are
                                            * multiplied by sigmoids of its outputs */
    struct matrix attn_out;                /* [n_embd][n_head*head_out] */
    const float *attn_out_bias;            /* [n_embd] or NULL */
    struct norm attn_sub_norm;             /* [n_head*head_out], of what attn_out takes */
    struct norm attn_post_norm, attn_sum_norm, ffn_norm;
    struct norm attn_input_norm;           /* of what attn_sum_norm has made and x before attention,
                                            * added up; without a weight x is not added again */
    struct ffn ffn;                        /* of a layer with experts: the shared one, if any */
    struct norm ffn_sub_norm;              /* [n_ff], of what ffn.down takes */
    bool is_sparse;                        /* gates below their mean plus so many standard ... */
    float sparsity;                        /* ... deviations count as there, and from there on */
    struct matrix router;                  /* [n_expert][n_embd] of a layer with experts */
    const float *router_bias;              /* [n_expert] or NULL: added to its outputs */
    const float *choice_bias;              /* [n_expert] or NULL: counts for the choice only */
    struct ffn experts;                    /* n_expert of them */
    /* Where they work on fewer numbers than x has (n_moe_latent): what they take and leave. */
    struct matrix experts_in, experts_out; /* [n_moe_latent][n_embd], [n_embd][n_moe_latent] */
    /* Where the dense net stays beside them, each part has norms of its own. */
    struct norm router_norm, experts_norm; /* [n_embd], of x, before it ... */
    struct norm beside_post_norm, experts_post_norm; /* ... and behind it */
    /* Of a layer that is told once more which token it is: out(act(gate x) * its part of the
     * token's row), normed, is added to x. */
    struct matrix per_layer_gate, per_layer_out; /* [n_per_layer][n_embd], [n_embd][n_per_layer] */
    struct norm per_layer_post_norm;       /* [n_embd] */
    const float *out_scale;                /* [1] or NULL: of x behind the layer */
    /* Of a model with several streams (AltUp, arXiv 2301.13310; n_streams): a router of its first
     * stream weighs them. See forward_streams.c. */
    struct matrix stream_router;           /* [n_streams][n_embd] */
    struct norm stream_router_norm;        /* [n_embd] */
    struct matrix stream_predict;          /* [n_streams*n_streams][n_streams] */
    struct matrix stream_correct;          /* [n_streams][n_streams] */
    const float *stream_scale;             /* [n_embd], of what per_layer_gate takes */
    /* A low-rank net beside attention (LAuReL, arXiv 2411.07501): what attention takes, and
     * out(in(..)) of it, normed, are added too. */
    struct matrix laurel_in, laurel_out;   /* [n_laurel][n_embd], [n_embd][n_laurel] */
    struct norm laurel_norm;
    struct matrix shared_gate;             /* [1][n_embd]: its sigmoid scales the shared one */
    struct norm ffn_post_norm, ffn_sum_norm;
    /* Latent attention (DeepSeek's MLA). Queries: q of q_down, normed, when that is there. Keys
     * and values of all heads are one latent vector and a rotated part beside it, k's outputs; a
     * head's key_up maps its query into the latent space, value_up its result out of it. */
    struct matrix q_down;        /* [n_lora_q][n_embd] */
    struct norm q_down_norm;     /* [n_lora_q] */
    struct norm latent_norm;     /* [n_latent] */
    struct matrix key_up;        /* n_head of [n_latent][n_nope] */
    struct matrix value_up;      /* n_head of [head_out][n_latent] */
    /* What the shape has, or, where layers with a window differ from others, of this one. Of MLA as
     * in the shape. */
    uint32_t n_kv_head, key_dim, value_dim, n_rot, n_ff; /* n_kv_head 0: it has no attention */
    bool shares_kv;              /* has no keys and values: those of the last layer of its kind that
                                  * has are its own; see kv */
    uint32_t window;             /* tokens that it sees, its own the last; 0: all */
    uint32_t ahead;              /* of an encoder with a window: as many behind its own; window is
                                  * ahead + 1 */
    struct kv_location kv;          /* where its keys and values are in the cache */
    uint32_t rope;               /* index in the model's rope tables, or MODEL_NO_ROPE */
    const float *query_scale;    /* [n_ctx] or NULL: a query is multiplied by its position's */
};

/* What q_norm and k_norm are taken over. */
enum qk_norm {
    QK_NORM_HEAD = 0,  /* each head, all with one weight */
    QK_NORM_EACH_HEAD, /* each head with a weight of its own */
    QK_NORM_ROW,       /* all heads together */
};

enum norm_kind { NORM_RMS = 0, NORM_LAYER };

/* What makes numbers for labels of a text's states. */
enum head_kind {
    HEAD_FIRST = 0, /* of the first one: out tanh(dense x) */
    HEAD_MEAN,      /* of their mean: out norm(gelu(dense x)) */
    HEAD_SINGLE,    /* of the first one: tanh(out x) */
    HEAD_LAST,      /* a decoder's, of the last one: out tanh(dense x) */
};

/* How the outputs of a router become weights of the experts chosen. */
enum expert_gate {
    EXPERT_SOFTMAX = 0,
    EXPERT_SIGMOID,
    EXPERT_MIXER, /* a softmax over those that are left and all but as good as the one chosen
                   * (SparseMixer, arXiv 2409.12136): see forward_moe.c */
};

struct model_shape {
    uint32_t n_vocab, n_embd, n_layer;
    uint32_t n_ff;               /* of dense layers, of the widest; 0: there are none */
    uint32_t n_head, n_kv_head;  /* 0: no layer has attention */
    struct recurrent_shape recurrent;
    uint32_t key_dim, value_dim; /* numbers that a token's KV head has in the cache */
    uint32_t window_dim;         /* both, of layers with a window; 0: the same */
    uint32_t window_rot;         /* n_rot of these layers */
    uint32_t n_shared_kv;        /* layers, the last ones, that have no keys and values */
    uint32_t n_streams;          /* of AltUp; 1: x alone */
    uint32_t n_laurel;           /* rank of LAuReL's net */
    uint32_t n_per_layer;        /* numbers of a token's row for each layer; 0: there is none */
    uint32_t head_out;           /* numbers that a head hands to attn_out: value_dim, but of MLA */
    uint32_t n_latent, n_lora_q, n_nope; /* MLA, else 0; n_nope: of a head's query, not rotated */
    uint32_t n_rot;              /* dimensions that rope rotates, even; 0: none */
    uint32_t n_ctx_train;
    uint32_t n_ctx;              /* positions this instance serves: rope tables reach this far */
    uint32_t window;             /* of the layers that have one, an encoder's on both sides
                                  * together; 0: no layer has */
    bool is_chunked;             /* windows begin at multiples of their size, KERN_SEGMENTs */
    uint32_t n_expert, n_expert_used, n_ff_expert, n_ff_shared;
    uint32_t n_moe_latent;       /* numbers that experts work on; 0: n_embd */
    uint32_t n_expert_group, n_expert_group_used; /* a token's experts are all of so many groups,
                                                   * each of n_expert / n_expert_group in a row;
                                                   * 0: there are none */
    uint32_t pooling_type; /* of embeddings, as the file numbers it: 1 mean, 2 first, 3 last, 4 for
                            * a classifier */
    uint32_t n_labels;     /* of the classifier; 0: there is none */
    enum head_kind head_kind;
    uint32_t n_wide;       /* the widest of what the projections make; 0: there are none */
    uint32_t n_token_types; /* of an encoder: 1, or 2 and more, of which the second is a second
                             * text's */
    enum norm_kind norm;
    float norm_eps;
    enum qk_norm qk_norm;
    bool late_qk_norm;           /* they come behind the rotation */
    enum kern_act act;
    enum expert_gate expert_gate;
    bool expert_norm;            /* weights of the chosen experts are made to sum to 1 */
    float expert_scale;
    bool experts_weigh_input;    /* weights multiply what experts take, not what they make */
    float router_scale, router_cap; /* of its outputs: a factor, then a soft cap; 0: none */
    bool has_beside;             /* the dense net stays beside the experts, as the shared one ... */
    float moe_scale;             /* ... and the sum of both is multiplied by this */
    bool rope_neox;
    bool is_parallel;            /* both branches of a layer take the same x */
    bool is_encoder;             /* tokens see all tokens; no logits: embeddings only */
    float embed_scale, residual_scale, logit_scale; /* factors; 1: none */
    float attn_scale;            /* of scores */
    float attn_cap, logit_cap;   /* soft caps; 0: none */
};

/* What there is around a layer that guesses the token behind the next one (multi-token prediction,
 * MTP; "nextn" in files). Its input at a position is eh_proj of two vectors in a row, each normed:
 * the token's embedding, and what output_norm has made of the token before it. Its output goes
 * through output_norm and output, which make logits; what output_norm makes is its hidden state,
 * from which it can guess on. */
struct model_mtp {
    struct norm embed_norm, hidden_norm; /* [n_embd] */
    struct matrix eh_proj;               /* [n_embd][2*n_embd] */
    struct matrix embed;                 /* these three are the model's own, if the file has no */
    struct norm output_norm;             /* others */
    struct matrix output;
};

#define MODEL_N_ROPE 2
#define MODEL_N_PROJECTION 2

struct rope_table {
    const float *cos, *sin; /* [n_ctx][n_rot/2] */
};

/* See enum head_kind. */
struct model_head {
    struct matrix dense; /* may be missing: then x is taken as it is */
    const float *dense_bias;
    struct norm norm;
    struct matrix out;
    const float *out_bias;
};

struct model {
    struct model_shape shape;
    char arch[32];
    char name[128]; /* general.name, or the file's base name without .gguf */
    char ftype[32]; /* the most common matrix type by bytes: "Q8_0" */
    uint64_t n_params;
    enum block_type load_type;         /* see struct model_options; adapters follow it */
    uint64_t file_bytes, weight_bytes; /* in the file; packed */
    uint64_t table_bytes;              /* of the rope tables beside them */
    struct matrix embed;               /* [n_vocab][n_embd]; row look-up by kern_unpack_row */
    struct matrix stream_in, stream_out; /* n_streams-1 of [n_embd][n_embd]: of the embedding, and
                                          * of what the layers have made of each */
    struct matrix per_layer_embed;     /* [n_vocab][n_layer*n_per_layer], with n_per_layer */
    struct matrix per_layer_in;        /* [n_layer*n_per_layer][n_embd], of the embedding */
    struct norm per_layer_norm;        /* [n_per_layer], of what it makes for each layer */
    struct matrix pos_embed;           /* [n_ctx_train][n_embd], where positions are learned */
    const float *type_embed;           /* [n_token_types][n_embd] or NULL: added to tokens */
    struct norm embed_norm;
    struct norm output_norm;
    struct matrix output;              /* shares embed's panels when tied; an encoder has none */
    const float *output_bias;          /* [n_vocab] or NULL */
    struct model_head head;            /* with n_labels */
    struct matrix projections[MODEL_N_PROJECTION]; /* of pooled vectors, one after the other; in the
                                        * end they have n_embd numbers again; each may be missing */
    char **labels;                     /* [n_labels] names, or NULL */
    float *slopes;                     /* [n_head] of ALiBi, or NULL: see kern_attn */
    float *query_scale;                /* [n_ctx] or NULL: what layers' query_scale are */
    float *ones;                       /* for norms without weights, or NULL */
    bool has_mtp;
    struct model_mtp mtp;
    struct model_layer *layers;        /* [model_n_layers()]: with has_mtp the last one guesses, and
                                        * is no part of the model */
    struct kv_groups groups;           /* of layers with keys, in the KV cache; if there are none
                                        * one group of no layers */
    size_t state_floats;               /* of a sequence's recurrent states; 0: no layer has one */
    struct rope_table ropes[MODEL_N_ROPE]; /* model_layer.rope says which */
    uint32_t n_parts;                  /* that matrices have: 1, or one for each memory node */
    bool is_cached;                    /* the panels came from the weight cache */
    void *arena;                       /* private: the mappings behind the pointers above */
};

/* Those that have keys and values: of the model, and behind them the one that guesses. */
static inline uint32_t model_n_layers(const struct model *m)
{
    return m->shape.n_layer + (m->has_mtp ? 1 : 0);
}

struct model_options {
    uint32_t n_ctx;   /* wanted context; 0 = the model's own; never above the model's own */
    uint32_t threads; /* for packing, >= 1 */
    /* Folder of the cache of packed weights (weight_cache.h), "" for the model's own; NULL: none.
     * A model that is no file has none. What goes wrong with it is logged, and the model packed. */
    const char *weight_cache;
    /* Called from the loading thread with bytes packed so far and in all; may be NULL. */
    void (*progress)(void *ud, uint64_t done, uint64_t total);
    void *progress_ud;
    /* Only what the metadata tells: the model has its shape, its sizes and its room, but no numbers
     * in it, and no memory behind it. */
    bool only_plan;
    /* Load the layer that guesses tokens (struct model_mtp), if the file has one. */
    bool wants_mtp;
    /* Matrices in F32, F16 and BF16 become Q8_0, Q6_K or Q4_0, row by row while they are packed,
     * where quantised files have that: not routers and learned positions. Rows that are no whole
     * blocks of it become Q8_0, or stay; with Q4_0 the output matrix becomes Q6_K. BLOCK_F32: all
     * stay as they are. */
    enum block_type load_type;
    /* Where panels are to lie; borrowed for the call. NULL: where they come to lie. */
    const struct numa *numa;
};

int model_load(struct model **out, const struct gguf *g, const struct model_options *options,
               char *err, size_t err_len);
void model_destroy(struct model **m);

/* The share of the panels' pages that are where `numa`, the same as when it was loaded, wants them:
 * see numa_placed_share(). */
double model_placed_share(const struct model *m, const struct numa *numa);

#endif
