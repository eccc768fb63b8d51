/* scheduler/drafts/drafter.h - guessing the next tokens of a sequence.
 *
 * Speculative decoding without loss: a token is a function of the tokens before it, the seed and
 * the request, so a guess ("draft") is right or wrong. A step computes the rows of the drafts
 * behind that of the last known token and chooses a token at each row as it would without drafts.
 * Drafts are accepted as long as they equal the chosen tokens; the first chosen token that differs
 * replaces the first wrong draft. So drafts change the number of steps and never the answer. A
 * drafter only guesses; the scheduler decides how many drafts are worth their rows
 * (scheduler_drafts.c).
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

#define DRAFT_MAX 15 /* drafts of a sequence in a step: with its last token a tile of 16 rows */

struct request;

enum draft_source {
    DRAFT_LOOKUP = 0, /* the sequence's own text (prompt lookup, n-grams) */
    DRAFT_PREDICTION, /* the request's prediction of its answer */
    DRAFT_GRAMMAR,    /* a constraint that allows only one continuation */
    DRAFT_HISTORY,    /* earlier answers to the same tenant */
    DRAFT_MODEL,      /* a draft model (draft_model.h) */
    DRAFT_MTP,        /* the model's own layer for guesses (mtp_drafter.h) */
    DRAFT_INJECTED,   /* random tokens, for tests */
};
#define DRAFT_SOURCES 7

/* How sure a guess is: classes of guesses of one source that are right about as often. */
#define DRAFT_FITS 6
#define DRAFT_FIT_ANY DRAFT_FITS /* class not known: the source's mean rate */

struct draft {
    uint32_t n;      /* tokens to be computed; 0: no guess */
    uint32_t n_made; /* tokens that were guessed, >= n */
    uint8_t source[DRAFT_MAX]; /* [n_made] enum draft_source of each token */
    uint8_t fit[DRAFT_MAX];    /* [n_made] class of each token, if those before it are right */
};

struct drafter {
    void *ud; /* borrowed */
    /* Guess what follows ids[0 .. n_known) of a request: write 1 to `most` tokens into ids[n_known
     * ..], which has room for them, or none. They may be any tokens of the vocabulary. */
    struct draft (*propose)(void *ud, struct request *r, uint32_t n_known, uint32_t most);
    bool takes_all; /* every guess is computed, however expensive: tests, replays */
};

/* How many of n guesses come before the first one that is in ends[0 .. n_ends) and would end the
 * generation. */
uint32_t draft_before_end(const int32_t *ids, uint32_t n, const int32_t *ends, size_t n_ends);

/* A draft of n tokens from a place that matches the n_match tokens before it. Token j of it gets
 * the class of a match longer by j, because the j before it are right by then. */
struct draft draft_behind_match(uint32_t n, enum draft_source source, uint32_t n_match);
/* Append a token to the draft, at most DRAFT_MAX in all. */
void draft_add(struct draft *d, enum draft_source source, uint8_t fit);
/* The class of a token behind a match of n_match tokens. */
uint8_t draft_fit_of_match(uint32_t n_match);
/* The class of a token by its log-probability in a draft model. */
uint8_t draft_fit_of_logprob(float logprob);
/* Keep the first n tokens of a guess at most. */
void draft_cut(struct draft *d, uint32_t n);

const char *draft_source_name(enum draft_source s); /* "lookup" */

#endif
