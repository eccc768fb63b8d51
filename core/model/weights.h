/* core/model/weights.h - what weights*.c share: from tensors to jobs (see load.h).
 *
 * Private to core/model. weights.c has the tensors of layers, weights_ends.c those behind them.
 *
 * Thread: the loading thread.
 * Memory: load_weights() has made room for all jobs.
 * Errors: a sentence that names the tensor.
 */
#ifndef CORE_MODEL_WEIGHTS_H
#define CORE_MODEL_WEIGHTS_H

#include "core/model/load.h"

enum { TENSOR_REQUIRED = 0, TENSOR_OPTIONAL = 1 };

/* Numbers of a row, rows of a matrix, matrices. */
struct extent {
    uint64_t n_in, n_out, n_each;
};
bool tensor_has_extent(const struct gguf_tensor *t, struct extent e);
/* ERR_FORMAT: it has another. */
int tensor_fail_extent(struct load *l, const char *name, const struct gguf_tensor *t,
                       struct extent e);

/* The tensor of that name, [n_out][n_in], becomes *dst; nothing does where it may be absent and is.
 */
int weights_add_matrix(struct load *l, const char *name, int need, uint32_t n_in, uint32_t n_out,
                       struct matrix *dst);
/* The same of several, [n_each][n_out][n_in]. */
int weights_add_matrices(struct load *l, const char *name, int need, uint32_t n_in, uint32_t n_out,
                         uint32_t n_each, struct matrix *dst);
int weights_add_vector(struct load *l, const char *name, int need, uint32_t n, const float **dst);
/* ERR_UNSUPPORTED where its tensor is not of floats. */
int weights_add_vector_job(struct load *l, struct vector_job job);

/* What layers get of each token beside x (n_per_layer). */
int weights_add_per_layer(struct load *l);

/* Everything that belongs to no layer, but embeddings. */
int weights_add_ends(struct load *l);

#endif
