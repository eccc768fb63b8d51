/* tests/unit/server/test_api_keys.c - secrets, limits per minute, the file of keys, the table that
 * survives a reload; and the list of web origins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/origins.h"
#include "core/base/err.h"
#include "server/auth/api_keys.h"

#define S 1000000u /* microseconds */
#define MINUTE (60 * (uint64_t)S)

/* SHA-256 of "abc" (FIPS 180). */
#define HASH_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

/* ---- secrets ---- */

static void test_hash_is_sha256(void **state)
{
    struct secret_hash h, back;
    char hex[SECRET_HEX];

    (void)state;
    assert_int_equal(secret_hash("abc", 3, &h), 0);
    secret_to_hex(&h, hex);
    assert_string_equal(hex, HASH_ABC);
    assert_int_equal(secret_from_hex(&back, hex), 0);
    assert_true(secret_is_equal(&h, &back));
}

static void test_hex_is_strict(void **state)
{
    static const char *const bad[] = {
        "", "00", "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015A",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ag",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad0",
        " a7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"};
    struct secret_hash h;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(secret_from_hex(&h, bad[i]), ERR_INVAL);
    assert_int_equal(
        secret_from_hex(&h, "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"),
        0);
}

/* Each single bit decides, the first one as well as the last one. */
static void test_equality_looks_at_every_bit(void **state)
{
    struct secret_hash a = {{1, 2, 3}}, b = a;

    (void)state;
    assert_true(secret_is_equal(&a, &b));
    for (size_t bit = 0; bit < 256; bit++) {
        b = a;
        b.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(secret_is_equal(&a, &b));
    }
}

static void test_secrets_are_long_and_different(void **state)
{
    char a[SECRET_TEXT], b[SECRET_TEXT];
    unsigned seen = 0;

    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(secret_make(a), 0);
        assert_int_equal(secret_make(b), 0);
        assert_int_equal(strlen(a), SECRET_TEXT - 1);
        assert_memory_equal(a, "qk-", 3);
        assert_string_not_equal(a, b);
        for (const char *p = a + 3; *p != '\0'; p++) {
            assert_non_null(strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                   "0123456789-_",
                                   *p));
            seen |= 1u << (*p & 31);
        }
    }
    assert_true(__builtin_popcount(seen) > 25); /* not always the same few letters */
}

/* ---- buckets ---- */

static void test_bucket_without_limit(void **state)
{
    struct rate_limit b = {0};

    (void)state;
    rate_limit_take(&b, 1000000000, 5);
    assert_int_equal(rate_limit_wait_us(&b, UINT64_MAX, 6), 0);
}

static void test_bucket_fills_evenly(void **state)
{
    struct rate_limit b;

    (void)state;
    rate_limit_init(&b, 60, 1000); /* one a second */
    for (int i = 0; i < 60; i++) {
        assert_int_equal(rate_limit_wait_us(&b, 1, 1000), 0);
        rate_limit_take(&b, 1, 1000);
    }
    assert_int_equal(rate_limit_wait_us(&b, 1, 1000), S);
    assert_int_equal(rate_limit_wait_us(&b, 10, 1000), 10 * S);
    assert_int_equal(rate_limit_wait_us(&b, 1, 1000 + S / 2), S / 2);
    assert_int_equal(rate_limit_wait_us(&b, 1, 1000 + S), 0);
    assert_int_equal(rate_limit_wait_us(&b, 60, 1000 + MINUTE), 0);
    assert_int_equal(rate_limit_wait_us(&b, 60, 1000 + 1000000 * MINUTE), 0); /* never more */
    rate_limit_take(&b, 60, 1000 + 1000000 * MINUTE);
    assert_int_equal(rate_limit_wait_us(&b, 1, 1000 + 1000000 * MINUTE), S);
}

/* Seven a minute: no whole number of microseconds each, and nothing is lost over the hours. */
static void test_bucket_is_exact(void **state)
{
    struct rate_limit b;
    uint64_t now = 0;

    (void)state;
    rate_limit_init(&b, 7, now);
    rate_limit_take(&b, 7, now);
    for (int i = 0; i < 7 * 600; i++) {
        now += rate_limit_wait_us(&b, 1, now);
        assert_int_equal(rate_limit_wait_us(&b, 1, now), 0);
        rate_limit_take(&b, 1, now);
    }
    assert_true(now >= 600 * MINUTE);
    assert_true(now <= 600 * MINUTE + 7 * 600);
}

