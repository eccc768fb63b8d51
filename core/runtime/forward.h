/* core/runtime/forward.h - the parts of the forward pass; see runner.h.
 *
 * Private to core/runtime. All threads of the pool run each part together: they share a region of
 * items (rows, panels, attention tiles) and meet at a barrier at its end. An item also activates
 * its results and quantises them for the next product while they are in the thread's cache.
 *
 *   forward.c            the pass, embeddings, outputs
 *   forward_labels.c     classifiers
 *   forward_tokens.c     heads that read each token
 *   forward_projection.c layers after the pooling
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
 *   forward_moe_latent.c experts whose input is narrower than x
 *   forward_streams.c    models with several streams
 *   forward_sparse.c     activations of which most are cut to 0
 *   forward_per_layer.c  per-layer embeddings of the tokens
 *   forward_adapters.c   LoRA adapters
 *   forward_mtp.c        a layer that guesses tokens
 *   forward_undo.c       restores recurrent states after wrong guesses
 *
 * Thread: all threads of the pool, inside a step.
 * Memory: the runner's buffers; nothing is allocated.
 */
#ifndef CORE_RUNTIME_FORWARD_H
#define CORE_RUNTIME_FORWARD_H

#include "core/model/adapter.h"
#include "core/model/model.h"
#include "core/runtime/runner_impl.h"
#include "core/runtime/thread_pool.h"

/* End a region: wait for all threads and add its time to `part`. */
void end_region(struct runner *r, struct thread_pool_worker *w, enum runner_part part);

/* Take the next rows from .. to - 1 of a region over n rows; the grain suits a decode step with few
 * rows as well as a prompt chunk with many. False: none is left. */
bool take_rows_of(struct runner *r, struct thread_pool_worker *w, uint32_t n, uint32_t *from,
                  uint32_t *to);

/* Write row `row` of the matrix to `out` as floats. */
void unpack_row(const struct matrix *m, uint32_t row, float *out);

/* ---- products ---- */

struct product {
    const struct matrix *w;
    float *out;
    size_t out_stride;
    enum adapter_target target; /* which product of `layer` it is, for adapters */
    const struct model_layer *layer;
};

/* The input rows of a product: floats in x or quantised in q, whichever its weights need. */
struct input {
    const float *x;
    size_t stride; /* floats */
    const uint8_t *q;
    size_t q_stride; /* bytes */
};

/* Return the number of items that a thread takes at its n-th call (from 0) in a region of
 * n_items. */
uint32_t grain_for(const struct runner *r, uint32_t n_items, uint32_t n);

/* Compute panels from .. to - 1 of the product's matrix number `each` (an expert, a head), for
 * n_rows rows of the input. */
void run_product(struct runner *r, const struct product *p, uint32_t each, const struct input *in,
                 uint32_t n_rows, uint32_t from, uint32_t to);

/* Compute n products of the same input as one region and add its time to part `of`. Products whose
 * matrix is missing are left out. */
void products(struct runner *r, struct thread_pool_worker *w, const struct product *p, uint32_t n,
              const struct input *in, uint32_t n_rows, enum runner_part of);

/* The items of a region over n matrices of one shape; a matrix has `each` items of `unit` panels (1
 * or 2). Items are ordered by memory node (matrix.h) and then by matrix, so that a thread's share
 * is on its own node. next_piece() splits items from .. to - 1 at the borders between matrices. */
struct pieces {
    uint32_t n, each, unit, n_parts;
    uint32_t from, to; /* items from .. to - 1 are left */
};
/* Take the next piece: items from .. to - 1 of matrix i. False: no piece is left. */
bool next_piece(struct pieces *s, uint32_t *i, uint32_t *from, uint32_t *to);

/* True: the matrix exists and is quantised. */
bool is_quantised(const struct matrix *m);

/* ---- adapters ---- */

/* Find the rows of the batch that each adapter applies to. */
void adapters_gather(struct runner *r);

/* The two halves of LoRA, in vLLM's words. Shrink is a region of its own: it multiplies the input
 * rows by each adapter's A. Expand runs right after panels from .. to - 1 of a product: it adds B
 * times the shrunken rows to them. */
void adapters_shrink(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                     enum adapter_input in, const struct input *rows);
void adapters_expand(struct runner *r, const struct product *p, uint32_t from, uint32_t to);

/* List the adapter memory that is read soon after panels from .. to - 1 of a product, so that the
 * product prefetches it: the same panels of each B, and a share of the As of the next input.
 * Returns the number of ranges, ADAPTER_MAX_RANGES at most. */
#define ADAPTER_MAX_RANGES 64
#define ADAPTER_GRAIN 64 /* panels between two prefetches: the prefetched bytes are still cached
                          * when they are read */
size_t adapters_ahead(const struct runner *r, const struct product *p, uint32_t from, uint32_t to,
                      struct kern_range ranges[ADAPTER_MAX_RANGES]);

