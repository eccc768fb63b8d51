/* core/tokenizer/word_cache.c - see word_cache.h.
 *
 * The low bits of an XXH3 hash choose a pair of neighbouring slots. The one used last is kept
 * first: a hit in the second slot, or a new word, swaps the two, so the word that is overwritten is
 * the one not used for longer. Texts below MIN_TEXT bytes get no cache, since their words rarely
 * repeat.
 */
#include "core/tokenizer/word_cache.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>
#include <xxhash.h>

#define MIN_TEXT 1024
#define MAX_PLACES 32768u

struct word_cache {
    struct cached_word *slots;
    uint32_t mask;
};

int word_cache_create(struct word_cache **out, size_t text_bytes)
{
    struct word_cache *c;
    uint32_t n = 64;

    *out = NULL;
    if (text_bytes < MIN_TEXT)
        return 0;
    while (n < MAX_PLACES && n < text_bytes / 16)
        n *= 2;
    c = mem_calloc(1, sizeof(*c));
    if (c == NULL)
        return ERR_NOMEM;
    c->mask = n - 1;
    c->slots = mem_calloc(n, sizeof(*c->slots));
    if (c->slots == NULL) {
        word_cache_destroy(&c);
        return ERR_NOMEM;
    }
    *out = c;
    return 0;
}

void word_cache_destroy(struct word_cache **cache)
{
    struct word_cache *c = cache != NULL ? *cache : NULL;

    if (c == NULL)
        return;
    mem_free(c->slots);
    mem_free(c);
    *cache = NULL;
}

static bool is_cached_word(const struct cached_word *slot, const char *word, size_t n)
{
    return slot->len == n && memcmp(slot->bytes, word, n) == 0;
}

/* The first slot of a pair is the one used last. */
struct cached_word *word_cache_slot(struct word_cache *c, const char *word, size_t n, bool *known)
{
    struct cached_word *pair = &c->slots[(uint32_t)XXH3_64bits(word, n) & c->mask & ~1u];
    struct cached_word swap;

    *known = is_cached_word(&pair[0], word, n);
    if (*known)
        return &pair[0];
    *known = is_cached_word(&pair[1], word, n);
    swap = pair[0];
    pair[0] = pair[1];
    pair[1] = swap;
    return &pair[0];
}
