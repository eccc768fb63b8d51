/* tests/unit/server/test_batch_store.c - files and batches: owners, pages, what is needed, what
 * goes, how a batch ends, folders that are not to be used, and what a damaged database leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "server/batches/batch_store.h"
#include "tests/fixtures/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

static char folder[64], err[400];
static struct api_error e;
static struct buf out;

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/quire-batches-XXXXXX");
    buf_init(&out, 1 << 20);
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    DIR *dir = opendir(folder);
    const struct dirent *it;

    (void)state;
    buf_release(&out);
    while (dir != NULL && (it = readdir(dir)) != NULL)
        if (it->d_name[0] != '.')
            unlinkat(dirfd(dir), it->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    return rmdir(folder);
}

static struct batch_store *open_store(uint64_t max_bytes)
{
    const struct batch_store_options o = {folder, max_bytes, 30};
    struct batch_store *s;

    if (batch_store_open(&s, &o, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    return s;
}

static int put(struct batch_store *s, const char *owner, const char *bytes, char id[BATCH_STORE_ID])
{
    const struct batch_upload u = {"in.jsonl", "batch", strlen(bytes), 0};
    struct batch_name name = {owner, id};
    int fd, rc;

    e = (struct api_error){0};
    buf_clear(&out);
    assert_int_equal(batch_store_begin_file(s, id, &fd, &e), 0);
    assert_int_equal(write(fd, bytes, strlen(bytes)), (int)strlen(bytes));
    rc = batch_store_end_file(s, &name, fd, &u, &out, &e);
    close(fd);
    if (rc < 0)
        batch_store_drop_file(s, id);
    return rc;
}

static int create(struct batch_store *s, const char *owner, const char *input,
                  char id[BATCH_STORE_ID])
{
    const struct batch_start start = {.key = "",
                                      .endpoint = "/v1/completions",
                                      .input = input,
                                      .window = "24h",
                                      .metadata = "{\"k\":\"v\"}",
                                      .window_s = 86400};

    e = (struct api_error){0};
    buf_clear(&out);
    return batch_store_create(s, owner, &start, id, &out, &e);
}

static bool has(const char *text)
{
    return out.data != NULL && strstr(out.data, text) != NULL;
}

static void get(struct batch_store *s, const char *owner, const char *id)
{
    const struct batch_name name = {owner, id};

    buf_clear(&out);
    assert_int_equal(batch_store_get(s, &name, &out, &e), 0);
}

static void test_files(void **state)
{
    struct batch_store *s = open_store(1000);
    char a[BATCH_STORE_ID], b[BATCH_STORE_ID], c[BATCH_STORE_ID];
    struct batch_page page = {.limit = 1};
    char text[10] = "";
    int fd;

    (void)state;
    assert_int_equal(put(s, "alice", "one", a), 0);
    assert_true(has("\"bytes\":3") && has("\"purpose\":\"batch\"") &&
                has("\"status\":\"processed\""));
    assert_int_equal(put(s, "alice", "three", b), 0);
    assert_int_equal(put(s, "bob", "two", c), 0);
    assert_int_equal(batch_store_counts(s).n_files, 3);
    assert_int_equal(batch_store_counts(s).bytes, 11);
    const struct batch_name mine = {"alice", a}, others = {"bob", a};

    buf_clear(&out);
    assert_int_equal(batch_store_get_file(s, &others, &out, &e), ERR_NOENT);
    assert_int_equal(e.status, 404);
    assert_int_equal(batch_store_open_file(s, &others, &fd, &e), ERR_NOENT);
    assert_int_equal(batch_store_delete_file(s, &others, &out, &e), ERR_NOENT);
    assert_int_equal(batch_store_list_files(s, "alice", &page, &out, &e), 0);
    assert_true(has(b) && !has(a) && has("\"has_more\":true"));
    page.after = b;
    buf_clear(&out);
    assert_int_equal(batch_store_list_files(s, "alice", &page, &out, &e), 0);
    assert_true(has(a) && has("\"has_more\":false"));
    page.after = c; /* another's is no place */
    assert_int_equal(batch_store_list_files(s, "alice", &page, &out, &e), ERR_NOENT);
    assert_int_equal(e.status, 400);
    page = (struct batch_page){.limit = 9, .purpose = "batch_output"};
    buf_clear(&out);
    assert_int_equal(batch_store_list_files(s, "alice", &page, &out, &e), 0);
    assert_true(has("\"data\":[]") && has("\"first_id\":null"));
    assert_int_equal(batch_store_open_file(s, &mine, &fd, &e), 0);
    buf_clear(&out);
    assert_int_equal(batch_store_delete_file(s, &mine, &out, &e), 0);
    assert_int_equal(read(fd, text, sizeof(text)), 3); /* it is read to its end */
    assert_string_equal(text, "one");
    close(fd);
    assert_int_equal(batch_store_get_file(s, &mine, &out, &e), ERR_NOENT);
    batch_store_close(&s);
}

