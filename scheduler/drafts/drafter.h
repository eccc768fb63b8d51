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
    DRAFT_MODEL,      /* a draft model (draft_model.h) */
    DRAFT_MTP,        /* the model's own layer for guesses (mtp_drafter.h) */
    DRAFT_INJECTED,   /* anything: tests */
};
#define DRAFT_SOURCES 7

/* How sure a guess is, in classes of guesses of one source that are right about as often. */
#define DRAFT_FITS 6
#define DRAFT_FIT_ANY DRAFT_FITS /* not known: as sure as the source's guesses are on the whole */

struct draft {
    uint32_t n;      /* tokens that are to be computed; 0: no guess */
    uint32_t n_made; /* that were guessed, >= n */
    uint8_t source[DRAFT_MAX]; /* [n_made] enum draft_source of each */
    uint8_t fit[DRAFT_MAX];    /* [n_made] of each, if those before it are right */
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

/* A guess of n tokens, where n_match tokens before it fit the place that it comes from: whoever has
 * guessed j tokens right in a row has a match longer by j. */
struct draft draft_behind_match(uint32_t n, enum draft_source source, uint32_t n_match);
/* One token more, at most DRAFT_MAX in all. */
void draft_add(struct draft *d, enum draft_source source, uint8_t fit);
/* The fit of a token behind a match of so many. */
uint8_t draft_fit_of_match(uint32_t n_match);
/* The fit of a token that a model holds for so likely: the logarithm of its share, of 1. */
uint8_t draft_fit_of_logprob(float logprob);
/* Keep the first n tokens of a guess at most. */
void draft_cut(struct draft *d, uint32_t n);

const char *draft_source_name(enum draft_source s); /* "lookup" */

#endif
