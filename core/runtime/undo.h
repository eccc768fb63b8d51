/* core/runtime/undo.h - buffers to restore recurrent states after wrong guesses.
 *
 * Keys and values of wrong guesses are simply overwritten, but a recurrent state has taken wrong
 * rows in. So a step first copies the states of sequences with guesses, and also the inputs of
 * their scans: the outputs of the layers' products. If a guess was wrong, the copy becomes the
 * state again and the right rows are scanned once more, without any large product. The bits are
 * those of a step without the wrong rows (kernels/recurrent.h).
 *
 * Thread: undo_create(), undo_release(), undo_find(): the engine thread; in a step all threads of
 *         the pool.
 * Memory: taken in undo_create(): RUNNER_UNDO_SPANS states, and RUNNER_UNDO_ROWS rows for each
 *         state and recurrent layer.
 */
#ifndef CORE_RUNTIME_UNDO_H
#define CORE_RUNTIME_UNDO_H

#include <stddef.h>
#include <stdint.h>

#include "core/runtime/batch.h"

struct runner;
struct runner_options;

struct undo {
    uint32_t n;           /* number of spans of the step with guesses */
    uint32_t *spans;      /* [RUNNER_UNDO_SPANS] their indices in the batch */
    uint32_t *wrong;      /* [RUNNER_UNDO_SPANS] the spans with wrong guesses, as indices into
                           * `spans` */
    uint8_t *states;      /* [RUNNER_UNDO_SPANS][state_bytes], copies from before the step; NULL:
                           * spans may have no guesses */
    size_t state_bytes;
    float *rows;          /* [recurrent layer][RUNNER_UNDO_SPANS][RUNNER_UNDO_ROWS][mix_stride] */
    size_t row_bytes;     /* bytes of the mapping `rows` */
    struct batch *batch;  /* the rows that were right of spans with wrong guesses */
};

/* Allocate the buffers; none if options->undoes is false. ERR_NOMEM: the caller still calls
 * undo_release(). */
int undo_create(struct runner *r, const struct runner_options *options);
void undo_release(struct undo *u);

/* Fill `spans` with the step's spans that have guesses; none in a model without recurrent
 * states. */
void undo_find(struct undo *u, const struct batch *b);

#endif
