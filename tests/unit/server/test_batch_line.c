/* tests/unit/server/test_batch_line.c - lines of batches and their answers; checking a file of
 * them; files of answers that were cut anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "server/batches/batch_check.h"
#include "server/batches/batch_files.h"
#include "server/batches/batch_line.h"

#include <unistd.h>

#define CHAT "/v1/chat/completions"
#define SEED UINT64_C(0x0123456789abcdef)

/* ---- lines ---- */

static int parse(struct batch_line *line, const char *text, struct batch_line_error *e)
{
    return batch_line_parse(line, text, strlen(text), CHAT, 7, SEED, e);
}

static void expect_body(const char *body, const char *begins, const char *ends)
{
    struct batch_line_error e;
    struct batch_line line;
    char text[400];

    snprintf(text, sizeof(text),
             "{\"custom_id\" : \"a\\u0062\", \"method\":\"POST\",\"url\":\"" CHAT "\",\"body\":%s}",
             body);
    assert_int_equal(parse(&line, text, &e), 0);
    assert_string_equal(line.custom_id.data, "\"a\\u0062\"");
    assert_int_equal(strncmp(line.body.data, begins, strlen(begins)), 0);
    assert_string_equal(line.body.data + line.body.len - strlen(ends), ends);
    batch_line_release(&line);
}

/* The body is as it was written, and a seed is added where there is none. */
static void test_seeds(void **state)
{
    static const char embed[] = "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":"
                                "\"/v1/embeddings\",\"body\":{\"input\":\"x\"}}";
    struct batch_line_error e;
    struct batch_line line;

    (void)state;
    expect_body("{\"x\": 1.50, \"seed\":18446744073709551615}",
                "{\"x\": 1.50, \"seed\":18446744073709551615}", "}");
    expect_body("{ \"x\":1 \t}", "{ \"x\":1,\"seed\":", "}");
    expect_body("{}", "{\"seed\":", "}");
    expect_body("{\"seed\":null}", "{\"seed\":null,\"seed\":", "}");
    assert_int_equal(batch_line_parse(&line, embed, sizeof(embed) - 1, NULL, 7, SEED, &e), 0);
    assert_string_equal(line.body.data, "{\"input\":\"x\"}");
    batch_line_release(&line);
}

/* The same line of the same batch has the same seed; another line another one. */
static void test_seeds_follow(void **state)
{
    static const char text[] =
        "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"" CHAT "\",\"body\":{}}";
    struct batch_line a, b, other_line, other_batch;
    struct batch_line_error e;

    (void)state;
    batch_line_parse(&a, text, sizeof(text) - 1, CHAT, 1, SEED, &e);
    batch_line_parse(&b, text, sizeof(text) - 1, CHAT, 1, SEED, &e);
    batch_line_parse(&other_line, text, sizeof(text) - 1, CHAT, 2, SEED, &e);
    batch_line_parse(&other_batch, text, sizeof(text) - 1, CHAT, 1, SEED + 1, &e);
    assert_string_equal(a.body.data, b.body.data);
    assert_string_not_equal(a.body.data, other_line.body.data);
    assert_string_not_equal(a.body.data, other_batch.body.data);
    batch_line_release(&a);
    batch_line_release(&b);
    batch_line_release(&other_line);
    batch_line_release(&other_batch);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *code;
    } bad[] = {
        {"{", "invalid_json_line"},
        {"[]", "invalid_json_line"},
        {"{}", "missing_required_parameter"},
        {"{\"custom_id\":1}", "invalid_value"},
        {"{\"custom_id\":\"\"}", "invalid_value"},
        {"{\"custom_id\":null}", "missing_required_parameter"},
        {"{\"custom_id\":\"a\"}", "missing_required_parameter"},
        {"{\"custom_id\":\"a\",\"method\":\"GET\"}", "invalid_method"},
        {"{\"custom_id\":\"a\",\"method\":\"POST\"}", "missing_required_parameter"},
        {"{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\"}",
         "mismatched_endpoint"},
        {"{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"" CHAT "\"}",
         "missing_required_parameter"},
        {"{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"" CHAT "\",\"body\":[]}",
         "invalid_type"},
        {"{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"" CHAT "\",\"body\":"
         "{\"stream\":true}}",
         "invalid_value"},
        {"{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"" CHAT "\",\"body\":"
         "{\"background\":true}}",
         "invalid_value"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct batch_line_error e = {0};
        struct batch_line line;

        assert_int_equal(parse(&line, bad[i].text, &e), ERR_INVAL);
        assert_string_equal(e.code, bad[i].code);
        assert_true(e.message[0] != '\0');
        batch_line_release(&line);
    }
}

