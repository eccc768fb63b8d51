/* tests/unit/server/test_slots.c - the texts of slots, and their files: each cut and each changed
 * byte is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/storage/slot_file.h"
#include "server/storage/slot_table.h"

#define BLOCK_BYTES 24
#define N_BLOCKS 3
#define N_IDS 53

static char folder[] = "/tmp/quire-slots-XXXXXX";
static const struct slot_file_owner owner = {
    {1, 2}, 3, BLOCK_BYTES, 1000, 64, {0, 0}};

/* ---- files ---- */

static void fill(int32_t *ids, uint8_t *blocks)
{
    for (int i = 0; i < N_IDS; i++)
        ids[i] = 7 * i % 1000;
    for (int i = 0; i < N_BLOCKS * BLOCK_BYTES; i++)
        blocks[i] = (uint8_t)(3 * i + 1);
}

static int save(const char *name, struct api_error *e)
{
    uint8_t blocks[N_BLOCKS * BLOCK_BYTES];
    int32_t ids[N_IDS];
    struct slot_file *f;
    int rc;

    fill(ids, blocks);
    rc = slot_file_create(&f, folder, name, &owner, ids, N_IDS, N_BLOCKS, e);
    if (rc == 0)
        rc = slot_file_write(f, 2, 1, blocks + (size_t)2 * BLOCK_BYTES, e);
    if (rc == 0)
        rc = slot_file_write(f, 0, 2, blocks, e);
    if (rc == 0)
        rc = slot_file_finish(f, e);
    slot_file_close(&f);
    return rc;
}

/* 0 when all of it is there and right; the status of the refusal else. */
static int load(const char *name, const struct slot_file_owner *who)
{
    uint8_t wanted[N_BLOCKS * BLOCK_BYTES], blocks[N_BLOCKS * BLOCK_BYTES];
    int32_t ids[N_IDS];
    struct api_error e = {0};
    struct slot_file *f;
    uint32_t n;

    fill(ids, wanted);
    if (slot_file_open(&f, folder, name, who, &e) < 0)
        return e.status;
    assert_memory_equal(slot_file_ids(f, &n), ids, sizeof(ids));
    assert_int_equal(n, N_IDS);
    assert_int_equal(slot_file_n_blocks(f), N_BLOCKS);
    if (slot_file_read(f, 1, 2, blocks + BLOCK_BYTES, &e) == 0 &&
        slot_file_read(f, 0, 1, blocks, &e) == 0)
        assert_memory_equal(blocks, wanted, sizeof(blocks));
    slot_file_close(&f);
    return e.status;
}

static char *path_of(const char *name)
{
    static char path[300];

    snprintf(path, sizeof(path), "%s/.%016x.%s", folder, (unsigned)owner.owner, name);
    return path;
}

static size_t read_whole(const char *name, uint8_t *out, size_t cap)
{
    FILE *f = fopen(path_of(name), "rb");
    const size_t n = f != NULL ? fread(out, 1, cap, f) : 0;

    assert_non_null(f);
    fclose(f);
    return n;
}

