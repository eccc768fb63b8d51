/* core/model/matrix.h - packed matrices and norms, the weights of a model.
 *
 * Plain data; the panels and vectors are the model's (model.h). On machines with several memory
 * nodes panels lie in parts, one for each node (core/base/numa.h).
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

/* One matrix, or n_each of them (one for each expert or head) with the same shape, one after the
 * other. */
struct matrix {
    enum kern_weight type;
    uint32_t n_out;     /* rows of one matrix (outputs) */
    uint32_t n_in;      /* columns (inputs) */
    uint32_t n_each;    /* number of matrices: 1, or the number of experts; 0: the matrix does not
                         * exist */
    uint32_t n_panels;  /* panels of one matrix: ceil(n_out / 16) */
    size_t panel_bytes;
    const uint8_t *data; /* see matrix_panel() */
    uint32_t n_parts;    /* parts, one for each memory node; 0 and 1: one part */
    uint32_t part_panels; /* panels of one matrix that a part has room for */
    size_t part_stride;  /* bytes from one part to the next */
    uint32_t n_scale;   /* 1: products are multiplied by scale[0]; else those of matrix i by
                         * scale[i] */
    const float *scale; /* [n_scale]; NULL: no scale */
};

static inline bool matrix_exists(const struct matrix *m)
{
    return m->n_each > 0;
}

/* Return how many of a matrix's n_pairs pairs of panels lie before part `part`. Each part has a
 * share of every matrix's panels; pairs stay together, because two panels make one group of the
 * next product's input. */
static inline uint32_t matrix_cut(uint32_t n_pairs, uint32_t part, uint32_t n_parts)
{
    return (uint32_t)((uint64_t)n_pairs * part / n_parts);
}

/* Return the number of panels before part `part`; for part == n_parts, all panels. */
static inline uint32_t matrix_part_panel(const struct matrix *m, uint32_t part)
{
    uint32_t panel;

    if (m->n_parts <= 1)
        return part == 0 ? 0 : m->n_panels;
    panel = 2 * matrix_cut((m->n_panels + 1) / 2, part, m->n_parts);
    return panel < m->n_panels ? panel : m->n_panels;
}

/* Return the part that has the panel. */
static inline uint32_t matrix_part_of(const struct matrix *m, uint32_t panel)
{
    const uint64_t n_pairs = (m->n_panels + 1) / 2;

    return (uint32_t)(((panel / 2 + 1) * (uint64_t)m->n_parts - 1) / n_pairs);
}

/* Return a panel of matrix number `each`; the next panels of the same part follow it in memory. */
static inline const uint8_t *matrix_panel(const struct matrix *m, uint32_t each, uint32_t panel)
{
    uint32_t part;

    if (m->n_parts <= 1)
        return m->data + ((size_t)each * m->n_panels + panel) * m->panel_bytes;
    part = matrix_part_of(m, panel);
    panel -= matrix_part_panel(m, part);
    return m->data + part * m->part_stride +
           ((size_t)each * m->part_panels + panel) * m->panel_bytes;
}

/* A norm over n values; weight NULL: there is no norm. */
struct norm {
    const float *weight, *bias; /* [n]; bias or NULL */
};

#endif