/* Without an endpoint, the body of a call for decisions is a line, also if it lacks something. */
static void test_bare_bodies(void **state)
{
    static const struct {
        const char *text, *url, *id;
    } lines[] = {
        {"{\"input\":\"x\",\"questions\":[]}", "/v1/decisions", "\"line-1\""},
        {"{\"custom_id\":\"a\",\"state\":\"x\"}", "/v1/systemone", "\"a\""},
        {"{\"input\":\"x\"}", "/v1/decisions", "\"line-1\""},
    };
    static const char bad[] = "{\"custom_id\":5,\"questions\":[]}";
    struct batch_line_error e = {0};
    struct batch_line line;

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const char *text = lines[i].text;

        assert_int_equal(batch_line_parse(&line, text, strlen(text), NULL, 0, 1, &e), 0);
        assert_string_equal(line.url, lines[i].url);
        assert_string_equal(line.custom_id.data, lines[i].id);
        assert_string_equal(line.body.data, text);
        batch_line_release(&line);
    }
    assert_int_equal(batch_line_parse(&line, bad, sizeof(bad) - 1, NULL, 0, 1, &e), ERR_INVAL);
    assert_string_equal(e.param, "custom_id");
    batch_line_release(&line);
}

static void test_answers(void **state)
{
    struct batch_line line = {.index = 300};
    struct buf out, body;
    uint32_t index;

    (void)state;
    buf_init(&line.custom_id, 100);
    buf_init(&body, 100);
    buf_init(&out, 1000);
    buf_add_str(&line.custom_id, "\"x\"");
    buf_add_str(&body, "{\"a\":\n1}");
    batch_line_answer(&line, SEED, 200, &body, &out);
    assert_string_equal(out.data,
                        "{\"id\":\"batch_req_0123456789abcdef0000012c\",\"custom_id\":\"x\","
                        "\"response\":{\"status_code\":200,\"request_id\":"
                        "\"batch_req_0123456789abcdef0000012c\",\"body\":{\"a\": 1}},"
                        "\"error\":null}\n");
    assert_true(batch_line_is_answer(out.data, out.len - 1, SEED, &index));
    assert_int_equal(index, 300);
    assert_false(batch_line_is_answer(out.data, out.len - 1, SEED + 1, &index));
    for (size_t n = 0; n < out.len - 3; n++)
        if (out.data[n - (n > 0)] != '}')
            assert_false(batch_line_is_answer(out.data, n, SEED, &index));
    for (size_t n = 0; n < out.len; n++)
        assert_true(batch_line_begins_answer(out.data, n, SEED));
    assert_false(batch_line_begins_answer(out.data, 34, SEED + 1));
    assert_false(batch_line_begins_answer("[", 1, SEED));
    buf_clear(&out);
    batch_line_no_answer(&line, SEED, "batch_expired", "too late", &out);
    assert_string_equal(out.data, "{\"id\":\"batch_req_0123456789abcdef0000012c\",\"custom_id\":"
                                  "\"x\",\"response\":null,\"error\":{\"code\":\"batch_expired\","
                                  "\"message\":\"too late\"}}\n");
    batch_line_release(&line);
    buf_release(&body);
    buf_release(&out);
}

/* ---- files ---- */

static FILE *make_input(unsigned n, char path[64])
{
    FILE *f;

    snprintf(path, 64, "/tmp/quire-batch-in-%d", (int)getpid());
    f = fopen(path, "w+");
    assert_non_null(f);
    for (unsigned i = 0; i < n; i++)
        fprintf(f,
                "%s{\"custom_id\":\"%u\",\"method\":\"POST\",\"url\":\"" CHAT "\",\"body\":{}}\r\n",
                i % 3 == 0 ? " \n" : "", i);
    fflush(f);
    return f;
}

static int check_all(struct batch_check *c, FILE *f, uint32_t max_lines, size_t max_line)
{
    const struct batch_check_options o = {CHAT, max_lines, max_line};
    int rc;

    batch_check_init(c, fileno(f), &o);
    while ((rc = batch_check_step(c)) > 0)
        ;
    return rc;
}