/* ---- classifiers ---- */

/* The vector of a pool that is complete: its sum, or the only row's state. */
static inline const float *pool_vector(const struct runner *r, const struct batch_pool *p)
{
    return p->sum != NULL ? p->sum : r->norm + (size_t)p->row0 * r->embd_stride;
}

/* Compute the label scores of pools whose `labels` is set; their sums are complete then. */
void label_pools(struct runner *r, struct thread_pool_worker *w);
/* Compute the outputs of pools that have a token head, from the normed rows in r->norm. */
void run_token_heads(struct runner *r, struct thread_pool_worker *w);
/* Add the bias of head h to rows of r->head_rows, the outputs of its `dense`, activate and norm
 * them, and quantise them if `out` takes quantised rows. */
void activate_dense(struct runner *r, struct thread_pool_worker *w, const struct model_head *h,
                    uint32_t n_rows);

/* ---- projections ---- */

/* Run pooled vectors through the dense layers after the pooling; vectors of single tokens (next !=
 * 0) are left out. */
void project_pools(struct runner *r, struct thread_pool_worker *w);

/* ---- rows ---- */

/* A branch's output (attention, feed-forward net) that is not added to x yet. */
struct residual {
    const float *delta; /* [n_rows][embd_stride]; NULL: none */
    const float *bias;  /* [n_embd] or NULL: added to each row of delta first */
    struct norm post;   /* norm of delta before it is added */
    struct norm sum;    /* norm of x after delta is added */
    struct norm input;  /* norm of x after the branch's input was added once more */
    const float *scale; /* [1] or NULL: x is multiplied by it at the end */
};

/* Write the norm of the n floats x to `out`, or a copy of x if the norm has no weight; out may be
 * x. */
void norm_row(const struct runner *r, float *out, const float *x, const struct norm *norm,
              size_t n);
void quantise_row(struct runner *r, uint32_t row, const float *x, size_t n);

/* Add both branches to x, write pre(x) to r->norm and, if `quantise`, also to r->qrows. */
void residual_norm(struct runner *r, struct thread_pool_worker *w,
                   const struct residual branches[2], const struct norm *pre, bool quantise);

/* For all rows: add the biases to queries, keys and values, norm and rotate them, and write keys
 * and values to the KV cache. */
void qkv_finish(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                uint32_t layer);

/* Norm each of the n_head heads of a row, `dim` floats each. */
void norm_heads(const struct runner *r, float *x, uint32_t n_head, size_t dim,
                const struct norm *norm);
void rope_heads(const struct runner *r, const struct model_layer *l, float *x, uint32_t n_head,
                size_t stride, uint32_t pos);
/* Multiply the n floats of a row's queries by the factor of position `pos`. */
void scale_query(const struct runner *r, const struct model_layer *l, float *q, uint32_t pos,
                 size_t n);
/* Write the keys and values of a row into its slot of the KV cache. */
void store_row(struct runner *r, uint32_t layer, uint32_t row, const float *k, const float *v);

/* ---- per-layer embeddings ---- */

/* Compute r->per_layer, the per-layer inputs of each token, from x, which holds the embedding. */
void per_layer_inputs(struct runner *r, struct thread_pool_worker *w);
/* r->delta = the output of layer i's per-layer net for r->per_layer and r->norm. */
void per_layer_out(struct runner *r, struct thread_pool_worker *w, uint32_t i);
/* Add `pending` to x, run layer i's per-layer net on x and r->per_layer, and make its result
 * `pending`. */
void per_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i,
               struct residual pending[2]);

/* ---- several streams ---- */

/* Before the layers: make the streams from the embedding x. For layer i: run it on all streams.
 * After the layers: merge the streams into x. */
void streams_begin(struct runner *r, struct thread_pool_worker *w);
void streams_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i);
void streams_end(struct runner *r, struct thread_pool_worker *w);

/* Return the residual of a layer's branch; True: the branch takes quantised rows. */
struct residual attention_residual(const struct runner *r, const struct model_layer *l);
struct residual ffn_residual(const struct runner *r, const struct model_layer *l);
bool attention_quantises(const struct model_layer *l);
bool ffn_quantises(const struct model_layer *l);

/* Run one layer. On entry `pending` holds the branches of the layer before, on return this
 * layer's. */
void run_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i,
               struct residual pending[2]);

/* Compute the logits of the batch's outputs, output * norm(x), and choose or score their tokens. */
void outputs(struct runner *r, struct thread_pool_worker *w, const struct norm *norm,
             const struct matrix *output);

/* ---- attention ---- */

