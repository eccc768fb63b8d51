/* core/tokenizer/word_cache.h - a cache from words of one text to their token ids.
 *
 * Texts repeat their words, and merging a word costs some twenty times as much as this lookup. The
 * table is two-way associative: a word may be in two slots, which hold the last two words with that
 * hash.
 *
 * Thread: one owner; a cache lives within one call of tokenizer_encode(), so that tokenizers stay
 *         read-only and there is nothing to lock.
 * Memory: 48 bytes a slot, in proportion to the text up to 32,768 slots.
 */
#ifndef CORE_TOKENIZER_WORD_CACHE_H
#define CORE_TOKENIZER_WORD_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORD_CACHE_BYTES 26 /* longer words, and those with more ids, are not cached */
#define WORD_CACHE_IDS 5

struct cached_word {
    uint8_t len; /* 0: none */
    uint8_t n;
    char bytes[WORD_CACHE_BYTES];
    int32_t ids[WORD_CACHE_IDS];
};

struct word_cache;

/* Create a cache for a text of text_bytes bytes; *out is NULL if the text is too short for one.
 * ERR_NOMEM. */
int word_cache_create(struct word_cache **out, size_t text_bytes);
void word_cache_destroy(struct word_cache **c);

/* Return the slot of a word, n in 1..WORD_CACHE_BYTES: it holds this word (*known), or is to be
 * overwritten by it. Valid until the next call. */
struct cached_word *word_cache_slot(struct word_cache *c, const char *word, size_t n, bool *known);

#endif