static void test_bucket_owes(void **state)
{
    struct rate_limit b;

    (void)state;
    rate_limit_init(&b, 60, 0);
    assert_int_equal(rate_limit_wait_us(&b, 600, 0), 0); /* more than it holds: now it is full */
    rate_limit_take(&b, 600, 0);
    assert_int_equal(rate_limit_wait_us(&b, 1, 0), 541 * (uint64_t)S);
    rate_limit_give(&b, 500, 0);
    assert_int_equal(rate_limit_wait_us(&b, 1, 0), 41 * (uint64_t)S);
    rate_limit_give(&b, 5000, 0);
    rate_limit_take(&b, 60, 0);
    assert_int_equal(rate_limit_wait_us(&b, 1, 0), S); /* what was given back did not overflow it */
}

static void test_bucket_extremes(void **state)
{
    struct rate_limit b;

    (void)state;
    rate_limit_init(&b, RATE_LIMIT_MAX, 0);
    for (int i = 0; i < 100; i++)
        rate_limit_take(&b, UINT64_MAX, 0);
    assert_true(rate_limit_wait_us(&b, 1, 0) > 3 * MINUTE);
    assert_true(rate_limit_wait_us(&b, 1, 0) < 6 * MINUTE);
    assert_int_equal(rate_limit_wait_us(&b, UINT64_MAX, UINT64_MAX), 0);
    rate_limit_init(&b, 1, 100);
    rate_limit_take(&b, 1, 100);
    assert_int_equal(rate_limit_wait_us(&b, 1, 50), MINUTE); /* going back adds nothing */
}

static void test_bucket_changes_rate(void **state)
{
    struct rate_limit b;

    (void)state;
    rate_limit_init(&b, 60, 0);
    rate_limit_take(&b, 50, 0);
    rate_limit_set_rate(&b, 5, 0);
    assert_int_equal(rate_limit_wait_us(&b, 5, 0), 0);
    rate_limit_take(&b, 5, 0);
    assert_int_equal(rate_limit_wait_us(&b, 1, 0), 12 * S);
    rate_limit_set_rate(&b, 0, 0);
    assert_int_equal(rate_limit_wait_us(&b, 1000, 0), 0);
    rate_limit_set_rate(&b, 60, 0);
    assert_int_equal(rate_limit_wait_us(&b, 60, 0), 0);
}

/* ---- the file ---- */

static char file[] = "/tmp/quire-keys-XXXXXX";