/* Compute attention for r->norm into r->delta, without the bias of attn_out. */
void attention(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
void mla_attention(struct runner *r, struct thread_pool_worker *w, uint32_t layer);

/* Only write the keys and values of r->norm's rows into the KV cache. */
void attention_keys(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
void mla_keys(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
/* Finish (bias, norm, rotation) one row's outputs of the products of k and v, and write them into
 * the KV cache. */
void store_keys(struct runner *r, const struct model_layer *l, uint32_t layer, uint32_t row);

/* Compute all heads' results for the queries q, [n_rows][q_stride], into r->att. */
void attend(struct runner *r, struct thread_pool_worker *w, uint32_t layer, const float *q,
            size_t q_stride);
/* Multiply attn_out by the heads' results x, into r->delta. `has_quantised`: r->qrows already holds
 * x quantised. */
void project_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                 const float *x, size_t stride, bool has_quantised);

/* ---- recurrent layers ---- */

/* Compute the layer's recurrent part for r->norm into out, [n_rows][embd_stride], and advance the
 * states of all spans. r->norm and r->qrows stay unchanged. */
void recurrent(struct runner *r, struct thread_pool_worker *w, uint32_t layer, float *out);
/* Advance the layer's states by rows of r->mix that hold the outputs of the layer's products; no
 * output is computed. */
void recurrent_again(struct runner *r, struct thread_pool_worker *w, uint32_t layer);
/* True: the layer's recurrent part takes quantised rows. */
bool recurrent_quantises(const struct model_layer *l);

/* layer_state() returns the layer's part of a span's state; begins_sequence() is true if the span
 * begins a sequence, whose state is zeros. */
float *layer_state(const struct runner *r, const struct model_layer *l,
                   const struct batch_span *span);
bool begins_sequence(const struct batch_span *span);
/* Return row `row` of r->mix. */
float *mix_row(const struct runner *r, uint32_t row);
/* Run the convolution over channels from .. to - 1 of all rows of a span, in place; `silu`: then
 * activate them. */
void convolve(const struct runner *r, const struct model_layer *l, const struct batch_span *span,
              uint32_t from, uint32_t to, bool silu);
/* Return the number of panels of a value head in one work item. */
uint32_t panels_of_item(const struct runner *r);
/* Compute a layer of this kind for r->norm into `out`; recurrent() calls them. */
void delta_net(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
               float *out);
void mamba1(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
            float *out);
void mamba2(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
            float *out);
/* Run the scan of the first products' outputs in r->mix; its results stay in r->mix. */
void delta_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
void mamba1_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
void mamba2_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* Multiply the layer's out-matrix by n_inner floats of each row of r->mix, from offset `at` on,
 * into `out`. `has_quantised`: r->mix_qrows already holds them if the matrix takes quantised
 * rows. */
void recurrent_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                   uint32_t at, bool has_quantised, float *out);

/* ---- wrong guesses ---- */

/* Copy what undo_wrong() needs of spans with guesses: their states before the step and, for each
 * layer, their rows of r->mix after the layer's products. */
void undo_keep_states(struct runner *r, struct thread_pool_worker *w);
void undo_keep_rows(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* After the step: set the state of each sequence with a wrong guess to that after its last right
 * row. */
void undo_wrong(struct runner *r, struct thread_pool_worker *w);

/* ---- a layer that guesses ---- */

/* Write the guessing layer's keys and values for all rows of the step, and keep the hidden states
 * that the next guess or step needs. */
void mtp_step(struct runner *r, struct thread_pool_worker *w);

/* ---- feed-forward ---- */

/* Compute the dense net for r->norm into r->ffn_out, without the bias of down. */
void feed_forward(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* Choose each row's experts by the router's outputs for r->norm. */
void moe_choose(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* Run the chosen experts on r->norm and write their weighted sum to r->ffn_out, with the shared
 * expert's output unless it is apart. */
void moe_run(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
/* Choose and run the experts. If the layer also has a dense net with norms of its own
 * (experts_norm), r->norm holds the dense net's input, and this function runs all norms but
 * ffn_post_norm. */
void moe(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);

/* Add the weighted outputs of a row's experts to `out`. */
void moe_add_experts(struct runner *r, const struct model_layer *l, uint32_t row, float *out);
/* Only with experts_in. moe_latent_in() computes the experts' input rows into r->moe_latent;
 * moe_latent_out() multiplies experts_out by each row's sum over its experts, into r->slot_out. */
void moe_latent_in(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);
void moe_latent_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);

/* For is_sparse: set all but the largest gates of each row to 0, and activate them. */
void sparse_activate(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l);

/* Activate columns from .. to - 1 of expert number `each` (0 for the dense net) in rows row0 ..
 * row0 + n - 1 of `gate` and `up`, [..][stride]: add the biases, activate into `gate`, and quantise
 * for `down` into q unless q is NULL. */
struct activation {
    float *gate, *up;
    size_t stride;
    uint8_t *q;
    size_t q_stride;
};
void activate(const struct runner *r, const struct ffn *net, uint32_t each,
              const struct activation *a, uint32_t row0, uint32_t n, size_t from, size_t to);

#endif
