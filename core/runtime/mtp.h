/* core/runtime/mtp.h - buffers of the runner for a layer that guesses tokens (struct model_mtp).
 *
 * The layer's keys and values are in the KV cache like those of any other layer, so they are
 * shared, copied and swapped with the blocks. Those of a position are made of its token and the
 * model's hidden state at the position before. The hidden state of a sequence's last row is kept
 * under the sequence's slot. After a cached prefix or a preemption it is missing, and zeros take
 * its place for one position: guesses become worse, answers do not.
 *
 * A guess is a row after the last computed one. Its keys and values go into two private blocks of
 * its slot (kv_store.h), the first of which begins as a copy of the sequence's last block, so that
 * a guess never writes a block that other sequences may share.
 *
 * Thread: mtp_create(), mtp_release() and guesses: the engine thread; in a step all threads of the
 *         pool, each for its rows or spans.
 * Memory: taken in mtp_create().
 */
#ifndef CORE_RUNTIME_MTP_H
#define CORE_RUNTIME_MTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/runtime/batch.h"
#include "kvcache/block_pool.h"

struct runner;
struct runner_options;

#define MTP_TILE_ROWS 64     /* rows whose pairs of vectors are in memory at a time */
#define MTP_PRIVATE_BLOCKS 2 /* private blocks of a slot */

/* Says whose hidden state a slot keeps, and for which position. */
struct mtp_kept {
    uint64_t owner;
    uint32_t pos;  /* position of the row whose input the hidden state is */
    bool is_there;
};

struct mtp {
    uint32_t n_slots;      /* 0: nothing is guessed, and no buffer exists */
    size_t stride;         /* floats of a hidden state */
    struct mtp_kept *kept; /* [n_slots] */
    float *hidden;         /* [n_slots][stride] */
    float *guessed;        /* [n_slots][stride] the guessing layer's own hidden states after
                            * guesses */
    uint32_t *last;        /* [max_rows] by span of the step: its last row whose token was not a
                            * wrong guess */
    /* two vectors in a row, as eh_proj takes them: [MTP_TILE_ROWS][..] */
    size_t pair_stride;    /* floats */
    size_t pair_qrow_stride; /* bytes */
    float *pairs;
    uint8_t *pair_qrows;
    /* guesses: one row each */
    struct batch *batch;
    const float **from;    /* [n_slots] by row: the hidden state that the row continues from */
    block_id *tables;      /* [n_slots][table_cap] */
    uint32_t table_cap;
};

/* Allocate the buffers; none if options->n_slots is 0. ERR_NOMEM: the caller still calls
 * mtp_release(). */
int mtp_create(struct runner *r, const struct runner_options *options);
void mtp_release(struct mtp *m);

/* Return the slot's hidden state at position pos - 1 of the sequence `owner`, or NULL if it is not
 * kept. */
const float *mtp_hidden(const struct mtp *m, uint32_t slot, uint64_t owner, uint32_t pos);

/* Find the last row of each span of the step whose token was not a wrong guess. */
void mtp_find_last(struct mtp *m, const struct batch *b);

#endif
