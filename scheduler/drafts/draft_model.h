/* scheduler/drafts/draft_model.h - guesses that are computed: by a second, smaller model, or by the
 * layers for it that a model's file has (multi-token prediction).
 *
 * Other guesses cost nothing (drafter.h). These do: n tokens ahead are n batches, each with a row
 * for each of the streams, and a text must have been taken in before anything can be guessed behind
 * it. So the scheduler asks for them only where that pays (scheduler_draft_model.c), for all
 * streams of a step at once, and while it makes the plan.
 *
 * Whoever implements it measures what its batches take, for the scheduler: struct
 * draft_model_costs.
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

#define DRAFT_NEAR 16 /* tokens that a guess takes in on its way, behind those it had */
#define DRAFT_FAR UINT32_MAX

struct plan_item;

struct draft_stream {             /* one token of it is not computed: its last one */
    const struct plan_item *item; /* its request, slot and block table */
    uint32_t n_known;             /* tokens in the request's ids */
    uint32_t most;                /* guesses that it can take, >= 1 */
    struct draft draft;           /* out: guesses, in the request's ids[n_known ..] */
    enum draft_source source;     /* out: of all of them */
    float logprob;                /* of all of them together, by the model that made them */
};

struct draft_model {
    void *ud; /* borrowed; NULL functions: there is none */
    enum draft_source source;
    /* Tokens of the stream that it has to take in before it can guess, without the last one.
     * DRAFT_FAR: it never can. */
    uint32_t (*n_behind)(void *ud, const struct draft_stream *s);
    /* Take in the next n of them at most. False: there is no room now. */
    bool (*take_in)(void *ud, const struct draft_stream *s, uint32_t n);
    /* Guess at most `depth` tokens (1 to DRAFT_MAX, or the stream's `most`) behind each of n
     * streams, at most DRAFT_ROWS, none of which is more than DRAFT_NEAR behind. A guess ends early
     * where it is unlikely, where it would end the generation, or where there is no room. */
    void (*guess)(void *ud, struct draft_stream *streams, uint32_t n, uint32_t depth);
};

struct draft_model_costs {
    struct draft_cost_model guesses; /* batches by streams */
    double take_in_ns;               /* a row of a text; 0: not known */
    double weight;                   /* of the model's bytes: goes for batches until it is known */
    uint64_t guess_us, take_in_us;   /* since they were last settled */
};

/* A batch with a row for each of n streams took us; or one of n rows of texts. */
void draft_model_costs_guessed(struct draft_model_costs *c, uint32_t n, uint64_t us);
void draft_model_costs_took_in(struct draft_model_costs *c, uint32_t n, uint64_t us);
/* Fill in what planning needs, where rows_ns is known. */
void draft_model_costs_fill(const struct draft_model_costs *c, struct draft_costs *out);

#endif
