/* tests/unit/server/test_model_choice.c - which model is loaded next, and which leaves for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/models/model_choice.h"
#include "tests/fixtures/random.h"

#define NEVER UINT64_MAX
#define S 1000000u

static const struct model_memory no_limit = {0};
static const struct model_memory room_for_two = {.limit = 250, .base = 50};

static struct model_view there(uint64_t ready_us, uint64_t used_us)
{
    return (struct model_view){.state = MODEL_READY,
                               .is_known = true,
                               .bytes = 100,
                               .ready_us = ready_us,
                               .used_us = used_us,
                               .idle_us = NEVER};
}

static struct model_view wanted(uint64_t since_us)
{
    return (struct model_view){.state = MODEL_UNLOADED,
                               .is_known = true,
                               .bytes = 100,
                               .wanted_us = since_us,
                               .idle_us = NEVER};
}

static void expect(const struct model_view *v, uint32_t n, const struct model_memory *m,
                   uint64_t now, enum model_step step, uint32_t i)
{
    const struct model_choice c = model_choose(v, n, m, now);

    if (c.step != step || (step != MODEL_STEP_NONE && c.i != i))
        fail_msg("step %d of model %u, not step %d of model %u", c.step, c.i, step, i);
}

static void the_one_that_waits_longest_is_loaded(void **state)
{
    struct model_view v[] = {wanted(30), wanted(20), wanted(0), wanted(10)};
    (void)state;

    expect(v, 4, &no_limit, 100, MODEL_STEP_LOAD, 3);
    v[3].state = MODEL_LOADING; /* one at a time */
    expect(v, 4, &no_limit, 100, MODEL_STEP_NONE, 0);
    v[3].state = MODEL_READY;
    expect(v, 4, &no_limit, 100, MODEL_STEP_LOAD, 1);
    v[0].wanted_us = v[1].wanted_us = 0;
    expect(v, 4, &no_limit, 100, MODEL_STEP_NONE, 0);
}

static void files_are_looked_at_before(void **state)
{
    struct model_view v[] = {wanted(10), wanted(20)};
    (void)state;

    v[0].is_known = v[1].is_known = false;
    v[1].state = MODEL_FAILED;
    expect(v, 2, &no_limit, 100, MODEL_STEP_LOOK, 0);
    v[0].is_looked_at = true;
    expect(v, 2, &no_limit, 100, MODEL_STEP_LOOK, 1);
    v[1].is_looked_at = true;
    expect(v, 2, &no_limit, 100, MODEL_STEP_NONE, 0);
    v[1].state = MODEL_UNLOADED; /* known first, but the other one is older */
    v[1].is_known = true;
    expect(v, 2, &no_limit, 100, MODEL_STEP_NONE, 0);
    v[0].is_known = true;
    expect(v, 2, &no_limit, 100, MODEL_STEP_LOAD, 0);
}

static void the_one_used_longest_ago_makes_room(void **state)
{
    struct model_view v[] = {there(5, 40), there(1, 30), wanted(50)};
    (void)state;

    expect(v, 3, &room_for_two, 100, MODEL_STEP_UNLOAD, 1);
    v[1].is_busy = true;
    expect(v, 3, &room_for_two, 100, MODEL_STEP_UNLOAD, 0);
    v[1].is_busy = false;
    v[1].is_pinned = true;
    expect(v, 3, &room_for_two, 100, MODEL_STEP_UNLOAD, 0);
    v[0].state = MODEL_UNLOADING; /* its memory is not back yet */
    expect(v, 3, &room_for_two, 100, MODEL_STEP_NONE, 0);
    v[0].state = MODEL_UNLOADED;
    expect(v, 3, &room_for_two, 100, MODEL_STEP_LOAD, 2);
}

static void a_busy_one_is_held_when_it_has_been_there_long_enough(void **state)
{
    struct model_view v[] = {there(1 * S, 2 * S), there(2 * S, 2 * S), wanted(1 * S)};
    (void)state;

    v[0].is_busy = v[1].is_busy = true;
    expect(v, 3, &room_for_two, 1900000, MODEL_STEP_NONE, 0);
    assert_int_equal(model_choice_next_us(v, 3, 1900000), 2 * S);
    expect(v, 3, &room_for_two, 2 * S, MODEL_STEP_HOLD, 0);
    v[0].load_us = 5 * S; /* it may stay for as long */
    expect(v, 3, &room_for_two, 3 * S, MODEL_STEP_HOLD, 1);
    v[1].is_pinned = true;
    expect(v, 3, &room_for_two, 3 * S, MODEL_STEP_NONE, 0);
    assert_int_equal(model_choice_next_us(v, 3, 3 * S), 6 * S);
    v[2].wanted_us = 0;
    assert_int_equal(model_choice_next_us(v, 3, 3 * S), NEVER);
}

static void what_can_never_fit_is_refused_at_once(void **state)
{
    struct model_view v[] = {there(1, 1), wanted(50)};
    (void)state;

    v[1].bytes = 201;
    expect(v, 2, &room_for_two, 100, MODEL_STEP_REFUSE, 1);
    v[1].bytes = 200;
    expect(v, 2, &room_for_two, 100, MODEL_STEP_UNLOAD, 0);
    v[0].is_pinned = true;
    expect(v, 2, &room_for_two, 100, MODEL_STEP_REFUSE, 1);
    v[1].bytes = NEVER; /* no sum of bytes runs over */
    expect(v, 2, &room_for_two, 100, MODEL_STEP_REFUSE, 1);
    expect(v, 2, &no_limit, 100, MODEL_STEP_LOAD, 1);
}