static void test_check(void **state)
{
    struct batch_check c;
    char path[64];
    FILE *f = make_input(20000, path); /* more than a step's bytes */

    (void)state;
    assert_int_equal(check_all(&c, f, 20000, 1000), 0);
    assert_int_equal(c.n_lines, 20000);
    assert_int_equal(c.n_errors, 0);
    batch_check_release(&c);
    assert_int_equal(check_all(&c, f, 19999, 1000), 0);
    assert_int_equal(c.n_errors, 1);
    assert_non_null(strstr(c.errors.data, "too_many_tasks"));
    batch_check_release(&c);
    assert_int_equal(check_all(&c, f, 20000, 20), 0);
    assert_non_null(strstr(c.errors.data, "line_too_long"));
    batch_check_release(&c);
    fputs("{\"custom_id\":\"77\",\"method\":\"POST\",\"url\":\"" CHAT "\",\"body\":{}}\n{\n", f);
    fflush(f);
    assert_int_equal(check_all(&c, f, 30000, 1000), 0);
    assert_int_equal(c.n_errors, 2);
    assert_non_null(strstr(c.errors.data, "{\"code\":\"duplicate_custom_id\",\"line\":26668,"));
    assert_non_null(strstr(c.errors.data, "{\"code\":\"invalid_json_line\",\"line\":26669,"));
    batch_check_release(&c);
    fclose(f);
    f = fopen(path, "w+");
    assert_non_null(f);
    assert_int_equal(check_all(&c, f, 10, 1000), 0);
    assert_non_null(strstr(c.errors.data, "empty_file"));
    batch_check_release(&c);
    fclose(f);
    unlink(path);
}

struct files {
    char in[64], out[64], errors[64];
    struct batch_files_options o;
};

/* Find all lines that have answers; returns the number of calls. */
static unsigned find_all(struct batch_files *f)
{
    char err[300];
    unsigned n = 1;
    int rc;

    for (; (rc = batch_files_find_done(f, err, sizeof(err))) > 0; n++)
        ;
    if (rc < 0)
        fail_msg("%s", err);
    return n;
}

static struct batch_files *open_files(const struct files *x)
{
    struct batch_files *f;
    char err[300];

