/* core/runtime/forward.h - the parts of the forward pass; see runner.h.
 *
 * Private to core/runtime. All threads of the pool run each part together: they share a region of
 * items (rows, panels, attention tiles) and meet at a barrier at its end. Work on numbers that are
 * still in a thread's cache is fused into the item that made them: activations, and quantising the
 * input of the next product.
 *
 *   forward.c            the pass, embeddings, outputs
 *   forward_labels.c     classifiers
 *   forward_projection.c layers behind the pooling
 *   forward_rows.c       residuals, norms, rotation: row by row
 *   forward_products.c   products of a matrix and all rows
 *   forward_attention.c  attention over the paged cache
 *   forward_mla.c        attention with latent keys and values (MLA)
 *   forward_recurrent.c  layers with a state, and short convolutions
 *   forward_delta.c      delta nets
 *   forward_mamba.c      Mamba and Mamba-2
 *   forward_ffn.c        the dense feed-forward net
 *   forward_moe.c        mixtures of experts
 *   forward_moe_apart.c  mixtures whose dense net has other norms
 *   forward_moe_latent.c experts that work on fewer numbers than x has
 *   forward_streams.c    models with several streams
 *   forward_sparse.c     activations of which most are cut to 0
 *   forward_per_layer.c  per-layer embeddings of the tokens
 *   forward_adapters.c   LoRA adapters
 *   forward_mtp.c        a layer that guesses tokens
 *   forward_undo.c       recurrent states behind wrong guesses
 *
 * Thread: all of the thread pool's, inside a step.
 * Memory: the runner's buffers; nothing is taken.
 */
#ifndef CORE_RUNTIME_FORWARD_H
#define CORE_RUNTIME_FORWARD_H

#include "core/model/adapter.h"
#include "core/model/model.h"
#include "core/runtime/runner_impl.h"
#include "core/runtime/thread_pool.h"

/* The region is over; its time counts as `part`. */
void end_region(struct runner *r, struct thread_pool_worker *w, enum runner_part part);

/* Row-wise regions: a decode step has few rows, a prompt chunk many. */
bool take_rows_of(struct runner *r, struct thread_pool_worker *w, uint32_t n, uint32_t *from,
                  uint32_t *to);

/* A row of a matrix as floats. */
void unpack_row(const struct matrix *m, uint32_t row, float *out);

/* ---- products ---- */

struct product {
    const struct matrix *w;
    float *out;
    size_t out_stride;
    enum adapter_target target; /* the product's name for adapters of this layer */
    const struct model_layer *layer;
};

/* The rows that a product takes: as floats or quantised, whichever its weights need. */
struct input {
    const float *x;
    size_t stride; /* floats */
    const uint8_t *q;
    size_t q_stride; /* bytes */
};

/* Items that a thread takes when it comes to a region of products for the n-th time. */
uint32_t grain_for(const struct runner *r, uint32_t n_items, uint32_t n);

/* Compute panels from .. to - 1 of matrix `each` of a product, for n_rows rows of the input. */
void run_product(struct runner *r, const struct product *p, uint32_t each, const struct input *in,
                 uint32_t n_rows, uint32_t from, uint32_t to);

/* Compute several products of the same input as one region, whose time counts as `of`. Products
 * whose matrix is missing are left out. */
void products(struct runner *r, struct thread_pool_worker *w, const struct product *p, uint32_t n,
              const struct input *in, uint32_t n_rows, enum runner_part of);

/* The items of a region over n matrices of one shape; each matrix has `each` items of `unit` panels
 * (1 or 2). Items are ordered by memory node (matrix.h) and then by matrix, so that a thread's
 * share consists of panels on its own node. Items from .. to - 1 are split into pieces of single
 * matrices. */
struct pieces {
    uint32_t n, each, unit, n_parts;
    uint32_t from, to; /* items that are left */
};
/* Take the next piece: items from .. to - 1 of matrix i. False: no piece is left. */
bool next_piece(struct pieces *s, uint32_t *i, uint32_t *from, uint32_t *to);

/* Whether the matrix exists and is quantised. */
bool is_quantised(const struct matrix *m);

/* ---- adapters ---- */

/* Find the rows of the batch that each adapter applies to. */
void adapters_gather(struct runner *r);

/* The two halves of LoRA, in vLLM's words. Shrink, a region of its own, multiplies the rows that
 * the products of this input take by the As. Expand runs after some panels of a product are done,
 * and adds the products of the Bs and the shrunken rows to them. */
