/* tests/unit/scheduler/test_history_lookup.c - earlier answers against a plain list of them
 * (scheduler/request/history_lookup.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/base/err.h"
#include "scheduler/request/history_lookup.h"
#include "scheduler/request/token_lookup.h"
#include "tests/fixtures/failing_memory.h"
#include "tests/fixtures/random.h"

#define MAX 512
#define MAX_TEXT 700
#define GRAM 3

/* ---- the plain list ---- */

struct text {
    uint64_t salt;
    uint32_t n;
    int32_t ids[MAX];
};

struct list {
    struct text texts[MAX / HISTORY_FEWEST + 1]; /* the oldest first */
    uint32_t n, n_tokens, max;
};

static void list_enter(struct list *l, const int32_t *ids, uint32_t n, uint64_t salt)
{
    const uint32_t n_kept = n < l->max ? n : l->max;

    if (n_kept < HISTORY_FEWEST)
        return;
    while (l->n_tokens + n_kept > l->max) {
        l->n_tokens -= l->texts[0].n;
        memmove(l->texts, l->texts + 1, --l->n * sizeof(l->texts[0]));
    }
    l->texts[l->n] = (struct text){.salt = salt, .n = n_kept};
    memcpy(l->texts[l->n++].ids, ids + n - n_kept, n_kept * sizeof(*ids));
    l->n_tokens += n_kept;
}

/* Tokens before t->ids[next] that are the last ones of ids[0 .. n_known). */
static uint32_t n_same(const struct text *t, uint32_t next, const int32_t *ids, uint32_t n_known)
{
    uint32_t n = 0;

    while (n < next && n < n_known && n < LOOKUP_MAX_MATCH &&
           t->ids[next - 1 - n] == ids[n_known - 1 - n])
        n++;
    return n;
}

struct best {
    uint32_t n_match; /* of the best place */
    const struct text *text; /* the latest of these */
    uint32_t next;
    uint32_t n_places; /* where three tokens or more are the same */
};

static struct best list_find(const struct list *l, const int32_t *ids, uint32_t n_known,
                             uint64_t salt)
{
    struct best b = {0};

    for (uint32_t i = l->n; i-- > 0;)
        for (uint32_t next = l->texts[i].n - 1; next >= GRAM; next--) {
            const uint32_t n = n_same(&l->texts[i], next, ids, n_known);

            if (l->texts[i].salt != salt || n < GRAM)
                continue;
            b.n_places++;
            if (n > b.n_match)
                b = (struct best){n, &l->texts[i], next, b.n_places};
        }
    return b;
}

/* Is what was found in one text of that salt, up to its end (or that of the memory)? */
static bool is_there(const struct list *l, const struct history_match *m, const int32_t *ids,
                     uint32_t n_known, uint64_t salt)
{
    for (uint32_t i = 0; i < l->n; i++)
        for (uint32_t next = GRAM; l->texts[i].salt == salt && next < l->texts[i].n; next++)
            if (next + m->n <= l->texts[i].n &&
                n_same(&l->texts[i], next, ids, n_known) == m->n_match &&
                memcmp(&l->texts[i].ids[next], m->ids, m->n * sizeof(*ids)) == 0)
                return true;
    return false;
}

/* ---- tests ---- */

/* Of few different tokens, so that beginnings are found again; sometimes a part of another text. */
static uint32_t make_text(const struct list *l, int32_t *ids, uint64_t *rng, uint32_t most)
{
    const uint32_t n = 1 + random_below(rng, random_below(rng, 8) == 0 ? most : 60);

    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)random_below(rng, 12);
    if (l->n > 0 && random_below(rng, 2) == 0) {
        const struct text *t = &l->texts[random_below(rng, l->n)];
        const uint32_t n_copied = 1 + random_below(rng, n < t->n ? n : t->n);

        memcpy(ids + n - n_copied, t->ids + random_below(rng, t->n - n_copied + 1),
               n_copied * sizeof(*ids));
    }
    return n;
}

static void look_up(const struct list *l, const struct history_lookup *h, const int32_t *ids,
                    uint32_t n, uint64_t salt, uint32_t *n_found)
{
    struct history_place place = {0};
    const struct history_match m = history_lookup_find(h, ids, n, salt, &place);
    const struct best b = list_find(l, ids, n, salt);

    assert_true(m.n_match <= b.n_match);
    if (b.n_places <= LOOKUP_CHAIN / 2) { /* others of the same hash are in the chain too */
        assert_int_equal(m.n_match, b.n_match);
        if (b.n_match > 0)
            assert_memory_equal(m.ids, &b.text->ids[b.next], m.n * sizeof(*m.ids));
    }
    if (m.n_match > 0)
        assert_true(m.n > 0 && is_there(l, &m, ids, n, salt));
    *n_found += m.n_match > 0;
}

static void same_as_a_plain_list(void **state)
{
    static const uint32_t sizes[] = {1, 7, 8, 9, 50, 200, 511, MAX};
    static struct list l;
    (void)state;

    for (uint32_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        struct history_lookup *h;
        uint32_t n_found = 0;
        uint64_t rng = k;

        assert_int_equal(history_lookup_create(&h, sizes[k]), 0);
        l = (struct list){.max = sizes[k]};
        for (uint32_t i = 0; i < 2000; i++) {
            const uint64_t salt = (uint64_t)random_below(&rng, 3) << 32; /* equal lower halves */
            int32_t ids[MAX_TEXT];
            const uint32_t n = make_text(&l, ids, &rng, MAX_TEXT);

            look_up(&l, h, ids, n, salt, &n_found);
            if (random_below(&rng, 3) == 0) {
                history_lookup_enter(h, ids, n, salt);
                list_enter(&l, ids, n, salt);
                assert_true(history_lookup_check(h));
            }
        }
        assert_true(sizes[k] < HISTORY_FEWEST ? n_found == 0 : n_found > 100);
        history_lookup_destroy(&h);
        assert_null(h);
    }
}