static void write_whole(const char *name, const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(path_of(name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void what_was_saved_is_read(void **state)
{
    struct api_error e = {0};
    (void)state;

    assert_int_equal(save("a", &e), 0);
    assert_int_equal(load("a", &owner), 0);
    assert_int_equal(save("a", &e), 0); /* again, over it */
    assert_int_equal(load("a", &owner), 0);
    assert_int_equal(load("b", &owner), 404);
}

static void each_cut_and_each_changed_byte_is_refused(void **state)
{
    uint8_t whole[2000], bad[2001];
    struct api_error e = {0};
    size_t n;
    (void)state;

    assert_int_equal(save("a", &e), 0);
    n = read_whole("a", whole, sizeof(whole));
    for (size_t i = 0; i < n; i++) {
        write_whole("bad", whole, i);
        assert_int_equal(load("bad", &owner), 400);
        memcpy(bad, whole, n);
        bad[i] ^= 0x10;
        write_whole("bad", bad, n);
        assert_in_range(load("bad", &owner), 400, 404);
    }
    memcpy(bad, whole, n);
    bad[n] = 0;
    write_whole("bad", bad, n + 1);
    assert_int_equal(load("bad", &owner), 400);
}

static void others_files_are_not_there(void **state)
{
    struct slot_file_owner who = owner;
    struct api_error e = {0};
    (void)state;

    assert_int_equal(save("a", &e), 0);
    who.owner++;
    assert_int_equal(load("a", &who), 404);
    who = owner;
    who.kv_id[1]++;
    assert_int_equal(load("a", &who), 400);
    who = owner;
    who.block_bytes++;
    assert_int_equal(load("a", &who), 400);
    who = owner;
    who.max_tokens = N_IDS - 1;
    assert_int_equal(load("a", &who), 400);
    who = owner;
    who.n_vocab = 5;
    assert_int_equal(load("a", &who), 400);
}

static void what_is_not_finished_leaves_nothing(void **state)
{
    int32_t ids[N_IDS] = {0};
    struct api_error e = {0};
    struct slot_file *f;
    (void)state;

    assert_int_equal(slot_file_create(&f, folder, "half", &owner, ids, N_IDS, 1, &e), 0);
    slot_file_close(&f);
    assert_int_equal(load("half", &owner), 404);
    unlink(path_of("a"));
    unlink(path_of("bad"));
    assert_int_equal(rmdir(folder), 0); /* it is empty */
    assert_non_null(mkdtemp(memcpy(folder, "/tmp/quire-slots-XXXXXX", sizeof(folder))));
}

static void names_are_no_paths(void **state)
{
    static const char *const bad[] = {"", ".", "..", ".a", "a/b", "a\\b", "a\n", "a\177"};
    char longest[SLOT_FILE_MAX_NAME + 2];
    (void)state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(slot_file_is_name(bad[i]));
    memset(longest, 'x', sizeof(longest));
    longest[SLOT_FILE_MAX_NAME + 1] = '\0';
    assert_false(slot_file_is_name(longest));
    longest[SLOT_FILE_MAX_NAME] = '\0';
    assert_true(slot_file_is_name(longest) && slot_file_is_name("a.b-c d\xC3\xA9"));
}

/* ---- texts ---- */

static struct slot_text text(const int32_t *ids, size_t n)
{
    return (struct slot_text){ids, n};
}

static void texts_are_a_tenants_own(void **state)
{
    static const int32_t ids[] = {1, 2, 3};
    const struct slot_name a = {"a", 0}, b = {"b", 0}, a1 = {"a", 1};
    struct slot_table t;
    (void)state;

    slot_table_init(&t);
    slot_table_set(&t, &a, text(ids, 2), text(ids, 3));
    slot_table_set(&t, &b, text(ids, 1), text(NULL, 0));
    assert_int_equal(slot_table_get(&t, &a).n, 5);
    assert_int_equal(slot_table_get(&t, &a).ids[2], 1);
    assert_int_equal(slot_table_get(&t, &b).n, 1);
    assert_int_equal(slot_table_get(&t, &a1).n, 0);
    slot_table_set(&t, &a, text(ids, 3), text(NULL, 0));
    assert_int_equal(slot_table_get(&t, &a).n, 3);
    assert_int_equal(slot_table_erase(&t, &a), 3);
    assert_int_equal(slot_table_erase(&t, &a), 0);
    assert_int_equal(t.n_texts, 1);
    slot_table_release(&t);
}

static void the_oldest_text_goes_first(void **state)
{
    int32_t *many = calloc(SLOT_TABLE_IDS, sizeof(*many));
    struct slot_table t;
    (void)state;

    slot_table_init(&t);
    for (uint32_t i = 0; i < SLOT_TABLE_TEXTS + 3; i++)
        slot_table_set(&t, &(struct slot_name){"", i}, text(many, 4), text(NULL, 0));
    assert_int_equal(t.n_texts, SLOT_TABLE_TEXTS);
    assert_int_equal(slot_table_get(&t, &(struct slot_name){"", 2}).n, 0);
    assert_int_equal(slot_table_get(&t, &(struct slot_name){"", 3}).n, 4);
    slot_table_set(&t, &(struct slot_name){"", 9}, text(many, SLOT_TABLE_IDS - 8), text(many, 4));
    assert_int_equal(t.n_texts, 2);
    slot_table_set(&t, &(struct slot_name){"", 9}, text(many, SLOT_TABLE_IDS), text(many, 1));
    assert_int_equal(slot_table_get(&t, &(struct slot_name){"", 9}).n, 0);
    slot_table_release(&t);
    free(many);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path_of("a"));
    unlink(path_of("bad"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_saved_is_read),
        cmocka_unit_test(each_cut_and_each_changed_byte_is_refused),
        cmocka_unit_test(others_files_are_not_there),
        cmocka_unit_test(what_is_not_finished_leaves_nothing),
        cmocka_unit_test(names_are_no_paths),
        cmocka_unit_test(texts_are_a_tenants_own),
        cmocka_unit_test(the_oldest_text_goes_first),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
