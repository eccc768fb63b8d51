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
 *   forward_mla.c        the same with latent keys and values (MLA)
 *   forward_recurrent.c  layers with a state, and short convolutions
 *   forward_delta.c      delta nets
 *   forward_mamba.c      Mamba and Mamba-2
 *   forward_ffn.c        the dense feed-forward net
 *   forward_moe.c        mixtures of experts
 *   forward_moe_apart.c  mixtures whose dense net has other norms
 *   forward_moe_latent.c experts that work on fewer numbers than x has
 *   forward_streams.c    models with several streams
 *   forward_sparse.c     activations that are mostly cut away
 *   forward_per_layer.c  what layers are told of their tokens once more
 *   forward_adapters.c   what LoRA adapters add to products
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
    enum adapter_target target; /* what adapters know it as, in this layer */
    const struct model_layer *layer;
};

/* The rows that products take: as floats or quantised, as their weights want. */
struct input {
    const float *x;
    size_t stride; /* floats */
    const uint8_t *q;
    size_t q_stride; /* bytes */
};

/* Items that a thread takes in its n-th go at a region of products. */
uint32_t grain_for(const struct runner *r, uint32_t n_items, uint32_t n);

/* Panels from .. to - 1 of matrix `each` of a product, over n_rows of the input. */
void run_product(struct runner *r, const struct product *p, uint32_t each, const struct input *in,
                 uint32_t n_rows, uint32_t from, uint32_t to);

/* Several products of the same input as one region, whose time counts as `of`; those whose matrix
 * is missing are left out. */
void products(struct runner *r, struct thread_pool_worker *w, const struct product *p, uint32_t n,
              const struct input *in, uint32_t n_rows, enum runner_part of);

/* Items of a region over n matrices of one shape, `each` of `unit` panels (1 or 2) in each. Their
 * order is that of the parts for memory nodes (matrix.h), in a part that of the matrices: a
 * thread's share is of panels that are near it. Items from .. to - 1 are pieces of matrices. */
struct pieces {
    uint32_t n, each, unit, n_parts;
    uint32_t from, to; /* what is left */
};
/* The next piece: items from .. to - 1 of matrix i; false: there is none. */
bool next_piece(struct pieces *s, uint32_t *i, uint32_t *from, uint32_t *to);

/* Of a matrix that is there. */
bool is_quantised(const struct matrix *m);

/* ---- adapters ---- */

/* Which rows of the batch have which adapter. */
void adapters_gather(struct runner *r);

/* LoRA's two halves, in vLLM's words. Shrink, a region of its own: the rows that the products of
 * this input take, through the As. Expand, once some panels of a product are done: what the Bs make
 * of that is added to them. */
void adapters_shrink(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                     enum adapter_input in, const struct input *rows);
void adapters_expand(struct runner *r, const struct product *p, uint32_t from, uint32_t to);

/* The matrices of adapters that are read soon after panels from .. to - 1 of a product, for it to
 * prefetch: the same panels of the Bs, and a share of the As that take the input after this one.
 * Returns their number, ADAPTER_MAX_RANGES at most. */
#define ADAPTER_MAX_RANGES 64
#define ADAPTER_GRAIN 64 /* panels of a product in one go: what it fetched is still in the cache */
size_t adapters_ahead(const struct runner *r, const struct product *p, uint32_t from, uint32_t to,
                      struct kern_range ranges[ADAPTER_MAX_RANGES]);

/* ---- classifiers ---- */

/* The numbers for labels of the pools that want them, once these are summed up. */
void label_pools(struct runner *r, struct thread_pool_worker *w);

/* ---- projections ---- */

/* Pooled vectors, but those of single tokens, through the layers behind the pooling. */
void project_pools(struct runner *r, struct thread_pool_worker *w);

/* ---- rows ---- */

/* What a branch has computed and x has not got yet. */
struct residual {
    const float *delta; /* [n_rows][embd_stride]; NULL: none */
    const float *bias;  /* [n_embd] or NULL: is added to each row first */
    struct norm post;   /* of the branch */
    struct norm sum;    /* of x, once it has the branch */
    struct norm input;  /* of x, once it has the branch's input a second time */
    const float *scale; /* [1] or NULL: of x in the end */
};

/* out = norm of n numbers, or they themselves where there is none; out may be x. */
void norm_row(const struct runner *r, float *out, const float *x, const struct norm *norm,
              size_t n);
void quantise_row(struct runner *r, uint32_t row, const float *x, size_t n);

/* Give x its branches; then norm = pre(x), quantised too if wanted. */
void residual_norm(struct runner *r, struct thread_pool_worker *w,
                   const struct residual branches[2], const struct norm *pre, bool quantise);

/* Biases, norms and rotation of queries and keys, which then go into the cache. */
void qkv_finish(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                uint32_t layer);

/* Norms of all heads of a row, and their rotation. */
void norm_heads(const struct runner *r, float *x, uint32_t n_head, size_t dim,
                const struct norm *norm);
void rope_heads(const struct runner *r, const struct model_layer *l, float *x, uint32_t n_head,
                size_t stride, uint32_t pos);
/* The n numbers of a row's queries, as their position wants them. */
void scale_query(const struct runner *r, const struct model_layer *l, float *q, uint32_t pos,
                 size_t n);
/* Keys and values of a row into its slot. */
void store_row(struct runner *r, uint32_t layer, uint32_t row, const float *k, const float *v);

/* ---- per-layer embeddings ---- */

