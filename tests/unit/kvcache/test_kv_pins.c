/* tests/unit/kvcache/test_kv_pins.c - pinned prefixes in the whole manager, without bytes.
 *
 * A sequence's tokens are 1, 2, 3, ..., or others from a position on (kv_seqs.h). Time is a number
 * that the test chooses.
 */
#include "tests/unit/kvcache/kv_seqs.h"

static struct kv_manager *pin_manager(uint32_t n_blocks, uint32_t most, uint32_t tenant,
                                      struct kv_groups groups)
{
    const struct kv_manager_options o = {
        .n_blocks = n_blocks,
        .prefix_cache = true,
        .n_ram = 40,
        .max_sequences = 4,
        .max_table = CAP,
        .max_chunk = 32,
        .groups = groups,
        .pins = {.most_blocks = most, .tenant_blocks = tenant, .n_tenants = 2},
    };
    struct kv_manager *m;

    assert_int_equal(kv_manager_create(&m, &o), 0);
    return m;
}

static void start(const struct kv_manager *m, struct seq *s, uint32_t at, int32_t other)
{
    seq_init(s, at, other);
    kv_seq_init(&s->kv, s->blocks, CAP, kv_manager_n_groups(m));
}

static void compute_all(struct kv_manager *m, struct seq *s, uint32_t to)
{
    while (s->n_done < to)
        compute(m, s, s->n_done + 16 < to ? s->n_done + 16 : to);
}

/* Compute and release sequences of n tokens that share nothing, so that everything cached that is
 * not pinned is evicted. */
static void press(struct kv_manager *m, uint32_t n_sequences, uint32_t n)
{
    struct seq s;

    for (uint32_t i = 0; i < n_sequences; i++) {
        start(m, &s, 0, 1000 + (int32_t)i);
        compute_all(m, &s, n);
        release(m, &s);
    }
}

static uint32_t n_found(struct kv_manager *m, int32_t first)
{
    struct seq s;

    start(m, &s, 0, first);
    return kv_manager_match(m, &s.key, MAX_TOKENS).n_tokens;
}

static void make_prefix(struct kv_manager *m, int32_t first, uint32_t n)
{
    struct seq s;

    start(m, &s, 0, first);
    compute_all(m, &s, n);
    release(m, &s);
}

static uint32_t pin(struct kv_manager *m, int32_t first, uint32_t n, uint32_t tenant,
                    uint64_t until_us)
{
    struct seq s;
    uint32_t n_pinned;

    start(m, &s, 0, first);
    n_pinned = kv_manager_pin(m, &s.key, n, tenant, until_us);
    check(m);
    return n_pinned;
}

/* The pinned one of two equal prefixes survives pressure; when its time is over it is cached, and
 * evicted in its turn. */
static void a_pinned_prefix_survives_pressure(void **state)
{
    struct kv_manager *m = pin_manager(20, 8, 8, (struct kv_groups){0});
    (void)state;

    make_prefix(m, 1, 64);
    make_prefix(m, 2, 64);
    assert_int_equal(pin(m, 1, 64, 0, 500), 64);
    assert_int_equal(kv_manager_n_available(m), 16);
    press(m, 4, 128);
    assert_int_equal(n_found(m, 1), 64);
    assert_int_equal(n_found(m, 2), 0);
    kv_manager_expire_pins(m, 499);
    press(m, 4, 128);
    assert_int_equal(n_found(m, 1), 64);
    kv_manager_expire_pins(m, 500);
    check(m);
    assert_int_equal(n_found(m, 1), 64);
    assert_int_equal(kv_manager_n_available(m), 20);
    assert_int_equal(kv_manager_pins_of(m, 0).n_blocks, 0);
    press(m, 4, 128);
    assert_int_equal(n_found(m, 1), 0);
    kv_manager_destroy(&m);
}

/* Only whole blocks are pinned; of the last one another sequence can copy the first tokens. */
static void whole_blocks_are_pinned(void **state)
{
    struct kv_manager *m = pin_manager(20, 8, 8, (struct kv_groups){0});
    struct seq s;
    (void)state;

    make_prefix(m, 1, 64);
    assert_int_equal(pin(m, 1, 15, 0, 500), 0);
    assert_int_equal(pin(m, 1, 49, 0, 500), 48);
    assert_int_equal(kv_manager_pins_of(m, 0).n_blocks, 3);
    press(m, 4, 128);
    start(m, &s, 40, 77);
    assert_int_equal(attach(m, &s, 64), 40);
    kv_manager_moves_done(m);
    release(m, &s);
    assert_int_equal(pin(m, 1, 64, 0, 500), 48); /* the fourth block was evicted */
    kv_manager_destroy(&m);
}