static void write_file(const char *text)
{
    FILE *f = fopen(file, "we");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int setup(void **state)
{
    const int fd = mkstemp(file);

    (void)state;
    return fd < 0 || close(fd) < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(file);
}

static void test_file(void **state)
{
    struct key_list list;
    char err[300] = "";

    (void)state;
    write_file("; a comment\n"
               "[alice]\n"
               "hash = " HASH_ABC "\n"
               "\n"
               "[bob]\n"
               "   tenant = team-a   ; inline\n"
               "hash=00000000000000000000000000000000000000000000000000000000000000ff\n"
               "weight = 7\n"
               "max_priority = normal\n"
               "requests_per_minute = 60\n"
               "tokens_per_minute = 1000000000\n"
               "max_concurrent = 4\n"
               "admin = yes\n");
    assert_int_equal(key_file_read(&list, file, err, sizeof(err)), 0);
    assert_int_equal(list.n, 2);
    assert_string_equal(list.keys[0].name, "alice");
    assert_string_equal(list.keys[0].tenant, "alice");
    assert_int_equal(list.keys[0].max_priority, PRIORITY_CRITICAL);
    assert_int_equal(list.keys[0].weight, 0);
    assert_int_equal(list.keys[0].requests_per_minute, 0);
    assert_false(list.keys[0].is_admin);
    assert_string_equal(list.keys[1].tenant, "team-a");
    assert_int_equal(list.keys[1].hash.bytes[31], 255);
    assert_int_equal(list.keys[1].weight, 7);
    assert_int_equal(list.keys[1].max_priority, PRIORITY_NORMAL);
    assert_int_equal(list.keys[1].requests_per_minute, 60);
    assert_int_equal(list.keys[1].tokens_per_minute, 1000000000);
    assert_int_equal(list.keys[1].max_concurrent, 4);
    assert_true(list.keys[1].is_admin);
    key_list_release(&list);
    assert_int_equal(list.n, 0);
}

#define GOOD "[a]\nhash = " HASH_ABC "\n"

static void test_file_refused(void **state)
{
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"", "no key"},
        {"; nothing\n", "no key"},
        {"hash = " HASH_ABC "\n", ":1: there is a field before"},
        {"[a]\ntenant = b\n", "'a' has no hash"},
        {"[a]\n[b]\nhash = " HASH_ABC "\n", ":2: the section before"},
        {GOOD "[b]\n", "the last section is empty"},
        {GOOD "[a]\nhash = 00\n", ":4: there is already a key with this name"},
        {GOOD "[b]\nhash = " HASH_ABC "\n", "the same key"},
        {GOOD "nonsense\n", ":3: the line must have the form"},
        {GOOD "colour = red\n", ":3: a key has no field 'colour'"},
        {GOOD "ba7816bf== red\n", ":3: a key has no such field"},
        {GOOD "weight = 2\nweight = 3\n", ":4: 'weight' is set twice in this key"},
        {GOOD "hash = " HASH_ABC "\n", ":3: 'hash' is set twice in this key"},
        {GOOD "admin = maybe\n", ":3: 'admin' must be yes or no"},
        {GOOD "weight = 0\n", ":3: 'weight'"},
        {GOOD "weight = 1001\n", ":3: 'weight'"},
        {GOOD "requests_per_minute = -1\n", ":3: 'requests_per_minute'"},
        {GOOD "tokens_per_minute = 1e3\n", ":3: 'tokens_per_minute'"},
        {GOOD "tokens_per_minute = 99999999999999999999\n", ":3: 'tokens_per_minute'"},
        {GOOD "max_concurrent = \n", ":3: 'max_concurrent'"},
        {GOOD "max_priority = urgent\n", ":3: 'max_priority'"},
        {GOOD "tenant = two words\n", ":3: 'tenant'"},
        {"[a]\nhash = abc\n", ":2: 'hash' must be 64"},
        {"[two words]\nhash = " HASH_ABC "\n", ":2: a key's name"},
        {"[a]\nhash = " HASH_ABC "\ntenant=t\nweight=2\n[b]\nhash = "
         "0000000000000000000000000000000000000000000000000000000000000000\ntenant=t\nweight=3\n",
         "two weights"},
    };
    struct key_list list;
    char err[300], name[80] = "[", long_line[400];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_file(bad[i].text);
        err[0] = '\0';
        assert_true(key_file_read(&list, file, err, sizeof(err)) < 0);
        if (strstr(err, bad[i].word) == NULL || strncmp(err, file, strlen(file)) != 0)
            fail_msg("'%s' says '%s', not '%s'", bad[i].text, err, bad[i].word);
        assert_null(strstr(err, "ba7816")); /* no hash, not even a part of one */
        assert_null(list.keys);
    }
    memset(name + 1, 'n', 60);
    memcpy(name + 61, "]\n", 3);
    snprintf(long_line, sizeof(long_line), "%shash = " HASH_ABC "\n", name);
    write_file(long_line);
    assert_int_equal(key_file_read(&list, file, err, sizeof(err)), ERR_INVAL);
    assert_int_equal(key_file_read(&list, "/tmp", err, sizeof(err)), ERR_INVAL);
    assert_int_equal(key_file_read(&list, "/nonexistent/keys", err, sizeof(err)), ERR_INVAL);
    assert_non_null(strstr(err, "/nonexistent/keys"));
    memset(long_line, ' ', sizeof(long_line) - 1);
    long_line[sizeof(long_line) - 1] = '\0';
    write_file(long_line);
    assert_int_equal(key_file_read(&list, file, err, sizeof(err)), ERR_INVAL);
    assert_non_null(strstr(err, ":1: the line is too long"));
}

/* Blanks of any kind and a byte order mark before a section hide it from nobody: its fields are not
 * those of the key before, or of none. */
