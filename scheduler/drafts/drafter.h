/* scheduler/drafts/drafter.h - who guesses the next tokens of a sequence.
 *
 * Speculative decoding without loss: a token is a function of the tokens before it, the seed and
 * the request, so a guess ("draft") is right or wrong. A step computes the drafts' rows beside the
 * last known token's and chooses at each row what it would choose anyway; drafts are accepted as
 * long as they equal that, and the first other token takes the place of the first wrong one. So a
 * draft changes no answer, only how many steps it takes. How many drafts are worth their rows is
 * the scheduler's to say (scheduler_drafts.c); a drafter only guesses.
 *
 * Source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", ICML 2023,
 * with the choice coupled by the seed instead of by rejection sampling.
 *
 * Thread: engine thread only.
 * Memory: none; a drafter allocates nothing in propose().
 */
#ifndef SCHEDULER_DRAFTS_DRAFTER_H
#define SCHEDULER_DRAFTS_DRAFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRAFT_MAX 15 /* of a sequence in a step: with its last token a tile of 16 rows */

struct request;

enum draft_source {
    DRAFT_LOOKUP = 0, /* the sequence's own text (prompt lookup, n-grams) */
    DRAFT_PREDICTION, /* the request's prediction of its answer */
    DRAFT_GRAMMAR,    /* a constraint that lets the text go on in one way only */
    DRAFT_HISTORY,    /* earlier answers to the same tenant */
    DRAFT_INJECTED,   /* anything: tests */
};
#define DRAFT_SOURCES 5

struct draft {
    uint32_t n; /* tokens; 0: no guess */
    enum draft_source source;
    uint32_t n_match; /* how well the text before fits where the guess comes from, in tokens */
};

struct drafter {
    void *ud; /* borrowed */
    /* Guess what follows ids[0 .. n_known) of a request: at most `most` tokens (1 to DRAFT_MAX, and
     * there is room for them) into ids[n_known ..]. They may be any tokens of the vocabulary. */
    struct draft (*propose)(void *ud, struct request *r, uint32_t n_known, uint32_t most);
    bool takes_all; /* each guess is computed, whatever it costs: tests, replays */
};

/* Of n guesses those before the first that would end the generation: one of ends[0 .. n_ends). */
uint32_t draft_before_end(const int32_t *ids, uint32_t n, const int32_t *ends, size_t n_ends);

const char *draft_source_name(enum draft_source s); /* "lookup" */

#endif
