/* scheduler/drafts/drafter.h - guessing the next tokens of a sequence.
 *
 * Speculative decoding without loss: a token is a function of the tokens before it, the seed and
 * the request, so a guess ("draft") is right or wrong. A step computes the row of the last known
 * token and then those of the drafts, and chooses a token at each row as it would without drafts.
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

#define DRAFT_MAX 15 /* most drafts of a sequence in a step: with the last known token a tile of 16
                      * rows */

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

/* Classes of certainty: the guesses of one source and class are right about as often. */
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
    /* Guess the tokens that follow ids[0 .. n_known) of a request: write 1 to `most` of them, or
     * none, into ids[n_known ..], which has room. They may be any tokens of the vocabulary. */
    struct draft (*propose)(void *ud, struct request *r, uint32_t n_known, uint32_t most);
    bool takes_all; /* every guess is computed, however expensive: tests, replays */
};

/* Count the guesses before the first one that is in ends[0 .. n_ends), which would end the
 * generation; n: none is. */
uint32_t draft_before_end(const int32_t *ids, uint32_t n, const int32_t *ends, size_t n_ends);

/* Make a draft of n tokens that follow a match of n_match tokens. Token j gets the class of a match
 * of n_match + j tokens: it only counts if the j tokens before it are right. */
struct draft draft_behind_match(uint32_t n, enum draft_source source, uint32_t n_match);
/* Append a token to the draft, at most DRAFT_MAX in all. */
void draft_add(struct draft *d, enum draft_source source, uint8_t fit);
/* Return the class of a token that follows a match of n_match tokens. */
uint8_t draft_fit_of_match(uint32_t n_match);
/* Return the class of a token by its log-probability in a draft model. */
uint8_t draft_fit_of_logprob(float logprob);
/* Cut a guess to at most n tokens. */
void draft_cut(struct draft *d, uint32_t n);

const char *draft_source_name(enum draft_source s); /* "lookup" */

#endif