static void idle_times_and_wishes_unload(void **state)
{
    struct model_view v[] = {there(10, 20), there(10, 20)};
    (void)state;

    v[1].idle_us = 100;
    assert_int_equal(model_choice_next_us(v, 2, 50), 120);
    expect(v, 2, &no_limit, 119, MODEL_STEP_NONE, 0);
    expect(v, 2, &no_limit, 120, MODEL_STEP_UNLOAD, 1);
    v[1].is_busy = true;
    expect(v, 2, &no_limit, 500, MODEL_STEP_NONE, 0);
    assert_int_equal(model_choice_next_us(v, 2, 500), NEVER); /* its end is told */
    v[1].is_busy = false;
    v[1].is_pinned = true;
    expect(v, 2, &no_limit, 500, MODEL_STEP_NONE, 0);
    v[1].wants_unload = true; /* the operator's wish holds for it too */
    expect(v, 2, &no_limit, 500, MODEL_STEP_UNLOAD, 1);
    v[1].is_busy = true;
    expect(v, 2, &no_limit, 500, MODEL_STEP_NONE, 0);
}

/* ---- a naive world of models, with steps taken at random times ---- */

#define N 8
#define LIMIT 300

struct world {
    struct model_view v[N];
    uint64_t now, busy_until[N];
    uint32_t n_served, n_loads;
};

static uint64_t taken(const struct world *w)
{
    uint64_t sum = 0;

    for (int i = 0; i < N; i++)
        sum += w->v[i].state != MODEL_UNLOADED ? w->v[i].bytes : 0;
    return sum;
}

static void serve(struct world *w, uint32_t i)
{
    if (w->v[i].state == MODEL_READY && w->v[i].wanted_us > 0) {
        w->v[i].wanted_us = 0;
        w->v[i].is_busy = true;
        w->busy_until[i] = w->now + S / 10;
        w->n_served++;
    }
    if (w->v[i].is_busy && w->busy_until[i] <= w->now) {
        w->v[i].is_busy = false;
        w->v[i].used_us = w->now;
    }
}

/* Returns which model is held, or N. */
static uint32_t step(struct world *w, const struct model_memory *m)
{
    const struct model_choice c = model_choose(w->v, N, m, w->now);
    struct model_view *v = &w->v[c.i];

    switch (c.step) {
    case MODEL_STEP_LOAD:
        assert_true(v->state == MODEL_UNLOADED && v->wanted_us > 0);
        v->state = MODEL_LOADING;
        w->n_loads++;
        break;
    case MODEL_STEP_UNLOAD:
        assert_true(v->state == MODEL_READY && !v->is_busy && !v->is_pinned);
        v->state = MODEL_UNLOADING;
        break;
    case MODEL_STEP_HOLD:
        assert_true(v->state == MODEL_READY && !v->is_pinned);
        return c.i;
    case MODEL_STEP_NONE:
        break;
    case MODEL_STEP_LOOK:
    case MODEL_STEP_REFUSE:
        fail();
    }
    return N;
}

/* Requests come all the time, for all models: memory never holds more than it may, and none waits
 * for much longer than all the others together take. */
static void all_are_served_within_the_limit(void **state)
{
    const struct model_memory m = {.limit = LIMIT};
    uint64_t random = 4;
    uint64_t longest = 0;
    struct world w = {.now = 1};
    (void)state;

    for (int i = 0; i < N; i++) {
        w.v[i] = wanted(0);
        w.v[i].is_pinned = i == 0;
    }
    for (int turn = 0; turn < 200000; turn++) {
        const uint32_t i = random_below(&random, N), held = step(&w, &m);

        w.now += S / 100;
        if (w.v[i].wanted_us == 0)
            w.v[i].wanted_us = w.now;
        for (uint32_t k = 0; k < N; k++) {
            if (w.v[k].wanted_us > 0 && w.now - w.v[k].wanted_us > longest)
                longest = w.now - w.v[k].wanted_us;
            if (k != held)
                serve(&w, k);
            else if (w.v[k].is_busy && w.busy_until[k] <= w.now)
                w.v[k].is_busy = false;
            if (w.v[k].state == MODEL_LOADING && random_below(&random, 8) == 0) {
                w.v[k].state = MODEL_READY;
                w.v[k].ready_us = w.now;
            } else if (w.v[k].state == MODEL_UNLOADING && random_below(&random, 2) == 0) {
                w.v[k].state = MODEL_UNLOADED;
            }
        }
        assert_true(taken(&w) <= LIMIT);
    }
    assert_true(w.n_served > 1000 && w.n_loads > 100);
    assert_true(longest < 2 * N * S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_that_waits_longest_is_loaded),
        cmocka_unit_test(files_are_looked_at_before),
        cmocka_unit_test(the_one_used_longest_ago_makes_room),
        cmocka_unit_test(a_busy_one_is_held_when_it_has_been_there_long_enough),
        cmocka_unit_test(what_can_never_fit_is_refused_at_once),
        cmocka_unit_test(idle_times_and_wishes_unload),
        cmocka_unit_test(all_are_served_within_the_limit),
    };

    return cmocka_run_group_tests_name("model_choice", tests, NULL, NULL);
}
