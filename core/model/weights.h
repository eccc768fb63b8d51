/* core/model/weights.h - functions of weights*.c, which turn tensors into jobs (see load.h).
 *
 * Private to core/model. weights.c has the tensors of layers, weights_attention.c those that
 * contain parts of attention in another order, weights_recurrent.c and weights_mamba.c those of
 * recurrent layers, weights_ends.c those outside the layers, and weights_mtp.c those around the
 * layer that guesses.
 *
 * Thread: the loading thread.
 * Memory: load_weights() has allocated all jobs.
 * Errors: a sentence that names the tensor.
 */
#ifndef CORE_MODEL_WEIGHTS_H
#define CORE_MODEL_WEIGHTS_H

#include "core/model/load.h"

enum { TENSOR_REQUIRED = 0, TENSOR_OPTIONAL = 1 };

/* columns and rows of a matrix, number of matrices */
struct extent {
    uint64_t n_in, n_out, n_each;
};
bool tensor_has_extent(const struct gguf_tensor *t, struct extent e);
/* Write the sentence that the tensor has another extent than `e`; returns ERR_FORMAT. */
int tensor_fail_extent(struct load *l, const char *name, const struct gguf_tensor *t,
                       struct extent e);

/* Add a job that makes *dst of the tensor `name`, [n_out][n_in]. *dst stays empty if the tensor is
 * optional and absent. */
int weights_add_matrix(struct load *l, const char *name, int need, uint32_t n_in, uint32_t n_out,
                       struct matrix *dst);
/* Like weights_add_matrix(), for n_each matrices in one tensor, [n_each][n_out][n_in]. */
int weights_add_matrices(struct load *l, const char *name, int need, uint32_t n_in, uint32_t n_out,
                         uint32_t n_each, struct matrix *dst);
int weights_add_vector(struct load *l, const char *name, int need, uint32_t n, const float **dst);
/* Add a vector job. ERR_UNSUPPORTED: its tensor is not of floats. */
int weights_add_vector_job(struct load *l, struct vector_job job);

/* Most jobs that one tensor becomes. */
#define TENSOR_MAX_JOBS 4

int weights_add_matrix_job(struct load *l, struct matrix_job job, uint32_t n_in, uint32_t n_out,
                           uint32_t n_each);

/* Return the tensor blk.LAYER.SUFFIX, or NULL. */
const struct gguf_tensor *weights_in_layer(const struct load *l, uint32_t layer,
                                           const char *suffix);
/* Find the tensor blk.LAYER.SUFFIX, check its extent and mark it as used; *t is NULL if it is
 * optional and absent. */
int weights_find(struct load *l, uint32_t layer, const char *suffix, int need, struct extent e,
                 const struct gguf_tensor **t);
/* Add a job that makes *dst of the tensor blk.LAYER.SUFFIX, which must exist. */
int weights_add_layer_matrix(struct load *l, uint32_t layer, const char *suffix, uint32_t n_in,
                             uint32_t n_out, struct matrix *dst);
int weights_add_layer_vector(struct load *l, uint32_t layer, const char *suffix, int need,
                             uint32_t n, const float **dst);

/* Add the tensors of layer i's attention that are not plain matrices; *done: the members that they
 * fill. */
int weights_add_attention(struct load *l, uint32_t i, tensor_set *done);

/* Add the tensors of the layer's recurrent part. */
int weights_add_recurrent(struct load *l, uint32_t i);
int weights_add_mamba(struct load *l, uint32_t layer);

/* Rows of a tensor [..][n_tap]: the taps of the convolution for channels `at` and following. */
struct taps {
    const struct gguf_tensor *t;
    uint32_t row0, n, at;
};
/* Add all taps of the layer. */
int weights_add_taps(struct load *l, uint32_t layer, const struct taps *taps, uint32_t n);

/* Add the per-layer embeddings (n_per_layer). */
int weights_add_per_layer(struct load *l);

/* Add all tensors that belong to no layer, except embeddings. */
int weights_add_ends(struct load *l);

/* Add the parts around the layer that guesses (struct model_mtp). */
int weights_add_mtp(struct load *l);

#endif
