/* tests/unit/formats/test_gguf_parts.c - models in several files: sets of parts, headers in
 * memory. */
#include "core/formats/gguf/gguf.h"
#include "tests/fixtures/failing_memory.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/write.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define N_PARTS 3
#define N_EACH 2 /* tensors of a part */

static char folder[] = "/tmp/test_gguf_parts.XXXXXX";
static char err[512];

static const char *path_of(const char *name)
{
    static char path[4][256];
    static int i;

    i = (i + 1) % 4;
    snprintf(path[i], sizeof(path[i]), "%s/%s", folder, name);
    return path[i];
}

static const char *part_path(unsigned no)
{
    char name[64];

    snprintf(name, sizeof(name), "m-%05u-of-%05u.gguf", no + 1, N_PARTS);
    return path_of(name);
}

/* What a part says of itself; the usual, but for the one that a test changes. */
struct part {
    unsigned no, count, total;
    const char *prefix; /* of its tensors' names */
};

static void write_part(const char *path, struct part p)
{
    static const uint64_t dims[1] = {8};
    struct gguf_writer *w;
    float values[8];
    char name[32];

    assert_int_equal(gguf_writer_create(&w), 0);
    if (p.no == 0)
        gguf_writer_str(w, "general.name", "whole");
    if (p.count > 0) {
        gguf_writer_u16(w, "split.no", (uint16_t)p.no);
        gguf_writer_u16(w, "split.count", (uint16_t)p.count);
    }
    if (p.total > 0)
        gguf_writer_u32(w, "split.tensors.count", p.total);
    for (unsigned t = 0; t < N_EACH; t++) {
        for (int i = 0; i < 8; i++)
            values[i] = (float)(p.no * 100 + t * 10 + (unsigned)i);
        snprintf(name, sizeof(name), "%s%u.%u", p.prefix, p.no, t);
        gguf_writer_tensor(w, name, BLOCK_F32, 1, dims, values);
    }
    assert_int_equal(gguf_writer_save(w, path), 0);
    gguf_writer_destroy(&w);
}

static void write_set(void)
{
    for (unsigned i = 0; i < N_PARTS; i++)
        write_part(part_path(i), (struct part){i, N_PARTS, N_PARTS * N_EACH, "t"});
}

static void refused(const char *path, int code, const char *format, const char *file)
{
    struct gguf *g;
    char want[512];
    const int n = snprintf(want, sizeof(want), "%s: ", file);

    snprintf(want + n, sizeof(want) - (size_t)n, "%s", format);
    assert_int_equal(gguf_open(&g, path, err, sizeof(err)), code);
    assert_null(g);
    assert_string_equal(err, want);
}

static void test_set(void **arg)
{
    (void)arg;
    write_set();
    for (unsigned given = 0; given < N_PARTS; given++) {
        struct gguf *g;
        struct gguf_str name;
        uint64_t bytes = 0;

        assert_int_equal(gguf_open(&g, part_path(given), err, sizeof(err)), 0);
        assert_string_equal(gguf_name(g), part_path(0));
        assert_int_equal(gguf_get_str(g, "general.name", &name, err, sizeof(err)), 0);
        assert_int_equal(gguf_n_tensors(g), N_PARTS * N_EACH);
        assert_int_equal(gguf_n_files(g), N_PARTS);
        for (unsigned i = 0; i < N_PARTS; i++) {
            const struct gguf_file f = gguf_file_at(g, i);

            assert_string_equal(f.name, part_path(i));
            assert_int_equal(f.n_tensors, N_EACH);
            bytes += f.bytes;
        }
        assert_int_equal(gguf_file_bytes(g), bytes);
        for (unsigned no = 0; no < N_PARTS; no++) {
            char tensor[32];
            const struct gguf_tensor *t;

            snprintf(tensor, sizeof(tensor), "t%u.1", no);
            t = gguf_tensor_find(g, tensor);
            assert_non_null(t);
            assert_true(((const float *)t->data)[7] == (float)(no * 100 + 17));
            gguf_will_read(g, t, 0, 1);
            gguf_has_read(g, t, 0, 1);
            assert_true(((const float *)t->data)[0] == (float)(no * 100 + 10));
        }
        assert_int_equal(gguf_check_unchanged(g, err, sizeof(err)), 0);
        gguf_close(&g);
    }
}