static void test_sections_behind_blanks(void **state)
{
    static const char *const one[] = {"\xEF\xBB\xBF" GOOD, "\f" GOOD, "\r\v" GOOD,
                                      " \xEF\xBB\xBF \f" GOOD};
    struct key_list list;
    char err[300] = "";

    (void)state;
    for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++) {
        write_file(one[i]);
        assert_int_equal(key_file_read(&list, file, err, sizeof(err)), 0);
        assert_int_equal(list.n, 1);
        assert_string_equal(list.keys[0].name, "a");
        key_list_release(&list);
    }
    write_file("[a]\n\f[b]\nhash = " HASH_ABC "\n");
    assert_int_equal(key_file_read(&list, file, err, sizeof(err)), ERR_INVAL);
    assert_non_null(strstr(err, ":2: the section before this one is empty"));
    write_file(GOOD "tenant = x\n\fy\n"); /* no continuation of the line before */
    assert_int_equal(key_file_read(&list, file, err, sizeof(err)), ERR_INVAL);
    assert_non_null(strstr(err, ":4: the line must have the form"));
}

/* A NUL ends no line: behind it there may be anything. */
static void test_nul_is_refused(void **state)
{
    static const char text[] = GOOD "admin = no\0pe\nadmin = yes\n";
    struct key_list list;
    char err[300] = "";
    FILE *f = fopen(file, "we");

    (void)state;
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, sizeof(text) - 1, f), sizeof(text) - 1);
    fclose(f);
    assert_int_equal(key_file_read(&list, file, err, sizeof(err)), ERR_INVAL);
    assert_non_null(strstr(err, ":3: the line has a NUL byte"));
    assert_null(list.keys);
}

/* ---- files that are cut off ---- */

#define HASH_0 "0000000000000000000000000000000000000000000000000000000000000000"
/* As `quire key` writes it. */
#define WHOLE                                                                                      \
    "[a]\ntenant = team-ab\nweight = 12\nmax_priority = normal\nrequests_per_minute = 60\n"        \
    "tokens_per_minute = 1000\ntokens_per_day = 020\ntokens_per_month = 30\n"                      \
    "max_concurrent = 14\nhash = " HASH_ABC "\n"                                                  \
    "[b]\n; a comment\nmax_concurrent = 10 ; and one more\nadmin = no\nhash = " HASH_0 "\n"

static const struct key_spec *key_named(const struct key_list *l, const char *name)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (strcmp(l->keys[i].name, name) == 0)
            return &l->keys[i];
    return NULL;
}

/* A key of a file that was cut is the same as that of the whole one, or is not there. */
static void no_part_of_a_file_has_more_rights(void **state)
{
    const char text[] = WHOLE;
    struct key_list whole, part;
    char cut[sizeof(text)], err[300] = "";

    (void)state;
    write_file(text);
    assert_int_equal(key_file_read(&whole, file, err, sizeof(err)), 0);
    assert_int_equal(whole.n, 2);
    for (size_t n = 0; n < sizeof(text); n++) {
        memcpy(cut, text, n);
        cut[n] = '\0';
        write_file(cut);
        if (key_file_read(&part, file, err, sizeof(err)) < 0)
            continue;
        assert_true(n > 64); /* it has a hash */
        for (uint32_t i = 0; i < part.n; i++)
            assert_memory_equal(&part.keys[i], key_named(&whole, part.keys[i].name),
                                sizeof(part.keys[i]));
        key_list_release(&part);
    }
    key_list_release(&whole);
}

/* An older file has the hash first. When it is read again its last key keeps its limits, its tenant
 * and its priority, or the file is refused: it may be cut off. */
static void an_older_file_that_is_cut_is_not_taken(void **state)
{
    static const char *const less[] = {"max_concurrent = 2\n", "tenant = t\n",
                                       "max_priority = low\n", "tokens_per_day = 5\n"};
    struct keys *k;
    char text[300], err[300];

    (void)state;
    for (size_t i = 0; i < sizeof(less) / sizeof(less[0]); i++) {
        snprintf(text, sizeof(text), GOOD "%sadmin = no\n", less[i]);
        write_file(text);
        assert_int_equal(keys_open(&k, file, 0, err, sizeof(err)), 0);
        write_file(GOOD);
        assert_int_equal(keys_reload(k, 0, err, sizeof(err)), ERR_INVAL);
        assert_non_null(strstr(err, "may be cut off"));
        snprintf(text, sizeof(text), GOOD "%s", less[i]);
        write_file(text);
        assert_int_equal(keys_reload(k, 0, err, sizeof(err)), 0);
        keys_close(&k);
    }
}

