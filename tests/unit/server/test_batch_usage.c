/* tests/unit/server/test_batch_usage.c - what a batch's answers took: of every API's usage, and of
 * lines that have none, or are not whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/batches/batch_usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE(id, body)                                                                             \
    "{\"id\":\"batch_req_" id "\",\"custom_id\":\"" id "\",\"response\":{\"status_code\":200,"     \
    "\"request_id\":\"r\",\"body\":" body "},\"error\":null}\n"
#define CHAT(id, n_in, n_cached, n_out, n_reasoning)                                               \
    LINE(id, "{\"object\":\"chat.completion\",\"choices\":[{\"message\":{\"content\":\"usage\"}}],"\
             "\"usage\":{\"prompt_tokens\":" n_in ",\"completion_tokens\":" n_out                  \
             ",\"total_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":" n_cached          \
             "},\"completion_tokens_details\":{\"reasoning_tokens\":" n_reasoning "}}}")

/* The bytes end where the answers do: what reads on is found by the sanitizer. */
static void expect(const char *answers, struct batch_usage want)
{
    const size_t n = strlen(answers);
    char *bytes = malloc(n + (n == 0));
    struct batch_usage is = {0};

    assert_non_null(bytes);
    memcpy(bytes, answers, n);
    batch_usage_add(&is, bytes, n);
    free(bytes);
    if (is.n_input != want.n_input || is.n_cached != want.n_cached ||
        is.n_output != want.n_output || is.n_reasoning != want.n_reasoning)
        fail_msg("%s: %u (%u cached), %u (%u reasoning)", answers, (unsigned)is.n_input,
                 (unsigned)is.n_cached, (unsigned)is.n_output, (unsigned)is.n_reasoning);
}

static void of_every_api(void **state)
{
    (void)state;
    expect(CHAT("a", "12", "4", "7", "3"), (struct batch_usage){12, 4, 7, 3});
    expect(LINE("b", "{\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}"),
           (struct batch_usage){5, 0, 2, 0});
    expect(LINE("c", "{\"usage\":{\"prompt_tokens\":6,\"total_tokens\":6},\"data\":[]}"),
           (struct batch_usage){6, 0, 0, 0});
    expect(LINE("d", "{\"object\":\"response\",\"usage\":{\"input_tokens\":20,\"output_tokens\":9,"
                     "\"input_tokens_details\":{\"cached_tokens\":16},\"output_tokens_details\":{"
                     "\"reasoning_tokens\":1}}}"),
           (struct batch_usage){20, 16, 9, 1});
}

static void lines_are_added(void **state)
{
    static const char three[] = CHAT("a", "12", "4", "7", "3") CHAT("b", "1", "1", "2", "0")
        CHAT("c", "100", "0", "50", "50");

    (void)state;
    expect(three, (struct batch_usage){113, 5, 59, 53});
    expect("", (struct batch_usage){0});
    expect("\n\n" CHAT("a", "1", "0", "1", "0") "\n", (struct batch_usage){1, 0, 1, 0});
}

/* A line that is not whole says all of its usage, or nothing of it. */
static void half_a_line(void **state)
{
    static const char two[] = CHAT("a", "12", "4", "7", "3") CHAT("b", "1", "1", "2", "1");
    static const char last[] = "\"reasoning_tokens\":1}}";
    const char *whole = strstr(two, last) + strlen(last);

    (void)state;
    for (const char *end = strchr(two, '\n') + 1; *end != '\0'; end++) {
        char cut[sizeof(two)];

        snprintf(cut, sizeof(cut), "%.*s", (int)(end - two), two);
        expect(cut, end < whole ? (struct batch_usage){12, 4, 7, 3}
                                : (struct batch_usage){13, 5, 9, 4});
    }
}

static void without_usage(void **state)
{
    (void)state;
    expect("{\"id\":\"r\",\"custom_id\":\"a\",\"response\":null,\"error\":{\"code\":\"x\"}}\n",
           (struct batch_usage){0});
    expect(LINE("a", "{\"error\":{\"message\":\"usage\"}}"), (struct batch_usage){0});
    expect(LINE("a", "{\"usage\":null}") LINE("b", "{\"usage\":[1]}") LINE("c", "{\"usage\":7}"),
           (struct batch_usage){0});
    expect(LINE("a", "[]") LINE("b", "\"usage\"") "usage\n{}\n[\n", (struct batch_usage){0});
}

/* What is no number of tokens is none. */
static void numbers(void **state)
{
    (void)state;
    expect(CHAT("a", "-1", "1e300", "\"7\"", "null"), (struct batch_usage){0});
    expect(CHAT("a", "4294967295", "4294967296", "true", "0.5"),
           (struct batch_usage){UINT32_MAX, 0, 0, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_every_api), cmocka_unit_test(lines_are_added),
        cmocka_unit_test(half_a_line),  cmocka_unit_test(without_usage),
        cmocka_unit_test(numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