static void test_refused(void **arg)
{
    const unsigned all = N_PARTS * N_EACH;
    char first[256];

    (void)arg;
    snprintf(first, sizeof(first), "%s", part_path(0));
    write_set();
    write_part(path_of("renamed.gguf"), (struct part){1, N_PARTS, all, "t"});
    refused(path_of("renamed.gguf"), ERR_FORMAT,
            "is part 2 of 3 of a split model, but its name does not end in -00002-of-00003.gguf, "
            "so that the others cannot be found",
            path_of("renamed.gguf"));
    write_part(part_path(2), (struct part){1, N_PARTS, all, "t"}); /* twice the same */
    refused(first, ERR_FORMAT, "should be part 3 of 3, but its header says that it is part 2",
            part_path(2));
    write_part(part_path(2), (struct part){2, 4, all, "t"});
    refused(first, ERR_FORMAT, "should be part 3 of 3, but its header says that there are 4 parts",
            part_path(2));
    write_part(part_path(2), (struct part){2, 0, 0, "t"});
    refused(first, ERR_FORMAT, "should be part 3 of 3, but is not a part of a split model",
            part_path(2));
    write_part(part_path(2), (struct part){3, 3, all, "t"});
    refused(first, ERR_FORMAT, "key 'split.no': is 3, but there are 3 parts", part_path(2));
    write_part(part_path(2), (struct part){2, 2000, all, "t"});
    refused(first, ERR_FORMAT, "key 'split.count': is 2000, but at most 1024 parts are supported",
            part_path(2));
    unlink(part_path(2));
    refused(part_path(1), ERR_IO, "cannot open: No such file or directory", part_path(2));
    write_set();
    unlink(first);
    refused(part_path(1), ERR_IO, "cannot open: No such file or directory", first);
}

static void test_refused_tensors(void **arg)
{
    const unsigned all = N_PARTS * N_EACH;
    char first[256];
    struct gguf_writer *w;
    static const float values[8] = {0};
    static const uint64_t dims[1] = {8};

    (void)arg;
    snprintf(first, sizeof(first), "%s", part_path(0));
    write_set();
    write_part(first, (struct part){0, N_PARTS, all + 1, "t"});
    refused(first, ERR_FORMAT, "key 'split.tensors.count': is 7, but the 3 parts have 6 tensors",
            first);
    write_part(first, (struct part){0, N_PARTS, 0, "t"});
    refused(first, ERR_FORMAT, "key 'split.tensors.count' is missing", first);
    write_set();
    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_u16(w, "split.no", 2);
    gguf_writer_u16(w, "split.count", 3);
    gguf_writer_tensor(w, "t2.0", BLOCK_F32, 1, dims, values);
    gguf_writer_tensor(w, "t1.1", BLOCK_F32, 1, dims, values);
    assert_int_equal(gguf_writer_save(w, part_path(2)), 0);
    gguf_writer_destroy(&w);
    refused(first, ERR_FORMAT, "tensor 't1.1': an earlier part contains it too", part_path(2));
    assert_int_equal(truncate(part_path(1), 100), 0);
    assert_true(gguf_open(&(struct gguf *){NULL}, first, err, sizeof(err)) < 0);
    assert_non_null(strstr(err, part_path(1)));
}

/* In memory there are no other parts. */
static void test_part_in_memory(void **arg)
{
    struct gguf_writer *w;
    struct gguf *g;
    uint8_t *data;
    size_t bytes;

    (void)arg;
    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_u32(w, "split.count", 3);
    assert_int_equal(gguf_writer_finish(w, &data, &bytes), 0);
    gguf_writer_destroy(&w);
    assert_int_equal(gguf_open_memory(&g, "here", data, bytes, err, sizeof(err)), ERR_UNSUPPORTED);
    assert_string_equal(
        err, "here: is one of 3 parts of a split model, but the other parts are missing");
    mem_free(data);
}