void adapters_shrink(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                     enum adapter_input in, const struct input *rows);
void adapters_expand(struct runner *r, const struct product *p, uint32_t from, uint32_t to);

/* The matrices of adapters that are read soon after panels from .. to - 1 of a product, so that the
 * product prefetches them: the same panels of the Bs, and a share of the As of the next input.
 * Returns their number, ADAPTER_MAX_RANGES at most. */
#define ADAPTER_MAX_RANGES 64
#define ADAPTER_GRAIN 64 /* panels of a product at a time, so that the prefetched bytes are still
                          * cached */
size_t adapters_ahead(const struct runner *r, const struct product *p, uint32_t from, uint32_t to,
                      struct kern_range ranges[ADAPTER_MAX_RANGES]);

/* ---- classifiers ---- */

/* Compute the label scores of the pools that want them, once their rows are summed up. */
void label_pools(struct runner *r, struct thread_pool_worker *w);

/* ---- projections ---- */

/* Run pooled vectors, except those of single tokens, through the layers behind the pooling. */
void project_pools(struct runner *r, struct thread_pool_worker *w);

/* ---- rows ---- */

/* The output of a branch that is not added to x yet. */
struct residual {
    const float *delta; /* [n_rows][embd_stride]; NULL: none */
    const float *bias;  /* [n_embd] or NULL: added to each row of delta first */
    struct norm post;   /* norm of the branch's output */
    struct norm sum;    /* norm of x after the branch is added */
    struct norm input;  /* norm of x after the branch's input is added a second time */
    const float *scale; /* [1] or NULL: x is multiplied by it at the end */
};

/* out = norm of the n numbers x, or a copy of x where the norm has no weight; out may be x. */
void norm_row(const struct runner *r, float *out, const float *x, const struct norm *norm,
              size_t n);
void quantise_row(struct runner *r, uint32_t row, const float *x, size_t n);

/* Add the branches to x; then norm = pre(x), quantised too if wanted. */
void residual_norm(struct runner *r, struct thread_pool_worker *w,
                   const struct residual branches[2], const struct norm *pre, bool quantise);

/* Add biases to queries, keys and values, norm and rotate them, and write keys and values to the
 * cache. */
void qkv_finish(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                uint32_t layer);

/* Norm all heads of a row. */
void norm_heads(const struct runner *r, float *x, uint32_t n_head, size_t dim,
                const struct norm *norm);
void rope_heads(const struct runner *r, const struct model_layer *l, float *x, uint32_t n_head,
                size_t stride, uint32_t pos);
/* Multiply the n numbers of a row's queries by the factor of their position. */
void scale_query(const struct runner *r, const struct model_layer *l, float *q, uint32_t pos,
                 size_t n);
/* Write the keys and values of a row into its slot of the KV cache. */
void store_row(struct runner *r, uint32_t layer, uint32_t row, const float *k, const float *v);

/* ---- per-layer embeddings ---- */

/* Compute r->per_layer, the per-layer inputs of each token, from x, which holds the embedding. */
void per_layer_inputs(struct runner *r, struct thread_pool_worker *w);
/* r->delta = the output of layer i's per-layer net for r->per_layer and r->norm. */
void per_layer_out(struct runner *r, struct thread_pool_worker *w, uint32_t i);
/* Add `pending` to x, run layer i's per-layer net on x and r->per_layer, and leave the result in
 * `pending`. */
void per_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i,
               struct residual pending[2]);

/* ---- several streams ---- */

/* Make the streams from x, the embedding; run a layer on all of them; merge them into x. */
void streams_begin(struct runner *r, struct thread_pool_worker *w);
void streams_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i);
void streams_end(struct runner *r, struct thread_pool_worker *w);

/* The residuals of a layer's branches, and whether the branches take quantised rows. */
struct residual attention_residual(const struct runner *r, const struct model_layer *l);
struct residual ffn_residual(const struct runner *r, const struct model_layer *l);
bool attention_quantises(const struct model_layer *l);
bool ffn_quantises(const struct model_layer *l);

/* Run one layer. `pending` holds the branches that the layer before it left, and then this
 * layer's. */
void run_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i,
               struct residual pending[2]);

/* Make the outputs of the batch: logits from x through `norm` and `output`, then tokens from the
 * logits. */
void outputs(struct runner *r, struct thread_pool_worker *w, const struct norm *norm,
             const struct matrix *output);

/* ---- attention ---- */

