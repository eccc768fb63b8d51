/* kvcache/id_set.c - see id_set.h.
 *
 * Level 0 has a bit for each number, level l + 1 a bit for each word of level l, set while that
 * word is not 0. Adding stops at the first word that was not empty, removing at the first that is
 * not empty afterwards. id_set_next() climbs until a word has a member after the position, then
 * descends to the first member below it with one ctz per level.
 */
#include "kvcache/id_set.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <stddef.h>

#define WORD 64u

int id_set_init(struct id_set *s, uint32_t n)
{
    size_t total = 0;
    uint64_t *words;

    *s = (struct id_set){.n = n};
    if (n == 0 || n > UINT32_C(1) << 31)
        return ERR_INVAL;
    do {
        n = (n + WORD - 1) / WORD;
        s->n_words[s->n_levels++] = n;
        total += n;
    } while (n > 1);
    words = mem_calloc(total, sizeof(*words));
    if (words == NULL)
        return ERR_NOMEM;
    for (uint32_t l = 0; l < s->n_levels; l++) {
        s->words[l] = words;
        words += s->n_words[l];
    }
    return 0;
}

void id_set_release(struct id_set *s)
{
    mem_free(s->words[0]);
    *s = (struct id_set){0};
}

bool id_set_has(const struct id_set *s, uint32_t i)
{
    return i < s->n && (s->words[0][i / WORD] >> (i % WORD) & 1) != 0;
}

void id_set_add(struct id_set *s, uint32_t i)
{
    assert(i < s->n && !id_set_has(s, i));
    s->count++;
    for (uint32_t l = 0; l < s->n_levels; l++, i /= WORD) {
        uint64_t *word = &s->words[l][i / WORD];
        const bool was_empty = *word == 0;

        *word |= UINT64_C(1) << (i % WORD);
        if (!was_empty)
            return; /* the levels above have the bit already */
    }
}

void id_set_remove(struct id_set *s, uint32_t i)
{
    assert(id_set_has(s, i));
    s->count--;
    for (uint32_t l = 0; l < s->n_levels; l++, i /= WORD) {
        uint64_t *word = &s->words[l][i / WORD];

        *word &= ~(UINT64_C(1) << (i % WORD));
        if (*word != 0)
            return;
    }
}

/* Return the first member that bit i of a level stands for. */
static uint32_t descend(const struct id_set *s, uint32_t level, uint32_t i)
{
    while (level > 0) {
        level--;
        i = i * WORD + (uint32_t)__builtin_ctzll(s->words[level][i]);
    }
    return i;
}

uint32_t id_set_next(const struct id_set *s, uint32_t from)
{
    for (uint32_t l = 0; l < s->n_levels; l++) {
        const uint32_t at = from / WORD;
        uint64_t rest;

        if (at >= s->n_words[l])
            break;
        rest = s->words[l][at] & (UINT64_MAX << (from % WORD));
        if (rest != 0)
            return descend(s, l, at * WORD + (uint32_t)__builtin_ctzll(rest));
        from = at + 1;
    }
    return ID_SET_NONE;
}

uint32_t id_set_run(const struct id_set *s, uint32_t from, uint32_t max)
{
    uint32_t n = 0;

    while (n < max && from < s->n && n < s->n - from) {
        const uint32_t off = (from + n) % WORD;
        const uint64_t gaps = ~s->words[0][(from + n) / WORD] >> off;

        if (gaps != 0) {
            n += (uint32_t)__builtin_ctzll(gaps);
            break;
        }
        n += WORD - off;
    }
    return n < max ? n : max;
}

bool id_set_check(const struct id_set *s)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->n_words[0]; i++)
        count += (uint32_t)__builtin_popcountll(s->words[0][i]);
    for (uint32_t l = 1; l < s->n_levels; l++)
        for (uint32_t i = 0; i < s->n_words[l - 1]; i++)
            if ((s->words[l][i / WORD] >> (i % WORD) & 1) != (s->words[l - 1][i] != 0))
                return false;
    return count == s->count;
}