static void test_changed(void **arg)
{
    struct gguf *g;
    char want[300];

    (void)arg;
    write_set();
    assert_int_equal(gguf_open(&g, part_path(0), err, sizeof(err)), 0);
    unlink(part_path(2)); /* another file in its place is no change of this one */
    write_part(part_path(2), (struct part){2, N_PARTS, 6, "u"});
    assert_int_equal(gguf_check_unchanged(g, err, sizeof(err)), 0);
    assert_int_equal(truncate(part_path(1), 4096), 0);
    assert_int_equal(gguf_check_unchanged(g, err, sizeof(err)), ERR_IO);
    snprintf(want, sizeof(want), "%s: the file was changed while it was read", part_path(1));
    assert_string_equal(err, want);
    gguf_close(&g);
}

/* Offsets are 64 bits wide: a tensor behind 4 GiB, in a file that is almost all hole. */
static void test_behind_4_gib(void **arg)
{
    static const uint64_t dims[2] = {1u << 16, 1u << 15}, small[1] = {8}; /* 4 GiB of halves */
    const char *path = path_of("big.gguf");
    struct gguf_writer *w;
    struct gguf *g;
    const struct gguf_tensor *t;
    uint8_t *data;
    size_t bytes;
    struct stat st;
    uint64_t end;
    const float v[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);

    (void)arg;
    assert_true(fd >= 0);
    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_tensor_elsewhere(w, "big", BLOCK_F16, 2, dims);
    gguf_writer_tensor_elsewhere(w, "behind", BLOCK_F32, 1, small);
    assert_int_equal(gguf_writer_finish(w, &data, &bytes), 0);
    gguf_writer_destroy(&w);
    for (size_t i = 0; i < 8; i++) /* the last 8 bytes of the infos: the offset of the second */
        ((uint8_t *)memmem(data, bytes, "behind", 6) + 6 + 4 + 8 + 4)[i] =
            (uint8_t)((dims[0] * dims[1] * 2) >> 8 * i);
    end = bytes + dims[0] * dims[1] * 2;
    assert_int_equal(write(fd, data, bytes), bytes);
    assert_int_equal(pwrite(fd, v, sizeof(v), (off_t)end), sizeof(v));
    close(fd);
    mem_free(data);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_blocks * 512 < 1 << 20);
    assert_int_equal(gguf_open(&g, path, err, sizeof(err)), 0);
    assert_true(gguf_file_bytes(g) > UINT64_C(1) << 32);
    t = gguf_tensor_find(g, "behind");
    assert_int_equal(gguf_tensor_find(g, "big")->bytes, UINT64_C(1) << 32);
    assert_true((uint64_t)((const uint8_t *)t->data - gguf_file_at(g, 0).data) > UINT64_C(1) << 32);
    assert_memory_equal(t->data, v, sizeof(v));
    gguf_has_read(g, t, 0, 1);
    assert_memory_equal(t->data, v, sizeof(v));
    gguf_close(&g);
    unlink(path);
}

/* Every allocation may fail. */
static void test_no_memory_for_a_set(void **arg)
{
    struct gguf *g;
    int64_t n = 0;

    (void)arg;
    write_set();
    while (each_failure(&n)) {
        const int rc = gguf_open(&g, part_path(2), err, sizeof(err));

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        if (rc < 0) {
            assert_null(g);
            assert_non_null(strstr(err, "out of memory"));
        }
    }
    assert_true(n > 11);
    gguf_close(&g);
}

/* ---- headers in memory ---- */

#define PLACE(file, offset) ((struct gguf_location){file, offset, NULL})