/* ---- the table ---- */

static void write_keys(uint32_t from, uint32_t to, const char *more)
{
    FILE *f = fopen(file, "we");

    assert_non_null(f);
    for (uint32_t i = from; i < to; i++) {
        struct secret_hash h;
        char secret[16], hex[SECRET_HEX];

        snprintf(secret, sizeof(secret), "secret-%u", i);
        assert_int_equal(secret_hash(secret, strlen(secret), &h), 0);
        secret_to_hex(&h, hex);
        fprintf(f, "[key-%u]\nhash = %s\n%s", i, hex, more);
    }
    fclose(f);
}

static struct key *find(struct keys *k, uint32_t i)
{
    char secret[16];

    snprintf(secret, sizeof(secret), "secret-%u", i);
    return keys_find(k, secret);
}

static void test_table_finds_each_key_and_no_other(void **state)
{
    struct keys *k;
    char err[300], name[16];
    static char endless[SECRET_MAX + 2];

    (void)state;
    write_keys(0, 500, "");
    assert_int_equal(keys_open(&k, file, 0, err, sizeof(err)), 0);
    assert_int_equal(keys_n(k), 500);
    for (uint32_t i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "key-%u", i);
        assert_non_null(find(k, i));
        assert_string_equal(find(k, i)->spec.name, name);
    }
    for (uint32_t i = 500; i < 1000; i++)
        assert_null(find(k, i));
    assert_null(keys_find(k, ""));
    memset(endless, 'x', sizeof(endless) - 1);
    assert_null(keys_find(k, endless));
    keys_close(&k);
    assert_null(k);
}

static uint64_t thread_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* The least CPU time of some tries that a reload of n keys takes. */
static uint64_t reload_us(uint32_t n)
{
    uint64_t least = UINT64_MAX;
    struct keys *k;
    char err[300];

    write_keys(0, n, "tenant = t\nweight = 2\n");
    assert_int_equal(keys_open(&k, file, 0, err, sizeof(err)), 0);
    for (int i = 0; i < 5; i++) {
        const uint64_t begin = thread_us();

        assert_int_equal(keys_reload(k, 0, err, sizeof(err)), 0);
        if (thread_us() - begin < least)
            least = thread_us() - begin;
    }
    keys_close(&k);
    return least;
}

/* Eight times the keys take about eight times as long, and not 64 times. */
static void test_reload_is_linear(void **state)
{
    const uint64_t few = reload_us(KEY_FILE_MAX / 8), all = reload_us(KEY_FILE_MAX);

    (void)state;
    assert_true(all < 24 * few);
}

static void test_reload_keeps_what_is_under_way(void **state)
{
    struct key_use use_0, use_1;
    struct keys *k;
    struct key *zero, *one;
    struct api_error e;
    uint64_t wait;
    char err[300];

    (void)state;
    write_keys(0, 2, "tokens_per_minute = 60\nmax_concurrent = 2\n");
    assert_int_equal(keys_open(&k, file, 0, err, sizeof(err)), 0);
    zero = find(k, 0);
    one = find(k, 1);
    key_begin(zero, 1, 60, 0, &use_0);
    key_begin(one, 2, 60, 0, &use_1);
    write_keys(1, 3, "tokens_per_minute = 60\nmax_concurrent = 3\n");
    assert_int_equal(keys_reload(k, 0, err, sizeof(err)), 0);
    assert_null(find(k, 0));          /* gone for whoever comes now ... */
    assert_int_equal(zero->n_open, 1); /* ... but not for what it began */
    assert_ptr_equal(find(k, 1), one);
    assert_int_equal(one->spec.max_concurrent, 3);
    assert_int_equal(one->n_open, 2);
    assert_int_equal(key_check(one, 1, 1, 0, &wait, &e), ERR_INVAL);
    assert_int_equal(wait, S); /* its bucket is as empty as before */
    assert_int_equal(key_check(find(k, 2), 1, 60, 0, &wait, &e), 0);
    key_end(&use_0, 10, 0);
    key_end(&use_1, 10, 0);
    assert_int_equal(one->n_open, 0);
    key_end(&use_1, 10, 0); /* once only */
    assert_int_equal(one->n_open, 0);
    keys_close(&k);
}

