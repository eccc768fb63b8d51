/* scheduler/request/history_lookup.h - searches earlier answers for the last tokens of a text.
 *
 * A ring of tokens holds the answers of an engine's requests; a new one overwrites the oldest.
 * Positions are in chains by the three tokens that end there and the answer's salt. A look-up
 * follows the chain of a text's last three tokens, at most LOOKUP_CHAIN places back, and takes the
 * place with the longest match, of equal ones the latest; but it continues at the place of the
 * text's last look-up as long as that matches as well as any other.
 *
 * A look-up compares only answers whose salt equals the text's, and neither the comparison nor the
 * result goes beyond an answer: a client never gets tokens of another tenant's answers.
 *
 * Thread: one owner.
 * Memory: taken at creation, history_lookup_bytes(); of that only what is in use is ever touched.
 */
#ifndef SCHEDULER_REQUEST_REQUEST_HISTORY_LOOKUP_H
#define SCHEDULER_REQUEST_REQUEST_HISTORY_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_FEWEST 8            /* tokens: shorter texts are not kept */
#define HISTORY_MOST (1u << 24)     /* tokens in all */

struct history_lookup;

/* The place that a text's last look-up found; zero: none. */
struct history_place {
    uint32_t n_known; /* tokens that the text had */
    uint32_t next;    /* slot of the token that followed */
};

struct history_match {
    const int32_t *ids; /* [n] the tokens that followed; valid until the next text is entered */
    uint32_t n;
    uint32_t n_match;   /* equal tokens before it; 0: nothing was found */
};

size_t history_lookup_bytes(uint32_t max);
/* Create a ring of `max` tokens, 1 to HISTORY_MOST. ERR_NOMEM. */
int history_lookup_create(struct history_lookup **out, uint32_t max);
void history_lookup_destroy(struct history_lookup **h);

/* Keep a text, or its last `max` tokens. O(n). */
void history_lookup_enter(struct history_lookup *h, const int32_t *ids, uint32_t n, uint64_t salt);
/* Find the last tokens of ids[0 .. n_known), and return what followed them. *place belongs to the
 * text and keeps the found place for the next call. */
struct history_match history_lookup_find(const struct history_lookup *h, const int32_t *ids,
                                         uint32_t n_known, uint64_t salt,
                                         struct history_place *place);

/* Check that the answers lie in the ring without gaps and add up to the slots in use. O(tokens in
 * use). */
bool history_lookup_check(const struct history_lookup *h);

#endif
