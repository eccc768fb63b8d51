/* tests/unit/config/test_networks.c - addresses, networks and objectives as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <string.h>

#include "config/networks.h"
#include "config/objectives.h"

/* IPv4 as it is mapped. */
static bool has(const char *list, const char *address)
{
    char text[INET6_ADDRSTRLEN + 8];
    struct in6_addr a;

    snprintf(text, sizeof(text), "%s%s", strchr(address, ':') != NULL ? "" : "::ffff:", address);
    assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
    return networks_have(list, &a);
}

static void what_a_list_is(void **state)
{
    static const char *const good[] = {"*", "unix", "127.0.0.1", "::1", "10.0.0.0/8 , fd00::/8",
                                       "0.0.0.0/0", "::/0", "10.1.2.3/32,unix", "::ffff:1.2.3.4"};
    static const char *const bad[] = {"",          ",",          "unix,",       "*,unix",
                                      "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x",
                                      "fd00::/129", "fd00::1/64", "10.0.0",     "host",
                                      "[::1]",      "1.2.3.4:80", "10.0.0.0/-1", "unix,,::1",
                                      "1.2.3.4/0000000000000008"};
    (void)state;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!networks_are_valid(good[i]))
            fail_msg("not taken: %s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (networks_are_valid(bad[i]))
            fail_msg("taken: %s", bad[i]);
}

static void who_is_in_it(void **state)
{
    (void)state;
    assert_true(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.1"));
    assert_true(has("192.168.4.0/22", "192.168.7.255") && !has("192.168.4.0/22", "192.168.8.0"));
    assert_true(has("1.2.3.4", "1.2.3.4") && !has("1.2.3.4", "1.2.3.5"));
    assert_true(has("0.0.0.0/0", "8.8.8.8") && !has("0.0.0.0/0", "2001:db8::1"));
    assert_true(has("fd00::/8", "fdff::1") && !has("fd00::/8", "fe80::1"));
    assert_true(has("fd00:0:8000::/33", "fd00:0:ffff::1") && !has("fd00:0:8000::/33", "fd00::1"));
    assert_true(has("unix, ::1", "::1") && !has("unix", "::1"));
    assert_true(has("*", "::1") && has("*", "1.2.3.4"));
    assert_true(networks_have("::1,unix", NULL) && networks_have("*", NULL));
    assert_false(networks_have("::/0,0.0.0.0/0", NULL));
}

static void objectives(void **state)
{
    const char *list = "premium=high, batch-1=low ,live=critical,std=normal";
    char word[16];
    (void)state;

    assert_true(objectives_are_valid("") && objectives_are_valid(list));
    assert_false(objectives_are_valid("premium") || objectives_are_valid("premium=urgent") ||
                 objectives_are_valid("=low") || objectives_are_valid("a=low,") ||
                 objectives_are_valid("a b=low") || objectives_are_valid("a=low b=high") ||
                 objectives_are_valid("a=low,,b=low") || objectives_are_valid("a=lowest"));
    assert_true(objectives_find(list, "batch-1", word, sizeof(word)));
    assert_string_equal(word, "low");
    assert_true(objectives_find(list, "std", word, sizeof(word)));
    assert_string_equal(word, "normal");
    assert_false(objectives_find(list, "batch", word, sizeof(word)) ||
                 objectives_find(list, "", word, sizeof(word)) ||
                 objectives_find("", "std", word, sizeof(word)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_list_is),
        cmocka_unit_test(who_is_in_it),
        cmocka_unit_test(objectives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