static void test_broken_file_changes_nothing(void **state)
{
    struct keys *k;
    struct key *zero;
    char err[300] = "";

    (void)state;
    write_keys(0, 1, "");
    assert_int_equal(keys_open(&k, file, 0, err, sizeof(err)), 0);
    zero = find(k, 0);
    write_file("[key-9]\nhash = broken\n");
    assert_int_equal(keys_reload(k, 0, err, sizeof(err)), ERR_INVAL);
    assert_non_null(strstr(err, ":2:"));
    assert_ptr_equal(find(k, 0), zero);
    assert_int_equal(keys_n(k), 1);
    keys_close(&k);
    write_file("");
    assert_true(keys_open(&k, file, 0, err, sizeof(err)) < 0);
    assert_null(k);
}

/* ---- quotas ---- */

#define DAY 86400
#define NOV_26 1795651200 /* 2026-11-26 00:00 UTC */

static void test_quota_of_a_day(void **state)
{
    struct quota b = {.period = QUOTA_DAY, .limit = 100};

    (void)state;
    assert_int_equal(quota_wait_s(&b, NOV_26), 0);
    quota_reserve(&b, 60);
    assert_int_equal(quota_wait_s(&b, NOV_26), 0); /* some may be left */
    quota_reserve(&b, 60);
    assert_int_equal(quota_wait_s(&b, NOV_26), 1); /* not while both may use all of theirs */
    quota_spend(&b, 60, 30, NOV_26 + 5);
    assert_int_equal(quota_wait_s(&b, NOV_26 + 5), 0);
    quota_spend(&b, 60, 70, NOV_26 + 6);
    assert_int_equal(quota_wait_s(&b, NOV_26 + 6), DAY - 6);
    assert_int_equal(quota_wait_s(&b, NOV_26 + DAY - 1), 1);
    assert_int_equal(quota_wait_s(&b, NOV_26 + DAY), 0);
    quota_reserve(&b, 10);
    quota_spend(&b, 10, 10, NOV_26 + DAY); /* what was spent the day before is forgotten */
    assert_int_equal(b.spent, 10);
}

static void test_quota_of_a_month(void **state)
{
    struct quota b = {.period = QUOTA_MONTH, .limit = 1};

    (void)state;
    quota_spend(&b, 0, 1, NOV_26);
    assert_int_equal(quota_wait_s(&b, NOV_26), 5 * DAY); /* to December */
    quota_spend(&b, 0, 1, NOV_26 + 6 * DAY);
    assert_int_equal(quota_wait_s(&b, NOV_26 + 6 * DAY), 30 * DAY); /* to January */
    assert_int_equal(quota_period_end(QUOTA_MONTH, 951782400), 951868800); /* 2000-02-29 */
}

/* A clock that is set back does not give anything back, and no limit is none. */
static void test_quota_edges(void **state)
{
    struct quota b = {.period = QUOTA_DAY, .limit = 10}, none = {0};

    (void)state;
    quota_spend(&b, 0, 10, NOV_26);
    assert_int_equal(quota_wait_s(&b, NOV_26 - 10), DAY + 10);
    quota_spend(&none, 0, UINT64_MAX / 2, NOV_26);
    quota_reserve(&none, UINT64_MAX / 2);
    assert_int_equal(quota_wait_s(&none, NOV_26), 0);
}

static void test_limits(void **state)
{
    struct key_use use[3];
    struct keys *k;
    struct key *key;
    struct api_error e;
    uint64_t wait;
    char err[300];

    (void)state;
    write_keys(0, 1, "requests_per_minute = 2\ntokens_per_minute = 600\nmax_concurrent = 3\n");
    assert_int_equal(keys_open(&k, file, 0, err, sizeof(err)), 0);
    key = find(k, 0);
    assert_int_equal(key_take_request(key, 0), 0);
    assert_int_equal(key_take_request(key, 0), 0);
    assert_int_equal(key_take_request(key, 0), 30 * S);
    assert_int_equal(key_take_request(key, 30 * S), 0);

    assert_true(key_check(key, 4, 1, 0, &wait, &e) < 0);
    assert_int_equal(e.status, 400);
    assert_int_equal(key_check(key, 3, 600, 0, &wait, &e), 0);
    key_begin(key, 2, 500, 0, &use[0]);
    assert_true(key_check(key, 2, 1, 0, &wait, &e) < 0);
    assert_int_equal(e.status, 429);
    assert_string_equal(e.code, "rate_limit_exceeded");
    assert_int_equal(wait, 0);
    assert_true(key_check(key, 1, 200, 0, &wait, &e) < 0);
    assert_int_equal(e.status, 429);
    assert_int_equal(wait, 10 * S);
    key_end(&use[0], 100, 0); /* 400 come back */
    assert_int_equal(key_check(key, 1, 500, 0, &wait, &e), 0);
    keys_close(&k);
}