/* r->delta = the output of attention without its bias; the input is r->norm. */
void attention(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
void mla_attention(struct runner *r, struct thread_pool_worker *w, uint32_t layer);

/* Only write the keys and values of r->norm's rows into the cache. */
void attention_keys(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
void mla_keys(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
/* Finish and store the keys and values of one row, as the products of k and v have made them. */
void store_keys(struct runner *r, const struct model_layer *l, uint32_t layer, uint32_t row);

/* r->att = every head's result over the queries, [n_rows][q_stride]. */
void attend(struct runner *r, struct thread_pool_worker *w, uint32_t layer, const float *q,
            size_t q_stride);
/* r->delta = the heads' results x, multiplied by attn_out. `has_quantised`: qrows holds x quantised
 * already. */
void project_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                 const float *x, size_t stride, bool has_quantised);

/* ---- recurrent layers ---- */

/* `out`, [n_rows][embd_stride], = the output of the layer's recurrent part for r->norm. r->norm and
 * r->qrows stay unchanged. The states of all spans advance. */
void recurrent(struct runner *r, struct thread_pool_worker *w, uint32_t layer, float *out);
/* Advance the states of the layer by rows of r->mix as the layer's products have made them; nothing
 * after the states is computed. */
void recurrent_again(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
/* Whether the layer's recurrent part takes quantised rows. */
bool recurrent_quantises(const struct model_layer *l);

/* The layer's part of a span's state; whether the span begins a sequence, with a state of zeros. */
float *layer_state(const struct runner *r, const struct model_layer *l,
                   const struct batch_span *span);
bool begins_sequence(const struct batch_span *span);
/* One row of r->mix. */
float *mix_row(const struct runner *r, uint32_t row);
/* Run the convolution over channels from .. to - 1 of all rows of a span, in place. */
void convolve(const struct runner *r, const struct model_layer *l, const struct batch_span *span,
              uint32_t from, uint32_t to, bool silu);
/* Panels of a value head in one item. */
uint32_t panels_of_item(const struct runner *r);
/* The kinds of recurrent layers. */
void delta_net(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
               float *out);
void mamba1(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
            float *out);
void mamba2(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
            float *out);
/* The scans that follow the first products; their results stay in r->mix. */
void delta_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
void mamba1_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
void mamba2_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* `out` = the out-matrix times the n_inner numbers of each row of r->mix from `at` on.
 * `has_quantised`: r->mix_qrows holds them quantised already, if the matrix wants that. */
void recurrent_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                   uint32_t at, bool has_quantised, float *out);

/* ---- wrong guesses ---- */

/* Keep the states of sequences with guesses before the step; and, for each layer, keep their rows
 * of r->mix as the layer's products have made them. */
void undo_keep_states(struct runner *r, struct thread_pool_worker *w);
void undo_keep_rows(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* Restore, after the step, the states behind the last right row of each sequence with a wrong
 * guess. */
void undo_wrong(struct runner *r, struct thread_pool_worker *w);

/* ---- a layer that guesses ---- */

/* Write the guessing layer's keys and values for all rows of the step, and keep the hidden states
 * that the next step needs. */
void mtp_step(struct runner *r, struct thread_pool_worker *w);

/* ---- feed-forward ---- */

/* r->ffn_out = the dense net of r->norm, without its bias. */
void feed_forward(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* Choose the experts of each row, by the router's outputs for r->norm. */
void moe_choose(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* r->ffn_out = the chosen experts' sum for r->norm, and the shared expert's unless it is apart. */
void moe_run(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* Choose and run the experts. Where a dense net with other norms is beside them (experts_norm),
 * r->norm holds the dense net's input, and all norms but ffn_post_norm are done here. */
void moe(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);

/* Add the weighted outputs of a row's experts to `out`. */
void moe_add_experts(struct runner *r, const struct model_layer *l, uint32_t row, float *out);
/* Only with experts_in: r->moe_latent = the rows that the experts take; and r->slot_out, one row
 * for each row of the batch, = experts_out times the sums of the experts' outputs. */
void moe_latent_in(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
void moe_latent_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);

/* Cut the gates to their largest ones and activate them (is_sparse). */
void sparse_activate(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);

/* Activate columns from .. to - 1 of an expert (or of the dense net, each 0), for n rows from row0
 * on of `gate` and `up` [..][stride]: add biases, activate, and quantise for `down` into q unless q
 * is NULL. */
struct activation {
    float *gate, *up;
    size_t stride;
    uint8_t *q;
    size_t q_stride;
};
void activate(const struct runner *r, const struct ffn *net, uint32_t each,
              const struct activation *a, uint32_t row0, uint32_t n, size_t from, size_t to);

#endif