/* A tenant that has no more room pins the beginning; the other tenants keep theirs. */
static void each_tenant_has_a_bound(void **state)
{
    struct kv_manager *m = pin_manager(30, 10, 6, (struct kv_groups){0});
    (void)state;

    make_prefix(m, 1, 128);
    make_prefix(m, 2, 128);
    make_prefix(m, 3, 64);
    assert_int_equal(pin(m, 1, 128, 0, 500), 96);
    assert_int_equal(pin(m, 3, 64, 0, 500), 0);
    assert_int_equal(pin(m, 2, 128, 1, 400), 64); /* all tenants together have ten blocks */
    assert_int_equal(pin(m, 2, 64, 1, 450), 64);  /* the same prefix: nothing new is pinned */
    assert_int_equal(kv_manager_pins_of(m, 0).n_blocks, 6);
    assert_int_equal(kv_manager_pins_of(m, 1).n_blocks, 4);
    assert_int_equal(kv_manager_pins_of(m, 1).n_pins, 1);
    assert_int_equal(kv_manager_pins_of(m, 1).until_us, 450);
    kv_manager_expire_pins(m, 450);
    assert_int_equal(pin(m, 3, 64, 1, 500), 64);
    kv_manager_destroy(&m);
}

/* Whatever is pinned, the sequence that the rest can hold is computed. */
static void pins_leave_room_for_a_sequence(void **state)
{
    struct kv_manager *m = pin_manager(12, 4, 4, (struct kv_groups){0});
    struct seq s;
    (void)state;

    make_prefix(m, 1, 64);
    assert_int_equal(pin(m, 1, 64, 0, 500), 64);
    assert_true(kv_manager_can_hold(m, 128));
    assert_false(kv_manager_can_hold(m, 129));
    assert_int_equal(kv_manager_needed(m, 128), 8);
    start(m, &s, 0, 50);
    compute_all(m, &s, 128);
    assert_int_equal(kv_manager_n_available(m), 0);
    assert_int_equal(kv_manager_n_exclusive(m, &s.kv), 8);
    release(m, &s);
    assert_int_equal(n_found(m, 1), 64);
    kv_manager_destroy(&m);
}

/* A sequence that shares pinned blocks takes no available ones, and its release makes none
 * available. */
static void sequences_share_pinned_blocks(void **state)
{
    struct kv_manager *m = pin_manager(12, 4, 4, (struct kv_groups){0});
    struct seq s;
    (void)state;

    make_prefix(m, 1, 64);
    assert_int_equal(pin(m, 1, 64, 0, 500), 64);
    start(m, &s, 0, 1);
    assert_int_equal(kv_manager_match(m, &s.key, 64).n_held, 4);
    assert_int_equal(attach(m, &s, 64), 64);
    assert_int_equal(kv_manager_n_available(m), 8);
    assert_int_equal(kv_manager_n_exclusive(m, &s.kv), 0);
    assert_int_equal(kv_manager_n_alone(m, &s.kv), 0);
    kv_manager_expire_pins(m, 500); /* while the sequence holds them */
    check(m);
    assert_int_equal(kv_manager_n_exclusive(m, &s.kv), 4);
    release(m, &s);
    assert_int_equal(kv_manager_n_available(m), 12);
    kv_manager_destroy(&m);
}

/* With windows a pin has the blocks that a continuation sees; where all layers have one, all. */
static void windows_are_pinned_too(void **state)
{
    static const struct {
        struct kv_groups groups;
        uint32_t n_blocks, n_pinned;
    } cases[] = {{{.n = 3, .n_window = 2, .window = 20}, 40, 6 + 2 * 2},
                 {{.n = 2, .n_window = 1, .window = 20}, 30, 6 + 2},
                 {{.n = 1, .n_window = 1, .window = 20}, 20, 6}};
    (void)state;

    for (size_t i = 0; i < 3; i++) {
        struct kv_manager *m = pin_manager(cases[i].n_blocks, 12, 12, cases[i].groups);
        struct seq s;

        make_prefix(m, 1, 96);
        make_prefix(m, 2, 96);
        assert_int_equal(pin(m, 1, 96, 0, 500), 96);
        assert_int_equal(kv_manager_pins_of(m, 0).n_blocks, cases[i].n_pinned);
        press(m, 8, 128);
        assert_int_equal(n_found(m, 1), 96);
        assert_int_equal(n_found(m, 2), 0);
        start(m, &s, 0, 1);
        assert_int_equal(attach(m, &s, 96), 96);
        compute_all(m, &s, 128);
        release(m, &s);
        kv_manager_expire_pins(m, 500);
        check(m);
        press(m, 8, 128);
        assert_int_equal(n_found(m, 1), 0);
        kv_manager_destroy(&m);
    }
}