static void test_key_with_a_quota(void **state)
{
    struct key_use use;
    struct keys *k;
    struct key *key;
    struct api_error e;
    uint64_t wait;
    char err[300];

    (void)state;
    write_keys(0, 1, "tokens_per_day = 0\ntokens_per_month = 100\n");
    assert_int_equal(keys_open(&k, file, 0, err, sizeof(err)), 0);
    key = find(k, 0);
    assert_int_equal(key_check(key, 1, 500, 0, &wait, &e), 0);
    key_begin(key, 1, 500, 0, &use);
    assert_true(key_check(key, 1, 1, 0, &wait, &e) < 0);
    assert_int_equal(wait, S);
    key_end(&use, 99, 0);
    assert_int_equal(key_check(key, 1, 500, 0, &wait, &e), 0);
    key_begin(key, 1, 500, 0, &use);
    key_end(&use, 1, 0);
    assert_true(key_check(key, 1, 1, 0, &wait, &e) < 0);
    assert_int_equal(e.status, 429);
    assert_string_equal(e.code, "insufficient_quota");
    assert_true(wait > 0 && wait <= 31 * (uint64_t)DAY * S);
    write_keys(0, 1, "tokens_per_month = 101\n"); /* what was spent stays spent */
    assert_int_equal(keys_reload(k, 0, err, sizeof(err)), 0);
    assert_int_equal(key_check(key, 1, 1, 0, &wait, &e), 0);
    assert_int_equal(key->month.spent, 100);
    keys_close(&k);
}

/* ---- origins ---- */

static void test_origins(void **state)
{
    static const char *const good[] = {"*", "https://a.example", "http://localhost:3000",
                                       "https://a.example,http://[::1]:80",
                                       "chrome-extension://abcdef"};
    static const char *const bad[] = {"",         "a.example",           "https://",
                                      "**",       "https://a.example/",  "https://a.example, ",
                                      "://a",     "https://a,*",         "https://a,,https://b",
                                      "https://a,", "https://a?b"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(origins_are_valid(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (origins_are_valid(bad[i]))
            fail_msg("'%s' is no list of origins", bad[i]);
    assert_true(origins_have("*", "null"));
    assert_true(origins_have("https://a.example,https://b.example", "https://b.example"));
    assert_true(origins_have("https://A.example", "https://a.example"));
    assert_false(origins_have("https://a.example,https://b.example", "https://b.exampl"));
    assert_false(origins_have("https://a.example", "https://a.example.evil"));
    assert_false(origins_have("https://a.example", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash_is_sha256),
        cmocka_unit_test(test_hex_is_strict),
        cmocka_unit_test(test_equality_looks_at_every_bit),
        cmocka_unit_test(test_secrets_are_long_and_different),
        cmocka_unit_test(test_bucket_without_limit),
        cmocka_unit_test(test_bucket_fills_evenly),
        cmocka_unit_test(test_bucket_is_exact),
        cmocka_unit_test(test_bucket_owes),
        cmocka_unit_test(test_bucket_extremes),
        cmocka_unit_test(test_bucket_changes_rate),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_file_refused),
        cmocka_unit_test(test_sections_behind_blanks),
        cmocka_unit_test(test_nul_is_refused),
        cmocka_unit_test(test_table_finds_each_key_and_no_other),
        cmocka_unit_test(no_part_of_a_file_has_more_rights),
        cmocka_unit_test(an_older_file_that_is_cut_is_not_taken),
        cmocka_unit_test(test_reload_is_linear),
        cmocka_unit_test(test_reload_keeps_what_is_under_way),
        cmocka_unit_test(test_broken_file_changes_nothing),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_key_with_a_quota),
        cmocka_unit_test(test_quota_of_a_day),
        cmocka_unit_test(test_quota_of_a_month),
        cmocka_unit_test(test_quota_edges),
        cmocka_unit_test(test_origins),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