static void test_room(void **state)
{
    struct batch_store *s = open_store(10);
    char a[BATCH_STORE_ID], b[BATCH_STORE_ID], path[200];

    (void)state;
    assert_int_equal(put(s, "", "12345678", a), 0);
    assert_int_equal(put(s, "", "123", b), ERR_LIMIT);
    assert_int_equal(e.status, 413);
    snprintf(path, sizeof(path), "%s/%s.part", folder, b);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(put(s, "", "12", b), 0);
    batch_store_close(&s);
}

/* Uploads that are under way count together, and so do the answers of a batch that runs. */
static void test_room_of_what_is_written(void **state)
{
    struct batch_store *s = open_store(100);
    char input[BATCH_STORE_ID], id[BATCH_STORE_ID];
    struct batch_progress p = {{1, 0}, {30, 20}, {0}};

    (void)state;
    assert_int_equal(put(s, "", "0123456789", input), 0);
    assert_int_equal(batch_store_take_room(s, 60, &e), 0);
    assert_int_equal(batch_store_counts(s).bytes, 70);
    assert_int_equal(batch_store_take_room(s, 31, &e), ERR_LIMIT);
    assert_int_equal(e.status, 413);
    batch_store_give_room(s, 60);
    assert_int_equal(create(s, "", input, id), 0);
    assert_int_equal(batch_store_set_lines(s, id, 2, &e), 0);
    assert_int_equal(batch_store_set_progress(s, id, &p, &e), 0);
    assert_int_equal(batch_store_counts(s).bytes, 60);
    assert_int_equal(batch_store_check_room(s, 41, &e), ERR_LIMIT);
    assert_int_equal(batch_store_check_room(s, 40, &e), 0);
    assert_int_equal(batch_store_end(s, id, BATCH_COMPLETED, &p, NULL, &e), 0);
    assert_int_equal(batch_store_counts(s).bytes, 60); /* they are rows now */
    batch_store_close(&s);
}

static void test_no_more_batches_than_may_be(void **state)
{
    struct batch_store *s = open_store(1000);
    char a[BATCH_STORE_ID], b[BATCH_STORE_ID], none[BATCH_STORE_ID], id[BATCH_STORE_ID];
    uint32_t n = 0;

    (void)state;
    assert_int_equal(put(s, "alice", "x", a), 0);
    assert_int_equal(put(s, "bob", "x", b), 0);
    assert_int_equal(put(s, "", "x", none), 0);
    for (; n < BATCH_STORE_MAX_OPEN_OF_OWNER; n++)
        assert_int_equal(create(s, "alice", a, id), 0);
    assert_int_equal(create(s, "alice", a, id), ERR_LIMIT);
    assert_int_equal(e.status, 429);
    assert_non_null(strstr(e.message, "250 batches of yours"));
    assert_int_equal(create(s, "bob", b, id), 0);
    for (n++; n < BATCH_STORE_MAX_OPEN; n++)
        assert_int_equal(create(s, "", none, id), 0);
    assert_int_equal(create(s, "bob", b, id), ERR_LIMIT);
    assert_string_equal(e.code, "too_many_batches");
    batch_store_close(&s);
}

