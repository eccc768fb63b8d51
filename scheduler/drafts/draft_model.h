/* scheduler/drafts/draft_model.h - guesses that are computed: by a second, smaller model, or by the
 * layers for multi-token prediction in the model's own file.
 *
 * Other guesses (drafter.h) are free. These take time: n tokens ahead take n batches, each with a
 * row for every stream, and the draft model must have computed a text's tokens (taken it in) before
 * it can guess what follows. So the scheduler asks for guesses only where that pays
 * (scheduler_draft_model.c), for all streams of a step at once, while it makes the plan.
 *
 * An implementation measures the time of its batches for the scheduler: struct draft_model_costs.
 *
 * Thread: engine thread only; batches are computed by all threads of the pool.
 * Memory: nothing is allocated in these calls.
 */
#ifndef SCHEDULER_DRAFTS_DRAFT_MODEL_H
#define SCHEDULER_DRAFTS_DRAFT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/drafts/draft_costs.h"
#include "scheduler/drafts/drafter.h"

#define DRAFT_NEAR 16 /* most tokens that guess() takes in itself */
#define DRAFT_FAR UINT32_MAX

struct plan_item;

struct draft_stream {             /* a stream with one token not computed yet: its last one */
    const struct plan_item *item; /* the stream's request, slot and block table */
    uint32_t n_known;             /* tokens in the request's ids */
    uint32_t most;                /* most guesses, >= 1 */
    struct draft draft;           /* out: guesses, in the request's ids[n_known ..] */
    enum draft_source source;     /* out: the source of all guesses */
    float logprob;                /* log-probability of all guesses together, by the draft model */
};

struct draft_model {
    void *ud; /* borrowed; all functions are NULL if there is no draft model */
    enum draft_source source;
    /* Count the tokens of the stream, without the last one, that the draft model has to take in
     * before it can guess. DRAFT_FAR: it cannot guess for this stream. */
    uint32_t (*n_behind)(void *ud, const struct draft_stream *s);
    /* Take in at most n more tokens of the stream. False: there is no room now. */
    bool (*take_in)(void *ud, const struct draft_stream *s, uint32_t n);
    /* Guess at most `depth` tokens (1 to DRAFT_MAX, or the stream's `most`) that follow each of n
     * streams (n <= DRAFT_ROWS), for none of which more than DRAFT_NEAR tokens are to be taken in.
     * A guess ends early where it is unlikely, where it would end the generation, or where there is
     * no room. */
    void (*guess)(void *ud, struct draft_stream *streams, uint32_t n, uint32_t depth);
};

struct draft_model_costs {
    struct draft_cost_model guesses; /* times of batches of guesses, by number of streams */
    double take_in_ns;               /* ns for a row of a text; 0: not known */
    double weight;                   /* bytes of the draft model / bytes of the model. Until a batch
                                      * was measured, one is assumed to take `weight` times as long
                                      * as a step with as many rows */
    uint64_t guess_us, take_in_us;   /* time spent since the current step began */
};

/* Report that a batch took `us`: of guesses, with a row for each of n streams (guessed), or of n
 * rows of texts (took_in). */
void draft_model_costs_guessed(struct draft_model_costs *c, uint32_t n, uint64_t us);
void draft_model_costs_took_in(struct draft_model_costs *c, uint32_t n, uint64_t us);
/* Fill in the draft model's costs; out->rows_ns is filled in already. */
void draft_model_costs_fill(const struct draft_model_costs *c, struct draft_costs *out);

#endif