/* With windows, too, a pin is cut to the room that there is. */
static void windows_keep_to_the_bound(void **state)
{
    const struct kv_groups groups = {.n = 2, .n_window = 1, .window = 20};
    struct kv_manager *m = pin_manager(40, 12, 7, groups);
    uint32_t n;
    (void)state;

    make_prefix(m, 1, 128);
    n = pin(m, 1, 128, 0, 500);
    assert_true(n > 0 && n < 128 && n % 16 == 0);
    assert_true(kv_manager_pins_of(m, 0).n_blocks <= 7);
    press(m, 8, 128);
    assert_int_equal(n_found(m, 1), n);
    kv_manager_destroy(&m);
}

/* A recurrent model's snapshot at the prefix's end is pinned, too, and counts as its parts;
 * sequences find slots beside all pinned ones. */
static void snapshots_are_pinned_too(void **state)
{
    const struct kv_manager_options o = {
        .n_blocks = 40,
        .prefix_cache = true,
        .max_sequences = 4,
        .max_table = CAP,
        .states = {.n_slots = 12, .interval = 2, .n_parts = 3},
        .pins = {.most_blocks = 20, .tenant_blocks = 20, .n_tenants = 2, .most_states = 2},
    };
    struct kv_manager *m;
    struct seq s;
    (void)state;

    assert_int_equal(kv_manager_create(&m, &o), 0);
    assert_int_equal(kv_manager_most_sequences(m), 10);
    make_prefix(m, 1, 112);
    make_prefix(m, 2, 112);
    assert_int_equal(pin(m, 1, 112, 0, 500), 96); /* the last snapshot */
    assert_int_equal(kv_manager_pins_of(m, 0).n_blocks, 6 + 3);
    assert_int_equal(pin(m, 1, 32, 0, 400), 32);
    assert_int_equal(kv_manager_pins_of(m, 0).n_blocks, 6 + 2 * 3);
    assert_int_equal(pin(m, 2, 112, 1, 500), 0); /* too many snapshots */
    press(m, 8, 128);
    assert_int_equal(n_found(m, 1), 96);
    assert_int_equal(n_found(m, 2), 0);
    start(m, &s, 0, 1);
    assert_int_equal(attach(m, &s, 127), 96);
    compute_all(m, &s, 112); /* the pinned state is copied, not written over */
    release(m, &s);
    assert_int_equal(n_found(m, 1), 96);
    kv_manager_expire_pins(m, 400);
    assert_int_equal(kv_manager_pins_of(m, 0).n_blocks, 6 + 3);
    kv_manager_expire_pins(m, 500);
    assert_int_equal(kv_manager_pins_of(m, 0).n_blocks, 0);
    assert_int_equal(kv_manager_stats(m).states.slots.n_pinned, 0);
    check(m);
    kv_manager_destroy(&m);
}

/* Options that cannot work are refused. */
static void contradictions_are_refused(void **state)
{
    struct kv_manager_options o = {.n_blocks = 10,
                                   .prefix_cache = true,
                                   .max_sequences = 1,
                                   .max_table = CAP,
                                   .pins = {.most_blocks = 5, .tenant_blocks = 5, .n_tenants = 1}};
    struct kv_manager *m;
    (void)state;

    o.prefix_cache = false;
    assert_int_equal(kv_manager_create(&m, &o), ERR_INVAL);
    o.prefix_cache = true;
    o.pins.most_blocks = 10;
    assert_int_equal(kv_manager_create(&m, &o), ERR_INVAL);
    o.pins.most_blocks = 5;
    o.states.n_slots = 4;
    o.states.interval = o.states.n_parts = 1;
    assert_int_equal(kv_manager_create(&m, &o), ERR_INVAL);
    o.pins.most_states = 4; /* none is left */
    assert_int_equal(kv_manager_create(&m, &o), ERR_INVAL);
    o.pins.most_states = 2;
    o.states.is_alone = true;
    assert_int_equal(kv_manager_create(&m, &o), ERR_INVAL);
    o.states.is_alone = false;
    assert_int_equal(kv_manager_create(&m, &o), 0);
    kv_manager_destroy(&m);
    o.pins.most_states = 0;
    o.states.n_slots = 0;
    o.states.interval = o.states.n_parts = 0;
    assert_int_equal(kv_manager_create(&m, &o), 0);
    kv_manager_destroy(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pinned_prefix_survives_pressure),
        cmocka_unit_test(whole_blocks_are_pinned),
        cmocka_unit_test(each_tenant_has_a_bound),
        cmocka_unit_test(pins_leave_room_for_a_sequence),
        cmocka_unit_test(sequences_share_pinned_blocks),
        cmocka_unit_test(windows_are_pinned_too),
        cmocka_unit_test(windows_keep_to_the_bound),
        cmocka_unit_test(snapshots_are_pinned_too),
        cmocka_unit_test(contradictions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