static const int32_t TEXT[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static uint32_t n_match_of(const struct history_lookup *h, const int32_t *ids, uint32_t n,
                           uint64_t salt)
{
    struct history_place place = {0};

    return history_lookup_find(h, ids, n, salt, &place).n_match;
}

static void nothing_of_others_is_found(void **state)
{
    struct history_lookup *h;
    (void)state;

    assert_int_equal(history_lookup_create(&h, MAX), 0);
    history_lookup_enter(h, TEXT, 12, 77);
    assert_int_equal(n_match_of(h, TEXT, 6, 77), 6);
    for (uint32_t bit = 0; bit < 64; bit++)
        assert_int_equal(n_match_of(h, TEXT, 6, 77 ^ UINT64_C(1) << bit), 0);
    history_lookup_destroy(&h);
}

/* Two texts one behind the other: what is compared and what follows is of one of them. */
static void answers_end_where_they_end(void **state)
{
    const int32_t across[6] = {10, 11, 12, 1, 2, 3};
    struct history_place place = {0};
    struct history_match m;
    struct history_lookup *h;
    (void)state;

    assert_int_equal(history_lookup_create(&h, MAX), 0);
    history_lookup_enter(h, TEXT, 12, 1);
    assert_int_equal(n_match_of(h, across, 3, 1), 0); /* nothing follows the end */
    history_lookup_enter(h, TEXT, 12, 1);
    assert_int_equal(n_match_of(h, across, 3, 1), 0);
    assert_int_equal(n_match_of(h, across, 5, 1), 0);
    assert_int_equal(n_match_of(h, across, 6, 1), 3);
    m = history_lookup_find(h, TEXT, 9, 1, &place);
    assert_int_equal(m.n_match, 9);
    assert_int_equal(m.n, 3);
    assert_memory_equal(m.ids, TEXT + 9, 3 * sizeof(*TEXT));
    history_lookup_destroy(&h);
}

/* Of the latest text with these tokens, unless an older one was gone on with and fits as well. */
static void places_are_gone_on_with(void **state)
{
    const int32_t other[12] = {1, 2, 3, 4, 5, 6, 7, 8, 109, 110, 111, 112};
    struct history_place place = {0};
    struct history_lookup *h;
    (void)state;

    assert_int_equal(history_lookup_create(&h, 40), 0);
    history_lookup_enter(h, TEXT, 12, 1);
    assert_int_equal(history_lookup_find(h, TEXT, 5, 1, &place).ids[3], 9);
    history_lookup_enter(h, other, 12, 1);
    assert_int_equal(history_lookup_find(h, TEXT, 7, 1, &place).ids[1], 9);
    assert_int_equal(history_lookup_find(h, TEXT, 8, 1, &place).ids[0], 9);
    place = (struct history_place){0};
    assert_int_equal(history_lookup_find(h, TEXT, 8, 1, &place).ids[0], 109);
    assert_int_equal(history_lookup_find(h, TEXT, 9, 1, &place).ids[0], 10); /* it fits better */
    for (uint32_t i = 0; i < 3; i++) /* the place is written over: by nothing else that fits */
        history_lookup_enter(h, other, 12, 1);
    assert_int_equal(history_lookup_find(h, TEXT, 10, 1, &place).n_match, 0);
    assert_int_equal(place.n_known, 0);
    history_lookup_destroy(&h);
}

static void the_oldest_go(void **state)
{
    int32_t texts[5][10];
    struct history_lookup *h;
    (void)state;

    for (int32_t i = 0; i < 50; i++)
        texts[i / 10][i % 10] = i;
    assert_int_equal(history_lookup_create(&h, 30), 0);
    for (uint32_t i = 0; i < 5; i++) {
        history_lookup_enter(h, texts[i], 10, 1);
        for (uint32_t k = 0; k < 5; k++)
            assert_int_equal(n_match_of(h, texts[k], 4, 1), k <= i && k + 3 > i ? 4 : 0);
    }
    history_lookup_enter(h, texts[0], 50, 1); /* all five, too many: the last three stay */
    for (uint32_t k = 0; k < 5; k++)
        assert_int_equal(n_match_of(h, texts[k], 4, 1), k >= 2 ? 4 : 0);
    assert_int_equal(n_match_of(h, texts[2], 20, 1), 20);
    history_lookup_enter(h, texts[0], HISTORY_FEWEST - 1, 1); /* too short: nothing changes */
    assert_int_equal(n_match_of(h, texts[2], 20, 1), 20);
    assert_int_equal(n_match_of(h, texts[0], 4, 1), 0);
    history_lookup_destroy(&h);
}

static void creation_may_fail(void **state)
{
    int64_t n = 0;
    (void)state;

    while (each_failure(&n)) {
        struct history_lookup *h;
        const int rc = history_lookup_create(&h, MAX);

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        history_lookup_destroy(&h);
    }
    assert_true(n > 1);
    history_lookup_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_a_plain_list),
        cmocka_unit_test(nothing_of_others_is_found),
        cmocka_unit_test(answers_end_where_they_end),
        cmocka_unit_test(places_are_gone_on_with),
        cmocka_unit_test(the_oldest_go),
        cmocka_unit_test(creation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
