/* core/runtime/undo.h - recurrent states behind guesses that were wrong.
 *
 * Keys and values of wrong guesses are overwritten, but a state has taken them in. So in a step the
 * states of sequences with guesses are copied beforehand, and so are the inputs of their scans, the
 * rows behind the layers' products. Where a guess was wrong, the copy becomes the state again and
 * takes in the right rows once more, without any product but small ones. The bits are those of a
 * step without the wrong rows (kernels/recurrent.h).
 *
 * Thread: undo_create(), undo_release(), undo_find(): the engine thread; in a step all threads of
 *         the pool.
 * Memory: taken in undo_create(): RUNNER_UNDO_SPANS states, and as many rows of each layer as they
 *         may have.
 */
#ifndef CORE_RUNTIME_UNDO_H
#define CORE_RUNTIME_UNDO_H

#include <stddef.h>
#include <stdint.h>

#include "core/runtime/batch.h"

struct runner;
struct runner_options;

struct undo {
    uint32_t n;           /* spans of the step with guesses */
    uint32_t *spans;      /* [RUNNER_UNDO_SPANS] their indices in the batch */
    uint32_t *wrong;      /* [RUNNER_UNDO_SPANS] those with wrong guesses, by index in spans */
    uint8_t *states;      /* [RUNNER_UNDO_SPANS][state_bytes], before the step; NULL: spans may have
                           * no guesses */
    size_t state_bytes;
    float *rows;          /* [recurrent layer][RUNNER_UNDO_SPANS][RUNNER_UNDO_ROWS][mix_stride] */
    size_t row_bytes;     /* bytes of the mapping `rows` */
    struct batch *batch;  /* the right rows of spans with wrong guesses */
};

/* Take the buffers; none where options->undoes is false. ERR_NOMEM; undo_release() is to be called
 * all the same. */
int undo_create(struct runner *r, const struct runner_options *options);
void undo_release(struct undo *u);

/* Find the spans of a step that have guesses; in a model without states there are none. */
void undo_find(struct undo *u, const struct batch *b);

#endif
