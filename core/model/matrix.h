/* core/model/matrix.h - packed matrices and norms: what the weights of a model are made of.
 *
 * Plain data; the panels and vectors are the model's (model.h).
 *
 * Thread: any; read-only once the model is loaded.
 * Memory: none of its own.
 */
#ifndef CORE_MODEL_MATRIX_H
#define CORE_MODEL_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* One matrix, or one for each expert (or head) of the same shape, one after the other. */
struct matrix {
    enum kern_weight type;
    uint32_t n_out;     /* rows of a matrix, as in the file */
    uint32_t n_in;      /* columns */
    uint32_t n_each;    /* matrices: 1, or the number of experts; 0: there is none */
    uint32_t n_panels;  /* of one: ceil(n_out / 16) */
    size_t panel_bytes; /* panel p of matrix e at data + (e * n_panels + p) * panel_bytes */
    const uint8_t *data;
    uint32_t n_scale;   /* products are multiplied by scale[0], or of each matrix by its own; */
    const float *scale; /* [n_scale] NULL: they are not */
};

static inline bool matrix_exists(const struct matrix *m)
{
    return m->n_each > 0;
}

/* A norm over n numbers; without a weight there is none. */
struct norm {
    const float *weight, *bias; /* [n]; bias or NULL */
};

#endif