static uint8_t *make_head(size_t *bytes)
{
    static const uint64_t dims[1] = {8};
    static const float own[8] = {9, 8, 7, 6, 5, 4, 3, 2};
    struct gguf_writer *w;
    uint8_t *head;

    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_str(w, "general.name", "placed");
    gguf_writer_tensor_elsewhere(w, "a", BLOCK_F32, 1, dims);
    gguf_writer_tensor(w, "own", BLOCK_F32, 1, dims, own);
    gguf_writer_tensor_elsewhere(w, "b", BLOCK_F16, 1, dims);
    assert_int_equal(gguf_writer_finish(w, &head, bytes), 0);
    gguf_writer_destroy(&w);
    return head;
}

/* Open it with tensors a and b at these places; the return code. */
static int open_placed(struct gguf **g, struct gguf_location a, struct gguf_location b)
{
    const char *paths[2] = {path_of("one"), path_of("two")};
    const struct gguf_location places[3] = {a, PLACE(GGUF_OWN_DATA, 0), b};
    const struct gguf_placed placed = {paths, 2, places, 3};
    size_t bytes;
    uint8_t *head = make_head(&bytes);
    const int rc = gguf_open_placed(g, "mixed", head, bytes, &placed, err, sizeof(err));

    if (rc < 0)
        mem_free(head);
    return rc;
}

static void test_placed(void **arg)
{
    uint8_t bytes[64];
    struct gguf *g;
    char want[300];

    (void)arg;
    for (int i = 0; i < 64; i++)
        bytes[i] = (uint8_t)i;
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(path_of(i == 0 ? "one" : "two"), "w");

        assert_int_equal(fwrite(bytes, 1, sizeof(bytes), f), sizeof(bytes));
        assert_int_equal(fclose(f), 0);
    }
    assert_int_equal(open_placed(&g, PLACE(1, 13), PLACE(1, 45)), 0);
    assert_string_equal(gguf_name(g), "mixed");
    assert_true(gguf_is_file(g));
    assert_int_equal(gguf_n_files(g), 3);
    assert_int_equal(gguf_file_at(g, 2).n_tensors, 2);
    assert_int_equal(gguf_file_at(g, 1).n_tensors, 0);
    assert_memory_equal(gguf_tensor_find(g, "a")->data, bytes + 13, 32);
    assert_memory_equal(gguf_tensor_find(g, "b")->data, bytes + 45, 16);
    assert_true(((const float *)gguf_tensor_find(g, "own")->data)[7] == 2.0f);
    gguf_close(&g);

    assert_int_equal(open_placed(&g, PLACE(0, 0), PLACE(1, 49)), ERR_FORMAT);
    snprintf(want, sizeof(want),
             "%s: tensor 'b': 16 bytes at offset 49 reach past the end of the file, which has 64",
             path_of("two"));
    assert_string_equal(err, want);
    assert_int_equal(open_placed(&g, PLACE(0, UINT64_MAX), PLACE(0, 0)), ERR_FORMAT);
    assert_int_equal(open_placed(&g, PLACE(0, 4), PLACE(0, 35)), ERR_FORMAT);
    snprintf(want, sizeof(want), "%s: tensor 'b': overlaps tensor 'a'", path_of("one"));
    assert_string_equal(err, want);
    unlink(path_of("two"));
    assert_int_equal(open_placed(&g, PLACE(0, 0), PLACE(0, 32)), ERR_IO);
}

/* Row i: all of it is byte i of the first part, its last byte that of the second. */
static void make_row(const struct gguf_recipe *r, uint64_t row, uint8_t *to)
{
    const struct gguf_part *parts = r->parts + row / r->rows_each * r->n_each;

    memset(to, parts[0].data[row % r->rows_each], 8);
    to[7] = parts[1].data[row % r->rows_each];
}

/* Two groups of two parts, of two rows each: bytes 0 and 1 of these places. */
static struct gguf_recipe *make_recipe(const uint64_t at[4])
{
    struct gguf_recipe *r = mem_calloc(1, sizeof(*r) + 4 * sizeof(*r->parts));

    assert_non_null(r);
    *r = (struct gguf_recipe){.make = make_row,
                              .parts = (struct gguf_part *)(r + 1),
                              .n_parts = 4,
                              .n_each = 2,
                              .rows_each = 2,
                              .is_in_order = true};
    for (int i = 0; i < 4; i++)
        r->parts[i] = (struct gguf_part){.file = 0, .offset = at[i], .bytes = 2};
    return r;
}