static void test_life(void **state)
{
    static const char usage_of_p[] =
        "\"usage\":{\"input_tokens\":70,\"input_tokens_details\":{\"cached_tokens\":32},"
        "\"output_tokens\":9,\"output_tokens_details\":{\"reasoning_tokens\":4},"
        "\"total_tokens\":79}";
    struct batch_store *s = open_store(1000);
    char input[BATCH_STORE_ID], id[BATCH_STORE_ID], other[BATCH_STORE_ID];
    const struct batch_progress p = {{2, 1}, {20, 10}, {70, 32, 9, 4}};
    struct batch_record r;
    int64_t n = -1;

    (void)state;
    assert_int_equal(put(s, "alice", "x", input), 0);
    assert_int_equal(create(s, "bob", input, id), ERR_NOENT);
    assert_string_equal(e.param, "input_file_id");
    assert_int_equal(create(s, "alice", input, id), 0);
    assert_true(has("\"status\":\"validating\"") && has("\"metadata\":{\"k\":\"v\"}") &&
                has("\"usage\":null"));
    const struct batch_name file = {"alice", input}, bobs = {"bob", id};

    assert_int_equal(batch_store_get(s, &bobs, &out, &e), ERR_NOENT);
    assert_int_equal(batch_store_delete_file(s, &file, &out, &e), ERR_BUSY);
    assert_int_equal(e.status, 409);
    assert_int_equal(batch_store_set_lines(s, id, 3, &e), 0);
    assert_int_equal(batch_store_set_progress(s, id, &p, &e), 0);
    batch_store_close(&s);
    s = open_store(1000); /* as after a kill */
    assert_int_equal(batch_store_find_open(s, NULL, &n, &r, &e), 1);
    assert_string_equal(r.id, id);
    assert_string_equal(r.owner, "alice");
    assert_int_equal(r.n_lines, 3);
    assert_int_equal(r.ends[BATCH_OUTPUT], 20);
    assert_int_equal(r.ends[BATCH_ERRORS], 10);
    assert_int_equal(r.ending, BATCH_ENDS_NOT);
    assert_int_equal(batch_store_find_open(s, NULL, &n, &r, &e), 0);
    get(s, "alice", id);
    assert_true(has("\"status\":\"in_progress\"") && has("\"completed\":2,\"failed\":1") &&
                has("\"output_file_id\":null") && has(usage_of_p));
    assert_int_equal(batch_store_set_ending(s, id, BATCH_COMPLETED, &e), 0);
    get(s, "alice", id);
    assert_true(has("\"status\":\"finalizing\""));
    assert_int_equal(batch_store_end(s, id, BATCH_COMPLETED, &p, NULL, &e), 0);
    get(s, "alice", id);
    assert_true(has("\"status\":\"completed\"") && has("\"output_file_id\":\"file-") &&
                has("\"error_file_id\":\"file-") && has(usage_of_p));
    assert_int_equal(batch_store_counts(s).n_files, 3);
    assert_int_equal(batch_store_counts(s).bytes, 31);
    assert_int_equal(batch_store_delete_file(s, &file, &out, &e), 0);
    assert_int_equal(put(s, "alice", "x", input), 0);
    assert_int_equal(create(s, "alice", input, other), 0);
    batch_store_close(&s);
}