    if (batch_files_open(&f, &x->o, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    find_all(f);
    return f;
}

/* Answer what has no answer: every fifth line is an error. */
static unsigned answer_all(struct batch_files *f, unsigned n_most)
{
    struct buf pieces[BATCH_N_KINDS], body;
    uint32_t n[BATCH_N_KINDS];
    struct batch_line line;
    char err[300];
    unsigned n_new = 0;

    buf_init(&body, 100);
    buf_add_str(&body, "{}");
    while (n_new < n_most && batch_files_read(f, &line, err, sizeof(err)) == 1) {
        const enum batch_kind kind = line.index % 5 == 4 ? BATCH_ERRORS : BATCH_OUTPUT;

        for (int k = 0; k < BATCH_N_KINDS; k++) {
            buf_init(&pieces[k], 1000);
            n[k] = 0;
        }
        batch_line_answer(&line, SEED, kind == BATCH_OUTPUT ? 200 : 400, &body, &pieces[kind]);
        n[kind] = 1;
        assert_int_equal(batch_files_append(f, pieces, n, err, sizeof(err)), 0);
        for (int k = 0; k < BATCH_N_KINDS; k++)
            buf_release(&pieces[k]);
        batch_line_release(&line);
        n_new++;
    }
    buf_release(&body);
    return n_new;
}

/* However the files were cut, what is whole stays and all else is answered again. */
static void test_files(void **state)
{
    struct files x;
    struct batch_files *f;
    struct batch_progress p, whole;

    (void)state;
    fclose(make_input(23, x.in));
    snprintf(x.out, sizeof(x.out), "/tmp/quire-batch-out-%d", (int)getpid());
    snprintf(x.errors, sizeof(x.errors), "/tmp/quire-batch-err-%d", (int)getpid());
    unlink(x.out);
    unlink(x.errors);
    x.o = (struct batch_files_options){.input = x.in,
                                       .answers = {x.out, x.errors},
                                       .ends = {UINT64_MAX, UINT64_MAX},
                                       .endpoint = CHAT,
                                       .seed = SEED,
                                       .n_lines = 23,
                                       .max_line = 1000};
    f = open_files(&x);
    assert_int_equal(answer_all(f, 100), 23);
    whole = batch_files_progress(f);
    assert_int_equal(whole.n_done[BATCH_OUTPUT], 19);
    assert_int_equal(whole.n_done[BATCH_ERRORS], 4);
    batch_files_close(&f);
    for (uint64_t cut = 0; cut < whole.ends[BATCH_OUTPUT]; cut += 17) {
        assert_int_equal(truncate(x.out, (off_t)cut), 0);
        f = open_files(&x);
        p = batch_files_progress(f);
        assert_true(p.ends[BATCH_OUTPUT] <= cut && cut - p.ends[BATCH_OUTPUT] < 200);
        assert_int_equal(answer_all(f, 100), 23 - 4 - p.n_done[BATCH_OUTPUT]);
        batch_files_close(&f);
        f = open_files(&x);
        p = batch_files_progress(f);
        assert_memory_equal(&p, &whole, sizeof(p));
        assert_int_equal(answer_all(f, 100), 0);
        batch_files_close(&f);
    }
    x.o.ends[BATCH_ERRORS] = whole.ends[BATCH_ERRORS] - 1; /* the database knows of less */
    f = open_files(&x);
    assert_int_equal(batch_files_progress(f).n_done[BATCH_ERRORS], 3);
    assert_int_equal(answer_all(f, 100), 1);
    batch_files_close(&f);
    unlink(x.in);
    unlink(x.out);
    unlink(x.errors);
}

/* An answer twice, or of another batch, is none: it and all behind it is cut off. */
static void test_foreign_answers(void **state)
{
    struct files x;
    struct batch_files *f;
    FILE *out;
    char line[300];

    (void)state;
    fclose(make_input(10, x.in));
    snprintf(x.out, sizeof(x.out), "/tmp/quire-batch-out-%d", (int)getpid());
    unlink(x.out);
    x.o = (struct batch_files_options){.input = x.in,
                                       .answers = {x.out, NULL},
                                       .ends = {UINT64_MAX, UINT64_MAX},
                                       .seed = SEED,
                                       .n_lines = 10,
                                       .max_line = 1000};
    f = open_files(&x);
    assert_int_equal(answer_all(f, 6), 6);
    batch_files_close(&f);
    out = fopen(x.out, "r+");
    assert_non_null(out);
    assert_non_null(fgets(line, sizeof(line), out));
    fseek(out, 0, SEEK_END);
    fputs(line, out);
    fclose(out);
    f = open_files(&x);
    assert_int_equal(batch_files_progress(f).n_done[BATCH_OUTPUT], 6);
    assert_int_equal(answer_all(f, 100), 4);
    batch_files_close(&f);
    x.o.seed++;
    f = open_files(&x);
    assert_int_equal(batch_files_progress(f).ends[BATCH_OUTPUT], 0);
    batch_files_close(&f);
    unlink(x.in);
    unlink(x.out);
}

/* No call reads much more than BATCH_FILES_AT_ONCE bytes of answers, or of lines that have one. */
static void test_large_files(void **state)
{
    enum { N = 80000 };
    struct files x = {.o = {.endpoint = CHAT, .seed = SEED, .n_lines = N, .max_line = 1000}};
    uint32_t n[BATCH_N_KINDS] = {N};
    struct buf pieces[BATCH_N_KINDS], body;
    struct batch_files *f;
    struct batch_line line;
    char err[300];
    int n_again = 0, rc;

    (void)state;
    fclose(make_input(N, x.in));
    snprintf(x.out, sizeof(x.out), "/tmp/quire-batch-out-%d", (int)getpid());
    unlink(x.out);
    x.o.input = x.in;
    x.o.answers[BATCH_OUTPUT] = x.out;
    x.o.ends[BATCH_OUTPUT] = UINT64_MAX;
    f = open_files(&x);
    buf_init(&body, 100);
    buf_add_str(&body, "{}");
    for (int k = 0; k < BATCH_N_KINDS; k++)
        buf_init(&pieces[k], (size_t)64 << 20);
    while (batch_files_read(f, &line, err, sizeof(err)) == 1) {
        batch_line_answer(&line, SEED, 200, &body, &pieces[BATCH_OUTPUT]);
        batch_line_release(&line);
    }
    assert_int_equal(batch_files_append(f, pieces, n, err, sizeof(err)), 0);
    batch_files_close(&f);
    assert_int_equal(batch_files_open(&f, &x.o, err, sizeof(err)), 0);
    assert_int_equal(find_all(f), 1 + pieces[BATCH_OUTPUT].len / BATCH_FILES_AT_ONCE + 1);
    assert_int_equal(batch_files_progress(f).n_done[BATCH_OUTPUT], N);
    while ((rc = batch_files_read(f, &line, err, sizeof(err))) == ERR_AGAIN)
        n_again++;
    assert_int_equal(rc, 0);
    assert_int_equal(n_again, 1); /* the input has between 4 and 8 MiB */
    batch_files_close(&f);
    buf_release(&pieces[BATCH_OUTPUT]);
    buf_release(&body);
    unlink(x.in);
    unlink(x.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds),       cmocka_unit_test(test_seeds_follow),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_bare_bodies),
        cmocka_unit_test(test_answers),     cmocka_unit_test(test_check),
        cmocka_unit_test(test_files),       cmocka_unit_test(test_foreign_answers),
        cmocka_unit_test(test_large_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
