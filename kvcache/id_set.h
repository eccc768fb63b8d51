/* kvcache/id_set.h - a set of numbers 0 .. n-1 that finds its next member in constant time.
 *
 * A bitmap has the members, a bitmap above it the words that are not empty, and so on until one
 * word is left: finding the next member reads at most two words a level, and there are at most six
 * levels for 2^31.
 *
 * Thread: one owner.
 * Memory: taken in id_set_init(): n / 8 bytes and a 64th of that.
 */
#ifndef KVCACHE_ID_SET_H
#define KVCACHE_ID_SET_H

#include <stdbool.h>
#include <stdint.h>

#define ID_SET_NONE UINT32_MAX
#define ID_SET_LEVELS 6 /* 64^6 > 2^31 */

struct id_set {
    uint32_t n;        /* numbers that may be members */
    uint32_t count;    /* members */
    uint32_t n_levels;
    uint32_t n_words[ID_SET_LEVELS];
    uint64_t *words[ID_SET_LEVELS]; /* words[0] holds the members; one allocation for all */
};

/* Create an empty set for numbers 0 .. n-1. ERR_INVAL (n is 0 or above 2^31), ERR_NOMEM. */
int id_set_init(struct id_set *s, uint32_t n);
void id_set_release(struct id_set *s);

void id_set_add(struct id_set *s, uint32_t i);    /* must not be a member */
void id_set_remove(struct id_set *s, uint32_t i); /* must be a member */
bool id_set_has(const struct id_set *s, uint32_t i);

/* The smallest member >= from, or ID_SET_NONE. */
uint32_t id_set_next(const struct id_set *s, uint32_t from);
/* Count the members from, from + 1, ... up to the first gap, at most `max`. */
uint32_t id_set_run(const struct id_set *s, uint32_t from, uint32_t max);

/* Check that levels and count agree. O(n / 64). */
bool id_set_check(const struct id_set *s);

#endif