static void test_ends(void **state)
{
    struct batch_store *s = open_store(1000);
    char input[BATCH_STORE_ID], a[BATCH_STORE_ID], b[BATCH_STORE_ID];
    const struct batch_progress none = {{0}, {0}, {0}};
    struct batch_page page = {.limit = 1};
    struct buf errors;

    (void)state;
    assert_int_equal(put(s, "", "x", input), 0);
    assert_int_equal(create(s, "", input, a), 0);
    assert_int_equal(create(s, "", input, b), 0);
    const struct batch_name first = {"", a};

    buf_init(&errors, 1000);
    buf_add_str(&errors, "{\"code\":\"x\"}");
    assert_int_equal(batch_store_end(s, b, BATCH_FAILED, &none, &errors, &e), 0);
    get(s, "", b);
    assert_true(has("\"errors\":{\"object\":\"list\",\"data\":[{\"code\":\"x\"}]}") &&
                has("\"status\":\"failed\"") && has("\"error_file_id\":null"));
    buf_clear(&out);
    assert_int_equal(batch_store_cancel(s, &first, &out, &e), 0);
    assert_true(has("\"status\":\"cancelling\""));
    buf_clear(&out);
    assert_int_equal(batch_store_cancel(s, &first, &out, &e), 0); /* as before */
    assert_int_equal(batch_store_set_ending(s, a, BATCH_CANCELLED, &e), 0);
    get(s, "", a);
    assert_true(has("\"status\":\"cancelling\""));
    assert_int_equal(batch_store_end(s, a, BATCH_CANCELLED, &none, NULL, &e), 0);
    buf_clear(&out);
    assert_int_equal(batch_store_cancel(s, &first, &out, &e), ERR_BUSY);
    assert_int_equal(e.status, 409);
    buf_clear(&out);
    assert_int_equal(batch_store_list(s, "", &page, &out, &e), 0);
    assert_true(has(b) && has("\"has_more\":true"));
    buf_release(&errors);
    batch_store_close(&s);
}

static void test_not_to_be_used(void **state)
{
    struct batch_store_options o = {"/nowhere/at/all", 1000, 30};
    struct batch_store *s, *first = open_store(1000);
    char path[100];
    FILE *f;

    (void)state;
    assert_int_equal(batch_store_open(&s, &o, err, sizeof(err)), ERR_IO);
    assert_non_null(strstr(err, "/nowhere"));
    batch_store_close(&first);
    snprintf(path, sizeof(path), "%s/batches.db", folder);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs("this is no database, but a text that is long enough to be looked at as one", f);
    fclose(f);
    o.folder = folder;
    assert_int_equal(batch_store_open(&s, &o, err, sizeof(err)), ERR_FORMAT);
    assert_null(s);
}

/* The names in the rows of files are others. */
static void hurt_files(void)
{
    char path[100], *bytes;
    size_t n, n_hurt = 0;

    snprintf(path, sizeof(path), "%s/batches.db", folder);
    bytes = read_whole(path, &n);
    for (char *at = bytes; (at = memmem(at, n - (size_t)(at - bytes), "in.jsonl", 8)) != NULL;
         at++, n_hurt++)
        at[1] ^= 1;
    assert_int_equal(n_hurt, 2);
    write_bytes(path, bytes, n);
    free(bytes);
}

/* A file that a batch names is one again; another one stays in the folder, and is counted. */
static void test_files_whose_rows_are_lost(void **state)
{
    struct batch_store *s = open_store(1000);
    char a[BATCH_STORE_ID], b[BATCH_STORE_ID], batch[BATCH_STORE_ID];
    const struct batch_name known = {"o", a}, unknown = {"o", b};
    char path[160];
    int fd;

    (void)state;
    assert_int_equal(put(s, "o", "{}", a), 0);
    assert_int_equal(put(s, "o", "{}{}", b), 0);
    assert_int_equal(create(s, "o", a, batch), 0);
    batch_store_close(&s);
    hurt_files();
    s = open_store(1000);
    assert_int_equal(batch_store_counts(s).n_lost, 1);
    assert_int_equal(batch_store_counts(s).n_files, 1);
    get(s, "o", batch);
    buf_clear(&out);
    assert_int_equal(batch_store_get_file(s, &known, &out, &e), 0);
    assert_true(has("\"bytes\":2") && has("\"purpose\":\"batch\""));
    assert_int_equal(batch_store_open_file(s, &known, &fd, &e), 0);
    close(fd);
    assert_int_equal(batch_store_get_file(s, &unknown, &out, &e), ERR_NOENT);
    batch_store_close(&s);
    snprintf(path, sizeof(path), "%s/%s", folder, b);
    assert_int_equal(unlink(path), 0);
    s = open_store(1000);
    assert_int_equal(batch_store_counts(s).n_lost, 0);
    batch_store_close(&s);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_files),
                                       T(test_room),
                                       T(test_life),
                                       T(test_ends),
                                       T(test_room_of_what_is_written),
                                       T(test_no_more_batches_than_may_be),
                                       T(test_not_to_be_used),
                                       T(test_files_whose_rows_are_lost)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