/* r->per_layer: what each layer will get of each token, from x, the embedding. */
void per_layer_inputs(struct runner *r, struct thread_pool_worker *w);
/* r->delta = what layer i makes of that and of r->norm. */
void per_layer_out(struct runner *r, struct thread_pool_worker *w, uint32_t i);
/* What layer i makes of that and of x, which gets `pending` first; then it is what is pending. */
void per_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i,
               struct residual pending[2]);

/* ---- several streams ---- */

/* The streams from x, the embedding; a layer of all of them; x from what has become of them. */
void streams_begin(struct runner *r, struct thread_pool_worker *w);
void streams_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i);
void streams_end(struct runner *r, struct thread_pool_worker *w);

/* What a layer's branches leave for x, and whether they take quantised rows. */
struct residual attention_residual(const struct runner *r, const struct model_layer *l);
struct residual ffn_residual(const struct runner *r, const struct model_layer *l);
bool attention_quantises(const struct model_layer *l);
bool ffn_quantises(const struct model_layer *l);

/* One layer; `pending` is what the one before has left for x, and then what this one leaves. */
void run_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i,
               struct residual pending[2]);

/* The outputs of the batch: x through `norm` and `output`, and tokens chosen by that. */
void outputs(struct runner *r, struct thread_pool_worker *w, const struct norm *norm,
             const struct matrix *output);

/* ---- attention ---- */

/* r->delta = what attention adds, without bias; r->norm is its input. */
void attention(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
void mla_attention(struct runner *r, struct thread_pool_worker *w, uint32_t layer);

/* The keys and values of r->norm's rows into the cache, and nothing else. */
void attention_keys(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
void mla_keys(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
/* Of a row, as k's and v's products have made them. */
void store_keys(struct runner *r, const struct model_layer *l, uint32_t layer, uint32_t row);

/* r->att = every head's result over the queries, [n_rows][q_stride]. */
void attend(struct runner *r, struct thread_pool_worker *w, uint32_t layer, const float *q,
            size_t q_stride);
/* r->delta = the heads' results x, through attn_out. `has_quantised`: they are in qrows already. */
void project_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                 const float *x, size_t stride, bool has_quantised);

/* ---- recurrent layers ---- */

/* `out`, [n_rows][embd_stride], = what the layer's recurrent part adds; r->norm is its input, and
 * stays, r->qrows with it. The states of all spans go on. */
void recurrent(struct runner *r, struct thread_pool_worker *w, uint32_t layer, float *out);
/* What the states of the layer take in of rows of r->mix as its products have made them, and
 * nothing behind that. */
void recurrent_again(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
/* Does it take quantised rows? */
bool recurrent_quantises(const struct model_layer *l);

/* What a layer's part of a span's state is; does it begin with zeros? */
float *layer_state(const struct runner *r, const struct model_layer *l,
                   const struct batch_span *span);
bool begins_sequence(const struct batch_span *span);
/* A row of r->mix. */
float *mix_row(const struct runner *r, uint32_t row);
/* Channels from .. to - 1 of all rows of a span through the convolution, in place. */
void convolve(const struct runner *r, const struct model_layer *l, const struct batch_span *span,
              uint32_t from, uint32_t to, bool silu);
/* Panels of a value head that are an item. */
uint32_t panels_of_item(const struct runner *r);
/* The kinds. */
void delta_net(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
               float *out);
void mamba1(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
            float *out);
void mamba2(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
            float *out);
/* What they do behind the first products; their results stay in r->mix. */
void delta_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
void mamba1_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
void mamba2_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* `out` = the out-matrix of n_inner numbers of each row of r->mix from `at` on. `has_quantised`:
 * they are in r->mix_qrows already, if the matrix wants that. */
void recurrent_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                   uint32_t at, bool has_quantised, float *out);

/* ---- wrong guesses ---- */

/* The states of sequences with guesses, before the step; and rows of r->mix, as the layer's
 * products have made them, of each layer. */
void undo_keep_states(struct runner *r, struct thread_pool_worker *w);
void undo_keep_rows(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* Behind the step: the states are those behind the last row that was right. */
void undo_wrong(struct runner *r, struct thread_pool_worker *w);

/* ---- a layer that guesses ---- */

/* Its keys and values of all rows of the step, and the hidden states that the next one needs. */
void mtp_step(struct runner *r, struct thread_pool_worker *w);

/* ---- feed-forward ---- */

/* r->ffn_out = the dense net of r->norm, without bias. */
void feed_forward(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* The experts that each row chooses, by the router's outputs of r->norm. */
void moe_choose(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* r->ffn_out = those, of r->norm, and the shared one unless it is apart. */
void moe_run(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* Both; where the dense net is beside experts with other norms (experts_norm), r->norm is as it
 * wants it, and all norms but ffn_post_norm are done here. */
void moe(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);

/* What the experts of a row have made, as they count, is added to `out`. */
void moe_add_experts(struct runner *r, const struct model_layer *l, uint32_t row, float *out);
/* Where there is experts_in: r->moe_latent = what the experts take; and r->slot_out, a row for each
 * of the batch, = what experts_out makes of their sums. */
void moe_latent_in(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
void moe_latent_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);

/* Gates cut to their largest, and activated (is_sparse). */
void sparse_activate(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);

/* Columns from .. to - 1 of what an expert (or dense net, each 0) activates, n rows beginning with
 * row0 of `gate` and `up` [..][stride]: biases, activation, and quantised for `down` into q, unless
 * that is NULL. */
struct activation {
    float *gate, *up;
    size_t stride;
    uint8_t *q;
    size_t q_stride;
};
void activate(const struct runner *r, const struct ffn *net, uint32_t each,
              const struct activation *a, uint32_t row0, uint32_t n, size_t from, size_t to);

#endif
