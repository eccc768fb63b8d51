/* tests/unit/scheduler/test_token_counts.c - counted tokens against an array
 * (scheduler/request/token_counts.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scheduler/request/token_counts.h"
#include "tests/fixtures/random.h"

#define N_VOCAB 5000
#define LEAST_PAGE 4096 /* bytes, of any CPU's */

static void counts_are_those_of_an_array(void **state)
{
    static uint32_t want[N_VOCAB];
    const uint32_t max = 20000;
    struct token_counts c;
    uint32_t n = 0;
    uint64_t rng = 1;
    void *memory = calloc(1, token_counts_bytes(max));
    (void)state;

    token_counts_init(&c, memory, max);
    assert_int_equal(c.n, 0);
    for (uint32_t i = 0; i < max; i++) {
        const int32_t id = (int32_t)random_below(&rng, i < 100 ? 50 : N_VOCAB);

        n += want[id]++ == 0;
        token_counts_at(&c, id)->n_generated++;
        assert_int_equal(c.n, n);
    }
    for (uint32_t i = 0; i < c.n; i++) {
        assert_int_equal(c.list[i].n_generated, want[c.list[i].id]);
        want[c.list[i].id] = 0; /* each once */
    }
    free(memory);
}

/* As many different tokens as there is room for, ids at the ends of the range among them. */
static void all_may_be_different(void **state)
{
    (void)state;
    for (uint32_t max = 1; max <= 70; max++) {
        struct token_counts c;
        uint8_t *memory = calloc(1, token_counts_bytes(max));

        token_counts_init(&c, memory, max);
        for (uint32_t i = 0; i < max; i++)
            token_counts_at(&c, i % 2 == 0 ? (int32_t)(i * 65536) : INT32_MAX - (int32_t)i)
                ->n_prompt = i;
        assert_int_equal(c.n, max);
        for (uint32_t i = 0; i < max; i++)
            assert_int_equal(c.list[i].n_prompt, i);
        assert_true((uint8_t *)(c.index + 2 * (size_t)c.capacity) <=
                    memory + token_counts_bytes(max));
        free(memory);
    }
}

/* Room for a million tokens costs nothing until they come: a hundred touch a few pages. */
static void room_is_touched_when_it_is_used(void **state)
{
    const uint32_t max = 1u << 20;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = token_counts_bytes(max) + page - 1;
    const size_t n_pages = bytes / page;
    /* An emulator's answer is of its host's pages, which may be smaller: more of them. */
    const size_t n_answers = n_pages * page / LEAST_PAGE;
    unsigned char *resident = calloc(n_answers, 1);
    void *memory =
        mmap(NULL, n_pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct token_counts c;
    size_t n = 0;
    (void)state;

    assert_ptr_not_equal(memory, MAP_FAILED);
    madvise(memory, n_pages * page, MADV_NOHUGEPAGE);
    token_counts_init(&c, memory, max);
    for (int32_t i = 0; i < 100; i++)
        token_counts_at(&c, i * 997)->n_generated++;
    assert_int_equal(mincore(memory, n_pages * page, resident), 0);
    for (size_t i = 0; i < n_answers; i++)
        n += resident[i] & 1;
    assert_true(n >= 1 && n <= 4);
    munmap(memory, n_pages * page);
    free(resident);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_an_array),
        cmocka_unit_test(all_may_be_different),
        cmocka_unit_test(room_is_touched_when_it_is_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
