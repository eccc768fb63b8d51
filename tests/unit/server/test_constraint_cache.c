/* tests/unit/server/test_constraint_cache.c - the cache of constraints: what is found, what goes,
 * what stays. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/grammar/constraint.h"
#include "core/json/json.h"
#include "server/api/constraint/constraint_cache.h"
#include "tests/unit/server/byte_tokenizer.inc"

static struct tokenizer *tokenizer;

static struct constraint_cache *cache(uint32_t max_entries, size_t max_bytes)
{
    const struct constraint_cache_options options = {
        .tokenizer = tokenizer, .max_entries = max_entries, .max_bytes = max_bytes};
    struct constraint_cache *c;

    assert_int_equal(constraint_cache_create(&c, &options), 0);
    return c;
}

/* A counted constraint, which must come. */
static struct constraint *get(struct constraint_cache *c, enum constraint_kind kind,
                              const char *json)
{
    const char *why = NULL;
    cJSON *value = NULL;
    struct constraint_spec spec = {.kind = kind, .field = "field"};
    struct constraint *out;
    struct api_error e = {0};

    assert_int_equal(json_parse(json, strlen(json), &value, &why), 0);
    spec.value = value;
    if (constraint_cache_get(c, &spec, NULL, &out, &e) < 0)
        fail_msg("%s: %s", json, e.message);
    cJSON_Delete(value);
    return out;
}

static void the_same_spec_is_compiled_once(void **state)
{
    struct constraint_cache *c = cache(8, SIZE_MAX);
    struct constraint *a = get(c, CONSTRAINT_REGEX, "\"[a-z]+\"");
    struct constraint *b = get(c, CONSTRAINT_REGEX, "\"[a-z]+\"");
    struct constraint *other = get(c, CONSTRAINT_REGEX, "\"[a-y]+\"");
    struct constraint *schema = get(c, CONSTRAINT_SCHEMA, " { \"type\" : \"null\" } ");
    struct constraint *same = get(c, CONSTRAINT_SCHEMA, "{\"type\":\"null\"}");
    struct constraint_cache_stats stats;
    (void)state;

    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, other);
    assert_ptr_equal(schema, same);
    stats = constraint_cache_stats(c);
    assert_int_equal(stats.n_compiled, 3);
    assert_int_equal(stats.n_hits, 2);
    constraint_cache_destroy(&c); /* what is in use lives on */
    assert_true(constraint_bytes(a) > 0);
    constraint_unref(&a);
    constraint_unref(&b);
    constraint_unref(&other);
    constraint_unref(&schema);
    constraint_unref(&same);
    assert_null(a);
}

/* Their doubles are the same. */
static void numbers_are_told_apart_by_their_text(void **state)
{
    static const char *const schemas[] = {
        "{\"const\":9007199254740992}", "{\"const\":9007199254740993}", "{\"const\":1}",
        "{\"const\":1.0}",
        "{\"type\":\"integer\",\"minimum\":9007199254740992}",
        "{\"type\":\"integer\",\"minimum\":9007199254740993}"};
    struct constraint_cache *c = cache(100, SIZE_MAX);
    (void)state;

    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
        struct constraint *it = get(c, CONSTRAINT_SCHEMA, schemas[i]);

        constraint_unref(&it);
    }
    assert_int_equal(constraint_cache_stats(c).n_hits, 0);
    constraint_cache_destroy(&c);
}

/* The same text means different things as a grammar, an expression and a choice. */
static void kinds_are_told_apart(void **state)
{
    struct constraint_cache *c = cache(8, SIZE_MAX);
    struct constraint *regex = get(c, CONSTRAINT_REGEX, "\"[\\\"a\\\"]\"");
    struct constraint *choice = get(c, CONSTRAINT_CHOICE, "[\"a\"]");
    (void)state;

    assert_ptr_not_equal(regex, choice);
    assert_int_equal(constraint_cache_stats(c).n_hits, 0);
    constraint_unref(&regex);
    constraint_unref(&choice);
    constraint_cache_destroy(&c);
}

