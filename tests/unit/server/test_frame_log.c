/* tests/unit/server/test_frame_log.c - frames in segments, against one string of all that was ever
 * written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/storage/frame_log.h"
#include "tests/fixtures/random.h"

#define MAX_FRAMES 20000

struct model { /* of a log: all bytes, and where each frame begins */
    struct buf bytes;
    uint64_t begins[MAX_FRAMES + 1];
    uint64_t n_frames;
};

/* One write of some frames of up to `longest` bytes each. */
static void write_frames(struct frame_log *l, struct model *m, uint64_t *rng, bool is_lines,
                         uint32_t n, uint32_t longest)
{
    const size_t before = m->bytes.len;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t n_text = random_below(rng, longest);

        m->begins[m->n_frames++] = m->bytes.len;
        for (uint32_t k = 0; k < n_text; k++)
            buf_add_char(&m->bytes, (char)('a' + random_below(rng, 26)));
        buf_add_str(&m->bytes, is_lines ? "\n" : "\n\n");
    }
    m->begins[m->n_frames] = m->bytes.len;
    assert_int_equal(
        frame_log_add(l, m->bytes.data + before, m->bytes.len - before, n), 0);
}

static void check(const struct frame_log *l, const struct model *m, uint64_t *rng)
{
    const uint64_t first = frame_log_first_frame(l);
    uint64_t at = frame_log_first_byte(l);

    assert_int_equal(l->next_frame, m->n_frames);
    assert_int_equal(l->next_byte, m->bytes.len);
    assert_int_equal(at, m->begins[first]);
    for (int i = 0; i < 20 && first < m->n_frames; i++) {
        const uint64_t frame = first + random_below(rng, (uint32_t)(m->n_frames - first + 1));

        assert_int_equal(frame_log_byte_of(l, frame), m->begins[frame]);
    }
    while (at < l->next_byte) {
        size_t n;
        const char *bytes = frame_log_bytes(l, at, &n);

        assert_true(n > 0);
        assert_memory_equal(bytes, m->bytes.data + at, n);
        at += n;
    }
}

static void random_writes(bool is_lines, uint32_t longest, uint64_t max)
{
    struct model *m = mem_calloc(1, sizeof(*m));
    uint64_t rng = 7 + is_lines;
    struct frame_log l;

    buf_init(&m->bytes, SIZE_MAX / 4);
    frame_log_init(&l, is_lines, 0);
    while (m->n_frames + 20 < MAX_FRAMES) {
        write_frames(&l, m, &rng, is_lines, 1 + random_below(&rng, 20), longest);
        if (random_below(&rng, 4) == 0)
            frame_log_keep(&l, max);
        if (random_below(&rng, 50) == 0)
            check(&l, m, &rng);
    }
    frame_log_keep(&l, max);
    check(&l, m, &rng);
    assert_true(l.next_byte - frame_log_first_byte(&l) <= max);
    assert_true(frame_log_held(&l) <= 3 * (max + ((uint64_t)64 << 10)) + 4096);
    frame_log_release(&l);
    buf_release(&m->bytes);
    mem_free(m);
}

static void test_frames_and_bytes_are_found(void **state)
{
    (void)state;
    random_writes(false, 400, (uint64_t)1 << 20);
    random_writes(true, 400, (uint64_t)1 << 20);
    random_writes(false, 100, 1000);
    random_writes(false, 9000, (uint64_t)300 << 10);
}

static void test_a_frame_beyond_the_limit_goes_whole(void **state)
{
    struct frame_log l;

    (void)state;
    frame_log_init(&l, false, 5);
    assert_int_equal(frame_log_add(&l, "data: 1\n\n", 9, 1), 0);
    frame_log_keep(&l, 8);
    assert_int_equal(frame_log_first_frame(&l), 6);
    assert_int_equal(frame_log_first_byte(&l), 9);
    assert_int_equal(frame_log_byte_of(&l, 6), 9);
    frame_log_release(&l);
}

static void test_without_memory_it_is_empty_and_goes_on(void **state)
{
    struct frame_log l;

    (void)state;
    frame_log_init(&l, true, 0);
    mem_fail_after(0);
    assert_int_equal(frame_log_add(&l, "a\n", 2, 1), ERR_NOMEM);
    mem_fail_after(-1);
    assert_int_equal(frame_log_first_frame(&l), 1);
    assert_int_equal(frame_log_add(&l, "b\n", 2, 1), 0);
    assert_int_equal(frame_log_byte_of(&l, 1), 2);
    frame_log_release(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_and_bytes_are_found),
        cmocka_unit_test(test_a_frame_beyond_the_limit_goes_whole),
        cmocka_unit_test(test_without_memory_it_is_empty_and_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