static int open_made(struct gguf **g, struct gguf_recipe *r)
{
    static const uint64_t dims[2] = {2, 4};
    const char *path = path_of("one");
    const struct gguf_location place = {.recipe = r};
    const struct gguf_placed placed = {&path, 1, &place, 1};
    struct gguf_writer *w;
    uint8_t *head;
    size_t bytes;
    int rc;

    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_tensor_elsewhere(w, "made", BLOCK_F32, 2, dims);
    assert_int_equal(gguf_writer_finish(w, &head, &bytes), 0);
    gguf_writer_destroy(&w);
    rc = gguf_open_placed(g, "made", head, bytes, &placed, err, sizeof(err));
    if (rc < 0) {
        mem_free(head);
        mem_free(r);
    }
    return rc;
}

static void write_one(void)
{
    FILE *f = fopen(path_of("one"), "w");

    for (int i = 0; i < 64; i++)
        assert_int_equal(fputc(i, f), i);
    assert_int_equal(fclose(f), 0);
}

static void test_made(void **arg)
{
    static const uint8_t expected[4][2] = {{3, 9}, {4, 10}, {20, 30}, {21, 31}};
    uint8_t row[8];
    struct gguf *g;
    const struct gguf_tensor *t;

    (void)arg;
    write_one();
    assert_int_equal(open_made(&g, make_recipe((const uint64_t[4]){3, 9, 20, 30})), 0);
    t = gguf_tensor_find(g, "made");
    assert_null(t->data);
    assert_int_equal(gguf_row_bytes(t), 8);
    for (uint64_t i = 0; i < 4; i++) {
        gguf_will_read(g, t, i, 4 - i);
        assert_ptr_equal(gguf_row(t, i, row), row);
        assert_int_equal(row[0], expected[i][0]);
        assert_int_equal(row[7], expected[i][1]);
        gguf_has_read(g, t, 0, i + 1);
    }
    assert_int_equal(gguf_check_unchanged(g, err, sizeof(err)), 0);
    gguf_close(&g);

    assert_int_equal(open_made(&g, make_recipe((const uint64_t[4]){3, 9, 20, 63})), ERR_FORMAT);
    assert_non_null(strstr(err, "2 bytes at offset 63 reach past the end of the file"));
    assert_int_equal(open_made(&g, make_recipe((const uint64_t[4]){3, 4, 20, 30})), ERR_FORMAT);
    assert_non_null(strstr(err, "tensor 'made': overlaps tensor 'made'"));
}

static void test_no_memory_for_placed(void **arg)
{
    static const struct gguf_location places[3] = {
        {0, 0, NULL}, {GGUF_OWN_DATA, 0, NULL}, {0, 32, NULL}};
    const char *paths[1] = {path_of("one")};
    const struct gguf_placed placed = {paths, 1, places, 3};
    struct gguf *g;
    size_t bytes;
    uint8_t *head = make_head(&bytes);
    int64_t n = 0;

    (void)arg;
    while (each_failure(&n)) {
        const int rc = gguf_open_placed(&g, "mixed", head, bytes, &placed, err, sizeof(err));

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        if (rc < 0) {
            assert_null(g);
            assert_non_null(strstr(err, "out of memory"));
        }
    }
    assert_true(n > 7);
    gguf_close(&g); /* and the head with it */
}

static int set_up(void **arg)
{
    (void)arg;
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **arg)
{
    (void)arg;
    for (unsigned i = 0; i < N_PARTS; i++)
        unlink(part_path(i));
    unlink(path_of("renamed.gguf"));
    unlink(path_of("one"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_tensors),
        cmocka_unit_test(test_part_in_memory),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_behind_4_gib),
        cmocka_unit_test(test_no_memory_for_a_set),
        cmocka_unit_test(test_placed),
        cmocka_unit_test(test_made),
        cmocka_unit_test(test_no_memory_for_placed),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