static void the_longest_unused_goes_first(void **state)
{
    static const char *const texts[] = {"\"a\"", "\"b\"", "\"c\""};
    struct constraint_cache *c = cache(2, SIZE_MAX);
    struct constraint *it;
    (void)state;

    for (int i = 0; i < 3; i++) {
        it = get(c, CONSTRAINT_REGEX, texts[i]);
        constraint_unref(&it);
        it = get(c, CONSTRAINT_REGEX, texts[0]); /* used again and again */
        constraint_unref(&it);
    }
    assert_int_equal(constraint_cache_stats(c).n_entries, 2);
    assert_int_equal(constraint_cache_stats(c).n_compiled, 3);
    it = get(c, CONSTRAINT_REGEX, texts[2]);
    constraint_unref(&it);
    assert_int_equal(constraint_cache_stats(c).n_compiled, 3);
    it = get(c, CONSTRAINT_REGEX, texts[1]);
    constraint_unref(&it);
    assert_int_equal(constraint_cache_stats(c).n_compiled, 4);
    constraint_cache_destroy(&c);
    c = cache(100, 1); /* one is always kept, however large */
    for (int i = 0; i < 3; i++) {
        it = get(c, CONSTRAINT_REGEX, texts[i]);
        constraint_unref(&it);
        assert_int_equal(constraint_cache_stats(c).n_entries, 1);
    }
    constraint_cache_destroy(&c);
}

static void refusals_name_the_field(void **state)
{
    static const struct {
        enum constraint_kind kind;
        const char *json, *words;
    } refusals[] = {
        {CONSTRAINT_GRAMMAR, "5", "must be a string"},
        {CONSTRAINT_REGEX, "\"(\"", "not closed"},
        {CONSTRAINT_CHOICE, "\"a\"", "list of strings"},
        {CONSTRAINT_CHOICE, "[]", "at least one"},
        {CONSTRAINT_CHOICE, "[1]", "strings"},
        {CONSTRAINT_CHOICE, "[\"\"]", "empty text"},
        {CONSTRAINT_SCHEMA, "[]", "JSON Schema"},
        {CONSTRAINT_SCHEMA, "\"{\"", "not a JSON Schema"},
        {CONSTRAINT_SCHEMA, "{\"properties\":{\"a\":{\"not\":{}}}}", "'#/properties/a': "},
    };
    struct constraint_cache *c = cache(8, SIZE_MAX);
    (void)state;

    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        cJSON *value = cJSON_Parse(refusals[i].json);
        const struct constraint_spec spec = {
            .kind = refusals[i].kind, .field = "field", .value = value};
        struct constraint *out;
        struct api_error e = {0};

        assert_true(constraint_cache_get(c, &spec, NULL, &out, &e) < 0);
        assert_null(out);
        assert_int_equal(e.status, 400);
        assert_string_equal(e.param, "field");
        if (strstr(e.message, refusals[i].words) == NULL)
            fail_msg("%s: %s", refusals[i].json, e.message);
        cJSON_Delete(value);
    }
    assert_int_equal(constraint_cache_stats(c).n_entries, 0);
    constraint_cache_destroy(&c);
}

static void too_large_a_text(void **state)
{
    struct constraint_cache *c = cache(8, SIZE_MAX);
    char *text = calloc(CONSTRAINT_MAX_TEXT + 2, 1);
    struct constraint_spec spec = {.kind = CONSTRAINT_GRAMMAR, .field = "field"};
    struct constraint *out;
    struct api_error e = {0};
    cJSON *value;
    (void)state;

    memset(text, 'a', CONSTRAINT_MAX_TEXT + 1);
    value = cJSON_CreateString(text);
    spec.value = value;
    assert_true(constraint_cache_get(c, &spec, NULL, &out, &e) < 0);
    assert_non_null(strstr(e.message, "larger than"));
    cJSON_Delete(value);
    free(text);
    constraint_cache_destroy(&c);
}

static void *ask_often(void *ud)
{
    static const char *const texts[] = {"\"[ab]+\"", "\"[bc]+\"", "\"[cd]+\"", "\"[de]+\""};
    struct constraint_cache *c = ud;

    for (int i = 0; i < 40; i++) {
        struct constraint *it = get(c, CONSTRAINT_REGEX, texts[(i * 7 + (i >> 2)) % 4]);

        constraint_unref(&it);
    }
    return NULL;
}

static void threads_share_it(void **state)
{
    struct constraint_cache *c = cache(2, SIZE_MAX);
    pthread_t threads[4];
    (void)state;

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, c), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(constraint_cache_stats(c).n_hits + constraint_cache_stats(c).n_compiled, 160);
    assert_int_equal(constraint_cache_stats(c).n_entries, 2);
    constraint_cache_destroy(&c);
}

static int set_up(void **state)
{
    char err[100];
    (void)state;

    return tokenizer_create(&tokenizer, NULL, err, sizeof(err));
}

static int tear_down(void **state)
{
    (void)state;
    tokenizer_destroy(&tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_spec_is_compiled_once),
        cmocka_unit_test(numbers_are_told_apart_by_their_text),
        cmocka_unit_test(kinds_are_told_apart),
        cmocka_unit_test(the_longest_unused_goes_first),
        cmocka_unit_test(refusals_name_the_field),
        cmocka_unit_test(too_large_a_text),
        cmocka_unit_test(threads_share_it),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
