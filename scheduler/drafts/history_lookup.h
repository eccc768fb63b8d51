/* scheduler/drafts/history_lookup.h - where the last tokens of a text stood in earlier answers.
 *
 * The answers of an engine's requests in a ring of tokens: a new one takes the place of the oldest.
 * Positions are in chains by the three tokens that end there and the answer's salt. A look-up
 * follows the chain of a text's last three tokens, at most LOOKUP_CHAIN places back, and takes the
 * place before which most tokens are the same; of equals the latest, but the place of the text's
 * last look-up is gone on with as long as it fits as well as any other.
 *
 * Only answers with the text's own salt are looked at, which is compared in full, and what is
 * compared and what is found ends where the answer does: nobody is told of what was said to others.
 *
 * Thread: one owner.
 * Memory: taken at creation, history_lookup_bytes(); of that only what is in use is ever touched.
 */
#ifndef SCHEDULER_DRAFTS_HISTORY_LOOKUP_H
#define SCHEDULER_DRAFTS_HISTORY_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_FEWEST 8            /* tokens: shorter texts are not kept */
#define HISTORY_MOST (1u << 24)     /* tokens in all */

struct history_lookup;

/* Where a text's last look-up led to; zero: it had none. */
struct history_place {
    uint32_t n_known; /* tokens that the text had */
    uint32_t next;    /* slot of what followed */
};

struct history_match {
    const int32_t *ids; /* [n] what followed there; valid until the next text is entered */
    uint32_t n;
    uint32_t n_match;   /* tokens before it that are the same; 0: nothing was found */
};

size_t history_lookup_bytes(uint32_t max);
/* For `max` tokens, 1 to HISTORY_MOST. ERR_NOMEM. */
int history_lookup_create(struct history_lookup **out, uint32_t max);
void history_lookup_destroy(struct history_lookup **h);

/* Keep a text, of one that is too long the end. O(n). */
void history_lookup_enter(struct history_lookup *h, const int32_t *ids, uint32_t n, uint64_t salt);
/* What followed where the last of ids[0 .. n_known) stood? *place: of the same text, kept here. */
struct history_match history_lookup_find(const struct history_lookup *h, const int32_t *ids,
                                         uint32_t n_known, uint64_t salt,
                                         struct history_place *place);

/* Do the answers lie one behind the other, and add up to what is in use? O(tokens in use). */
bool history_lookup_check(const struct history_lookup *h);

#endif
