/* scheduler/request/history_lookup.c - see history_lookup.h.
 *
 * Answers are in a ring of tokens. Each slot is in a chain of the slots at which the same three
 * tokens end; a chain leads from newer to older slots. Overwriting a slot does not unlink it: where
 * a link leads to a newer slot, that slot was overwritten since, and the walk ends.
 */
#include "scheduler/request/history_lookup.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/request/token_lookup.h"

#include <assert.h>

#define GRAM 3 /* tokens whose hash selects a chain */
#define FEWEST_HEADS 16u

struct answer {
    uint64_t salt;
    uint32_t first; /* its first slot */
    uint32_t n;     /* tokens, at least HISTORY_FEWEST */
};

struct history_lookup {
    uint32_t max;
    uint32_t next;           /* slot of the next token */
    uint32_t n_used;         /* slots before it that hold answers */
    uint32_t oldest;         /* index of the oldest answer in `answers` */
    uint32_t n_answers;
    uint32_t max_answers;
    uint32_t n_heads;        /* a power of two */
    struct answer *answers;  /* ring [max_answers] */
    uint32_t *heads;         /* [n_heads] 1 + the latest slot with tokens of this hash; 0: none */
    uint32_t *before;        /* [max] 1 + the slot before it in its chain; 0: none */
    uint32_t *answer_of;     /* [max] index in `answers` of each slot */
    int32_t *ids;            /* [max] */
};

/* ---- life ---- */

static uint32_t n_heads_for(uint32_t max)
{
    uint32_t n = FEWEST_HEADS;

    while (n < max / 2)
        n *= 2;
    return n;
}

static uint32_t max_answers_for(uint32_t max)
{
    return max / HISTORY_FEWEST + 1;
}

size_t history_lookup_bytes(uint32_t max)
{
    return sizeof(struct history_lookup) + max_answers_for(max) * sizeof(struct answer) +
           n_heads_for(max) * sizeof(uint32_t) +
           max * (2 * sizeof(uint32_t) + sizeof(int32_t));
}

int history_lookup_create(struct history_lookup **out, uint32_t max)
{
    struct history_lookup *h;

    assert(max > 0 && max <= HISTORY_MOST);
    *out = NULL;
    h = mem_calloc(1, history_lookup_bytes(max));
    if (h == NULL)
        return ERR_NOMEM;
    h->max = max;
    h->max_answers = max_answers_for(max);
    h->n_heads = n_heads_for(max);
    h->answers = (struct answer *)(void *)(h + 1);
    h->heads = (uint32_t *)(void *)(h->answers + h->max_answers);
    h->before = h->heads + h->n_heads;
    h->answer_of = h->before + max;
    h->ids = (int32_t *)(void *)(h->answer_of + max);
    *out = h;
    return 0;
}

void history_lookup_destroy(struct history_lookup **h)
{
    if (h == NULL || *h == NULL)
        return;
    mem_free(*h);
    *h = NULL;
}

/* ---- slots ---- */

/* slot_behind(): the slot that comes n slots after `slot`, n <= max. distance(): slots from a to
 * b. */
static uint32_t slot_behind(const struct history_lookup *h, uint32_t slot, uint32_t n)
{
    return slot + n < h->max ? slot + n : slot + n - h->max;
}

static uint32_t distance(const struct history_lookup *h, uint32_t a, uint32_t b)
{
    return b >= a ? b - a : b + h->max - a;
}

/* Return how many tokens ago the slot was written: 1 to max. */
static uint32_t age_of(const struct history_lookup *h, uint32_t slot)
{
    const uint32_t age = distance(h, slot, h->next);

    return age > 0 ? age : h->max;
}

static const struct answer *answer_at(const struct history_lookup *h, uint32_t slot)
{
    return &h->answers[h->answer_of[slot]];
}

/* Return the chain of the three tokens that end at *last. The salt is hashed too, so that, except
 * for collisions, a chain has slots of one tenant only. */
static uint32_t *head_of(const struct history_lookup *h, const int32_t *last, uint64_t salt)
{
    const uint64_t pair = (uint64_t)(uint32_t)last[-1] << 32 | (uint32_t)last[0];
    uint64_t x = (pair ^ salt) * 0x9e3779b97f4a7c15u; /* Fibonacci hashing, twice */

    x = (x ^ x >> 32 ^ (uint32_t)last[-2]) * 0x9e3779b97f4a7c15u;
    return &h->heads[(x >> 32) & (h->n_heads - 1)];
}

/* ---- entering ---- */

static void forget_oldest(struct history_lookup *h)
{
    h->n_used -= h->answers[h->oldest].n;
    h->oldest = (h->oldest + 1) % h->max_answers;
    h->n_answers--;
}

/* Write the answer into the ring and enter its slots into the chains, except the last one, which
 * nothing follows. */
