/* core/model/model.h - a model: its shape, its traits and its packed weights.
 *
 * model_load() reads an open GGUF file, checks every dimension against the architecture's row in
 * the table of traits, and packs each matrix into panels of 16 rows (kernels.h) on `threads`
 * threads, or takes the panels from the file that an earlier start has left. Afterwards the file
 * may be closed: the model owns all that it needs.
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

#include "kernels/kernels.h"

struct gguf;

struct matrix {
    enum kern_weight type;
    uint32_t n_out;     /* rows of the matrix, as in the file */
    uint32_t n_in;      /* columns */
    uint32_t n_panels;  /* ceil(n_out / 16) */
    size_t panel_bytes; /* panel p at data + p * panel_bytes */
    const uint8_t *data;
};

struct model_layer {
    const float *attn_norm;                /* [n_embd] */
    struct matrix q, k, v;                 /* [n_head*head_dim | n_kv_head*head_dim][n_embd] */
    const float *q_bias, *k_bias, *v_bias; /* [n_out] or NULL */
    const float *q_norm, *k_norm;          /* [head_dim] or NULL: RMS norm per head before rope */
    struct matrix attn_out;                /* [n_embd][n_head*head_dim] */
    const float *ffn_norm;                 /* [n_embd] */
    struct matrix gate, up;                /* [n_ff][n_embd] */
    struct matrix down;                    /* [n_embd][n_ff] */
};

struct model_shape {
    uint32_t n_vocab, n_embd, n_layer, n_ff;
    uint32_t n_head, n_kv_head, head_dim;
    uint32_t n_rot; /* dimensions that rope turns, <= head_dim, even */
    uint32_t n_ctx_train;
    uint32_t n_ctx; /* positions this instance serves: rope tables reach this far */
    uint32_t pooling_type; /* of embeddings, as the file numbers it: 1 mean, 2 first, 3 last */
    float norm_eps;
    bool rope_neox;
};

struct model {
    struct model_shape shape;
    char arch[32];
    char name[128]; /* general.name, or the file's base name without .gguf */
    char ftype[32]; /* the most common matrix type by bytes: "Q8_0" */
    uint64_t n_params;
    uint64_t file_bytes, weight_bytes; /* in the file; packed */
    struct matrix embed;               /* [n_vocab][n_embd]; row look-up by kern_unpack_row */
    struct matrix output;              /* shares embed's panels when tied */
    const float *output_norm;
    struct model_layer *layers;       /* [n_layer] */
    const float *rope_cos, *rope_sin; /* [n_ctx][n_rot/2] */
    bool is_cached;                   /* the panels came from the weight cache */
    void *arena;                      /* private: the mappings behind the pointers above */
};

struct model_options {
    uint32_t n_ctx;   /* wanted context; 0 = the model's own; never above the model's own */
    uint32_t threads; /* for packing, >= 1 */
    /* Folder of the cache of packed weights (weight_cache.h), "" for the model's own; NULL: none.
     * A model that is no file has none. What goes wrong with it is logged, and the model packed. */
    const char *weight_cache;
    /* Called from the loading thread with bytes packed so far and in all; may be NULL. */
    void (*progress)(void *ud, uint64_t done, uint64_t total);
    void *progress_ud;
};

int model_load(struct model **out, const struct gguf *g, const struct model_options *options,
               char *err, size_t err_len);
void model_destroy(struct model **m);

#endif
