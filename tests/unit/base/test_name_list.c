/* tests/unit/base/test_name_list.c - lists of names, and what their patterns match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/name_list.h"
#include "tests/fixtures/random.h"

#include <string.h>

static void assert_item(const char **text, const char *name)
{
    struct name_list_item item;

    assert_true(name_list_next(text, &item));
    assert_int_equal(item.len, strlen(name));
    assert_memory_equal(item.text, name, item.len);
}

static void reads_items(void **state)
{
    const char *text = " a ,b/c:7b\t,\tclaude-*";
    struct name_list_item item;

    (void)state;
    assert_item(&text, "a");
    assert_item(&text, "b/c:7b");
    assert_item(&text, "claude-*");
    assert_false(name_list_next(&text, &item));
    assert_false(name_list_next(&text, &item));
    text = "";
    assert_false(name_list_next(&text, &item));
    text = NULL;
    assert_false(name_list_next(&text, &item));
}

static void knows_good_lists(void **state)
{
    static const char *const good[] = {"", "  ", "a", "a,b", " a , b ", "*", "a/b:c@d.e_f-1",
                                       "{}~!"};
    static const char *const bad[] = {",", "a,", ",a", "a,,b", "a b", "a=b", "[a]", "\"a\"", "'a'",
                                      "a\\b", "`a`", "a\x7f", "\xC3\xA9", "a\n", "a,\x01"};
    char text[NAME_LIST_MAX_TEXT + 2];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(name_list_is_valid(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (name_list_is_valid(bad[i]))
            fail_msg("'%s' is valid", bad[i]);
    memset(text, 'a', sizeof(text));
    text[NAME_LIST_MAX_NAME] = '\0';
    assert_true(name_list_is_valid(text));
    text[NAME_LIST_MAX_NAME] = 'a';
    text[NAME_LIST_MAX_NAME + 1] = '\0';
    assert_false(name_list_is_valid(text));
    for (size_t i = 0; i <= NAME_LIST_MAX_TEXT; i++)
        text[i] = i % 2 == 0 ? 'a' : ',';
    text[NAME_LIST_MAX_TEXT - 1] = '\0';
    assert_true(name_list_is_valid(text));
    text[NAME_LIST_MAX_TEXT - 1] = ',';
    text[NAME_LIST_MAX_TEXT + 1] = '\0';
    assert_false(name_list_is_valid(text));
}

static void has_names_and_matches_patterns(void **state)
{
    static const char list[] = "gpt-4o, claude-*, *-mini, a*b*c";

    (void)state;
    assert_true(name_list_has(list, "gpt-4o") && name_list_has(list, "claude-*"));
    assert_false(name_list_has(list, "gpt-4") || name_list_has(list, "gpt-4o,") ||
                 name_list_has(list, "") || name_list_has("", "a") || name_list_has(NULL, "a"));
    assert_false(name_list_matches(list, "gpt-4o")); /* it is no pattern */
    assert_true(name_list_matches(list, "claude-") && name_list_matches(list, "claude-opus-4"));
    assert_true(name_list_matches(list, "claude-*"));
    assert_false(name_list_matches(list, "claude") || name_list_matches(list, "a-claude-b"));
    assert_true(name_list_matches(list, "x-mini") && name_list_matches(list, "-mini"));
    assert_false(name_list_matches(list, "x-mini2"));
    assert_true(name_list_matches(list, "abc") && name_list_matches(list, "axbbcyc"));
    assert_false(name_list_matches(list, "ab") || name_list_matches(list, "acb"));
    assert_false(name_list_matches(list, "") || name_list_matches(NULL, "a"));
    assert_true(name_list_matches("*", "") && name_list_matches("x, **", "any thing\n"));
}

/* The definition: a '*' takes any number of bytes. */
static bool matches_by_definition(const char *pattern, const char *name)
{
    if (*pattern == '\0')
        return *name == '\0';
    if (*pattern == '*')
        return matches_by_definition(pattern + 1, name) ||
               (*name != '\0' && matches_by_definition(pattern, name + 1));
    return *pattern == *name && matches_by_definition(pattern + 1, name + 1);
}

static void matches_as_defined(void **state)
{
    uint64_t seed = 1;
    int n_found = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char pattern[10] = "*", name[10] = "";
        const size_t n = random_below(&seed, 8), m = random_below(&seed, 9);

        for (size_t k = 0; k < n; k++)
            pattern[1 + k] = "ab*"[random_below(&seed, 3)];
        for (size_t k = 0; k < m; k++)
            name[k] = "ab"[random_below(&seed, 2)];
        assert_int_equal(name_list_matches(pattern, name), matches_by_definition(pattern, name));
        n_found += matches_by_definition(pattern, name);
    }
    assert_in_range(n_found, 1000, 19000);
}

/* Many stars and a long name take no longer than their product. */
static void hostile_patterns_end(void **state)
{
    char pattern[NAME_LIST_MAX_NAME + 1], name[4097];

    (void)state;
    for (size_t i = 0; i < NAME_LIST_MAX_NAME; i++)
        pattern[i] = i % 2 == 0 ? '*' : 'a';
    pattern[NAME_LIST_MAX_NAME - 1] = 'b';
    pattern[NAME_LIST_MAX_NAME] = '\0';
    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < 100; i++)
        assert_false(name_list_matches(pattern, name));
}

static void a_tag_is_taken_off(void **state)
{
    char bare[NAME_LIST_MAX_BARE], longest[NAME_LIST_MAX_BARE + 16];

    (void)state;
    assert_true(name_list_untag("a:latest", bare));
    assert_string_equal(bare, "a");
    assert_true(name_list_untag("a:7b:latest", bare));
    assert_string_equal(bare, "a:7b");
    assert_false(name_list_untag(":latest", bare) || name_list_untag("", bare) ||
                 name_list_untag("a:lates", bare) || name_list_untag("a:latest ", bare));
    memset(longest, 'a', sizeof(longest));
    memcpy(longest + NAME_LIST_MAX_BARE - 1, ":latest", 8);
    assert_true(name_list_untag(longest, bare));
    assert_int_equal(strlen(bare), NAME_LIST_MAX_BARE - 1);
    longest[NAME_LIST_MAX_BARE - 1] = 'a';
    memcpy(longest + NAME_LIST_MAX_BARE, ":latest", 8);
    assert_false(name_list_untag(longest, bare));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_items),          cmocka_unit_test(knows_good_lists),
        cmocka_unit_test(has_names_and_matches_patterns), cmocka_unit_test(matches_as_defined),
        cmocka_unit_test(hostile_patterns_end), cmocka_unit_test(a_tag_is_taken_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