static void write_answer(struct history_lookup *h, uint32_t answer, const int32_t *ids, uint32_t n,
                         uint64_t salt)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t slot = h->next;

        h->ids[slot] = ids[i];
        h->answer_of[slot] = answer;
        h->before[slot] = 0;
        if (i >= GRAM - 1 && i + 1 < n) {
            uint32_t *head = head_of(h, ids + i, salt);

            h->before[slot] = *head;
            *head = slot + 1;
        }
        h->next = slot_behind(h, slot, 1);
    }
}

void history_lookup_enter(struct history_lookup *h, const int32_t *ids, uint32_t n, uint64_t salt)
{
    const uint32_t n_kept = n < h->max ? n : h->max;
    uint32_t answer;

    if (n_kept < HISTORY_FEWEST)
        return;
    while (h->max - h->n_used < n_kept)
        forget_oldest(h);
    answer = (h->oldest + h->n_answers++) % h->max_answers;
    h->answers[answer] = (struct answer){.salt = salt, .first = h->next, .n = n_kept};
    h->n_used += n_kept;
    write_answer(h, answer, ids + (n - n_kept), n_kept, salt);
}

/* ---- looking up ---- */

/* Count the tokens up to the slot that equal the last ones of the text; 0 if the slot's answer has
 * another salt, or ends there. */
static uint32_t match(const struct history_lookup *h, uint32_t slot, const int32_t *ids,
                      uint32_t n_known, uint64_t salt)
{
    const struct answer *a = answer_at(h, slot);
    const uint32_t at = distance(h, a->first, slot);
    uint32_t most = at + 1 < n_known ? at + 1 : n_known, n = 0;

    if (a->salt != salt || at + 1 >= a->n)
        return 0;
    if (most > LOOKUP_MAX_MATCH)
        most = LOOKUP_MAX_MATCH;
    while (n < most && h->ids[slot] == ids[n_known - 1 - n]) {
        slot = slot > 0 ? slot - 1 : h->max - 1;
        n++;
    }
    return n;
}

struct found {
    uint32_t slot, n_match; /* slot of the last equal token, and the number of equal tokens */
};

/* Return the match at the place that the last look-up found, advanced by the tokens that were added
 * since. */
static struct found find_same(const struct history_lookup *h, const int32_t *ids, uint32_t n_known,
                              uint64_t salt, const struct history_place *place)
{
    const uint32_t n_since = n_known - place->n_known;
    uint32_t slot;

    if (place->n_known == 0 || place->n_known > n_known || n_since > h->max)
        return (struct found){0};
    slot = slot_behind(h, slot_behind(h, place->next, n_since), h->max - 1);
    if (age_of(h, slot) > h->n_used)
        return (struct found){0};
    return (struct found){slot, match(h, slot, ids, n_known, salt)};
}

static struct found find_best(const struct history_lookup *h, const int32_t *ids, uint32_t n_known,
                              uint64_t salt, struct found best)
{
    uint32_t at = *head_of(h, ids + n_known - 1, salt), age = 0, n_looked = 0;

    while (at != 0 && n_looked++ < LOOKUP_CHAIN && age_of(h, at - 1) > age &&
           age_of(h, at - 1) <= h->n_used) {
        const uint32_t n_match = match(h, at - 1, ids, n_known, salt);

        if (n_match > best.n_match)
            best = (struct found){at - 1, n_match};
        age = age_of(h, at - 1);
        at = h->before[at - 1];
    }
    return best;
}

/* Return the tokens after the slot in its answer, up to the end of the ring; the next look-up finds
 * the rest. */
static struct history_match what_follows(const struct history_lookup *h, const struct found *f)
{
    const struct answer *a = answer_at(h, f->slot);
    const uint32_t next = slot_behind(h, f->slot, 1);
    const uint32_t left = a->n - 1 - distance(h, a->first, f->slot), to_end = h->max - next;

    return (struct history_match){h->ids + next, left < to_end ? left : to_end, f->n_match};
}

struct history_match history_lookup_find(const struct history_lookup *h, const int32_t *ids,
                                         uint32_t n_known, uint64_t salt,
                                         struct history_place *place)
{
    struct found f;

    if (n_known < GRAM || h->n_used == 0)
        return (struct history_match){0};
    f = find_best(h, ids, n_known, salt, find_same(h, ids, n_known, salt, place));
    *place = (struct history_place){0};
    if (f.n_match < GRAM)
        return (struct history_match){0};
    *place = (struct history_place){n_known, slot_behind(h, f.slot, 1)};
    return what_follows(h, &f);
}

/* ---- for tests ---- */

bool history_lookup_check(const struct history_lookup *h)
{
    uint32_t slot = slot_behind(h, h->next, h->max - h->n_used), n = 0;

    for (uint32_t i = 0; i < h->n_answers; i++) {
        const uint32_t answer = (h->oldest + i) % h->max_answers;
        const struct answer *a = &h->answers[answer];

        if (a->first != slot || a->n < HISTORY_FEWEST)
            return false;
        for (uint32_t k = 0; k < a->n; k++, slot = slot_behind(h, slot, 1))
            if (h->answer_of[slot] != answer)
                return false;
        n += a->n;
    }
    return n == h->n_used && slot == h->next;
}
