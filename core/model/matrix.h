/* core/model/matrix.h - packed matrices and norms: what the weights of a model are made of.
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

/* One matrix, or one for each expert (or head) of the same shape, one after the other. */
struct matrix {
    enum kern_weight type;
    uint32_t n_out;     /* rows of a matrix, as in the file */
    uint32_t n_in;      /* columns */
    uint32_t n_each;    /* matrices: 1, or the number of experts; 0: there is none */
    uint32_t n_panels;  /* of one: ceil(n_out / 16) */
    size_t panel_bytes;
    const uint8_t *data; /* see matrix_panel() */
    uint32_t n_parts;    /* for that many memory nodes; 0 and 1: there is one */
    uint32_t part_panels; /* room in a part for those of a matrix */
    size_t part_stride;  /* bytes from a part to the next */
    uint32_t n_scale;   /* products are multiplied by scale[0], or of each matrix by its own; */
    const float *scale; /* [n_scale] NULL: they are not */
};

static inline bool matrix_exists(const struct matrix *m)
{
    return m->n_each > 0;
}

/* With several parts, each has a share of every matrix's panels, in pairs: two panels give one
 * group of what the next product takes. The pairs before part i, of n pairs: */
static inline uint32_t matrix_cut(uint32_t n_pairs, uint32_t part, uint32_t n_parts)
{
    return (uint32_t)((uint64_t)n_pairs * part / n_parts);
}

/* The panels before part i; all of them before the one behind the last. */
static inline uint32_t matrix_part_panel(const struct matrix *m, uint32_t part)
{
    uint32_t panel;

    if (m->n_parts <= 1)
        return part == 0 ? 0 : m->n_panels;
    panel = 2 * matrix_cut((m->n_panels + 1) / 2, part, m->n_parts);
    return panel < m->n_panels ? panel : m->n_panels;
}

/* The part that has the panel. */
static inline uint32_t matrix_part_of(const struct matrix *m, uint32_t panel)
{
    const uint64_t n_pairs = (m->n_panels + 1) / 2;

    return (uint32_t)(((panel / 2 + 1) * (uint64_t)m->n_parts - 1) / n_pairs);
}

/* A panel of matrix `each`; of one part the next ones follow it. */
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

/* A norm over n numbers; without a weight there is none. */
struct norm {
    const float *weight, *bias; /* [n]; bias or NULL */
};

#endif
