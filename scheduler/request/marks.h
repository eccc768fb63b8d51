/* scheduler/request/marks.h - places in a prompt whose hidden states go through the model's head,
 * to score the options of a decision.
 *
 * Models that were trained for decisions have a marker token at each option. The head makes some
 * numbers of the hidden state at each marker; marks_settle() makes the score of each option of
 * them, and the scores become log-probabilities:
 *
 *   MARKS_POINTER  a head's numbers are a query and a key of the same length; the score is the
 *                  product of the last mark's query and the option's key, divided by the root of
 *                  the length. The last mark is the end of the prompt, and no option's.
 *   MARKS_EACH     the head makes one number, the score.
 *
 * Thread: the server fills it; then the engine's, until the request ends.
 * Memory: all arrays are the server's, which keeps them until the request ends.
 */
#ifndef SCHEDULER_REQUEST_MARKS_H
#define SCHEDULER_REQUEST_MARKS_H

#include <stdint.h>

enum marks_read {
    MARKS_POINTER = 0,
    MARKS_EACH,
};

struct mark {
    uint32_t pos;    /* position in the prompt */
    uint32_t option; /* whose score is read there */
};

struct marks {
    enum marks_read read;
    uint32_t n;
    const struct mark *at; /* [n] by position */
    uint32_t n_out;
    uint32_t question; /* the kind of question that the head is told (core/model/model.h) */
    float *outs;       /* [n][n_out] the head's numbers; filled by the runner */
    float *logprobs;   /* [options] filled by marks_settle() */
};

/* All marks are computed: make the log-probabilities of the options. */
void marks_settle(const struct marks *m);

#endif
