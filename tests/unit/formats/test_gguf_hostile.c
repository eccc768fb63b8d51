/* tests/unit/formats/test_gguf_hostile.c - every broken file is refused, with one sentence.
 *
 * The files are those of tests/tools/hostile.h. Each is handed over in a block of its own size, so
 * that a sanitizer sees any read beyond it.
 */
#include "core/base/log.h"
#include "core/formats/gguf/gguf.h"
#include "core/model/model.h"
#include "tests/tools/hostile.h"
#include "tests/unit/formats/raw_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include <cmocka.h>

enum { MAX_FILES = 20000 };

struct tally {
    uint64_t hashes[MAX_FILES];
    size_t n;
    size_t by_reader, by_loader;
};

/* Open and load; -1 with the sentence, or 0. */
static int try(const uint8_t *bytes, size_t n, bool *read, char *err, size_t err_len)
{
    const struct model_options options = {.n_ctx = 16, .threads = 1};
    struct model *m = NULL;
    struct gguf *g = NULL;
    void *copy = raw_copy(bytes, n);
    int rc = gguf_open_memory(&g, "file", copy, n, err, err_len);

    *read = rc == 0;
    if (rc == 0)
        rc = model_load(&m, g, &options, err, err_len);
    assert_true((m == NULL) == (rc < 0));
    model_destroy(&m);
    gguf_close(&g);
    free(copy);
    return rc;
}

static void expect_refused(void *ud, const char *what, const uint8_t *bytes, size_t n)
{
    struct tally *t = ud;
    char err[512] = "";
    bool read;
    const int rc = try(bytes, n, &read, err, sizeof(err));

    if (rc == 0)
        fail_msg("accepted: %s", what);
    if (strncmp(err, "file: ", 6) != 0 || strlen(err) < 16 || strchr(err, '\n') != NULL)
        fail_msg("%s: the sentence is '%s'", what, err);
    if (rc != ERR_FORMAT && rc != ERR_UNSUPPORTED)
        fail_msg("%s: error %d: %s", what, rc, err);
    for (const char *p = err; *p != '\0'; p++)
        if (*p < 0x20 || *p > 0x7e)
            fail_msg("%s: the sentence holds byte 0x%02x", what, (uint8_t)*p);
    if (t->n == MAX_FILES)
        fail_msg("more files than room");
    t->hashes[t->n++] = XXH3_64bits(bytes, n);
    if (read)
        t->by_loader++;
    else
        t->by_reader++;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void test_every_file_is_refused(void **arg)
{
    struct tally *t = calloc(1, sizeof(*t));
    size_t distinct = 0;

    (void)arg;
    assert_non_null(t);
    assert_int_equal(hostile_each(expect_refused, t), 0);
    qsort(t->hashes, t->n, sizeof(t->hashes[0]), by_value);
    for (size_t i = 0; i < t->n; i++)
        distinct += i == 0 || t->hashes[i] != t->hashes[i - 1];
    print_message("hostile files: %zu distinct, all refused (%zu by the reader, %zu by the "
                  "loader)\n",
                  distinct, t->by_reader, t->by_loader);
    assert_true(distinct >= 200);
    assert_true(t->by_loader >= 50);
    free(t);
}

/* The file that all of them come from is good. */
static void test_the_original_is_accepted(void **arg)
{
    char err[512];
    uint8_t *data;
    size_t bytes;
    bool read;

    (void)arg;
    assert_int_equal(hostile_valid(&data, &bytes), 0);
    if (try(data, bytes, &read, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    mem_free(data);
}

/* Bytes at random places: refused or loaded, but never a fault (this test is for sanitizers). */
static void test_random_bytes(void **arg)
{
    const char *rounds = getenv("QUIRE_HOSTILE_ROUNDS");
    const long n = rounds != NULL ? strtol(rounds, NULL, 10) : 3000;
    uint64_t state = 20261120;
    size_t bytes, n_refused = 0;
    uint8_t *data, *copy;
    char err[512];
    bool read;

    (void)arg;
    assert_int_equal(hostile_valid(&data, &bytes), 0);
    copy = malloc(bytes);
    assert_non_null(copy);
    for (long i = 0; i < n; i++) {
        const size_t head = i % 2 ? bytes : 3000; /* half of them within keys and infos */

        memcpy(copy, data, bytes);
        for (uint64_t k = fixture_next(&state) % 4 + 1; k > 0; k--)
            copy[fixture_next(&state) % head] = (uint8_t)fixture_next(&state);
        err[0] = '\0';
        if (try(copy, bytes, &read, err, sizeof(err)) < 0) {
            assert_true(strncmp(err, "file: ", 6) == 0 && strchr(err, '\n') == NULL);
            n_refused++;
        }
    }
    assert_true(n_refused > (size_t)n / 10);
    free(copy);
    mem_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_original_is_accepted),
        cmocka_unit_test(test_every_file_is_refused),
        cmocka_unit_test(test_random_bytes),
    };

    log_setup(LOG_OFF, false, 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
