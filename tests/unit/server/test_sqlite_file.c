/* tests/unit/server/test_sqlite_file.c - databases that are damaged: the opening succeeds, each row
 * that comes out is what went in, whatever lies on whole pages comes out, and losses are told. Each
 * row has its number in every few bytes, so that the bytes of the file say which pages it lies on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/log.h"
#include "server/storage/sqlite_file.h"
#include "tests/fixtures/files.h"
#include "tests/fixtures/random.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define N_NOTES 300
#define N_AMOUNTS 400
#define MAX_BODY 20000
#define N_PIECES 10 /* transactions of a log */

static const struct sqlite_table tables[] = {
    {.name = "note",
     .columns = "id,n,body",
     .row = "rowid=new.rowid",
     .key = "rowid",
     .lost = "SELECT 'note',id FROM damaged.note d INDEXED BY sqlite_autoindex_note_1"
             " WHERE NOT EXISTS(SELECT 1 FROM note WHERE id=d.id OR n=d.n)"},
    {.name = "amount",
     .columns = "day,owner,a,b",
     .row = "day=new.day AND owner=new.owner",
     .key = "day"},
};

#define SCHEMA(hash)                                                                               \
    "CREATE TABLE IF NOT EXISTS note(n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"              \
    " body TEXT NOT NULL" hash ");"                                                                \
    "CREATE TABLE IF NOT EXISTS amount(day INTEGER NOT NULL, owner TEXT NOT NULL,"                 \
    " a INTEGER, b BLOB" hash ", PRIMARY KEY(day,owner)) WITHOUT ROWID;"

static struct sqlite_form form = {
    .what = "notes",
    .schema = SCHEMA(", hash INTEGER"),
    .application_id = 0x51550001,
    .version = 4,
    .tables = tables,
    .n_tables = 2,
};

static char folder[64], path[80], log_path[90];
static char err[300];
static uint64_t check_seed;

struct bytes {
    char *data;
    size_t n;
};

/* ---- files ---- */

static struct bytes read_file(const char *name)
{
    struct bytes b;

    b.data = read_whole(name, &b.n);
    return b;
}

static void write_file(const char *name, const struct bytes *b)
{
    FILE *f = fopen(name, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->n, f), b->n);
    fclose(f);
}

/* Write bytes into the file that a connection has open. */
static void write_over(const struct bytes *b)
{
    FILE *f = fopen(path, "r+b");

    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->n, f), b->n);
    fclose(f);
}

static struct bytes copy_of(const struct bytes *b)
{
    struct bytes copy = {malloc(b->n + 1), b->n};

    assert_non_null(copy.data);
    memcpy(copy.data, b->data, b->n);
    copy.data[b->n] = '\0';
    return copy;
}

static void remove_files(void)
{
    static const char *const ends[] = {"", "-wal", ".damaged", ".damaged-wal", ".new", ".saved"};
    char name[100];

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", path, ends[i]);
        unlink(name);
    }
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/quire-salvage-%d", (int)getpid());
    mkdir(folder, 0700);
    snprintf(path, sizeof(path), "%s/db", folder);
    snprintf(log_path, sizeof(log_path), "%s-wal", path);
    remove_files();
    form.is_durable = true;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_files();
    rmdir(folder);
    return 0;
}

static sqlite3 *open_db(struct sqlite_loss *loss)
{
    sqlite3 *db;

    if (sqlite_file_open(&db, path, &form, loss, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    return db;
}

static void run(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

/* ---- rows ---- */

/* Short ones, such that fill a page, and such that have several of their own. */
static size_t body_of(int n, char out[MAX_BODY + 1])
{
    static const size_t sizes[] = {40, 700, 200, 9000, 90, 3000, 400, 20000, 60, 1500};
    const size_t size = sizes[n % 10];

    for (size_t i = 0; i < size; i++)
        out[i] = '.';
    for (size_t at = 0; at + 8 <= size; at += 8) {
        char mark[9];

        snprintf(mark, sizeof(mark), "<%06d>", n);
        memcpy(out + at, mark, 8);
    }
    out[size] = '\0';
    return size;
}

static void owner_of(int n, char out[60])
{
    snprintf(out, 60, "{%06d}%.*s", n, n % 40, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
}

static void add_note(sqlite3 *db, int n)
{
    char body[MAX_BODY + 1];
    char *sql;

    body_of(n, body);
    sql = sqlite3_mprintf("INSERT INTO note(n,id,body) VALUES(%d,'id-%06d',%Q)", n, n, body);
    run(db, sql);
    sqlite3_free(sql);
}

static void add_amount(sqlite3 *db, int n)
{
    char owner[60];
    char *sql;

    owner_of(n, owner);
    sql = sqlite3_mprintf("INSERT INTO amount(day,owner,a,b) VALUES(%d,%Q,%lld,x'%02x')", n / 20,
                          owner, ((long long)n - 100) * (1LL << n % 50), n % 256);
    run(db, sql);
    sqlite3_free(sql);
}

/* Add every step-th note from the first one on. */
static void add_notes(sqlite3 *db, int first, int step)
{
    run(db, "SAVEPOINT notes");
    for (int n = first; n < N_NOTES; n += step)
        add_note(db, n);
    run(db, "RELEASE notes");
}

static void fill(sqlite3 *db)
{
    run(db, "BEGIN");
    add_notes(db, 0, 1);
    for (int n = 0; n < N_AMOUNTS; n++)
        add_amount(db, n);
    run(db, "COMMIT");
}

/* Which there are, each of them byte for byte what it was. */
static int read_notes(sqlite3 *db, bool has[N_NOTES])
{
    sqlite3_stmt *st;
    char body[MAX_BODY + 1], id[20];
    int rc, n_rows = 0;

    memset(has, 0, N_NOTES * sizeof(*has));
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT n,id,body,is_whole FROM whole_note", -1, &st, NULL), 0);
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        const int n = sqlite3_column_int(st, 0);

        assert_in_range(n, 0, N_NOTES - 1);
        snprintf(id, sizeof(id), "id-%06d", n);
        body_of(n, body);
        assert_string_equal((const char *)sqlite3_column_text(st, 1), id);
        assert_string_equal((const char *)sqlite3_column_text(st, 2), body);
        assert_false(has[n]);
        has[n] = true;
        n_rows++;
    }
    assert_int_equal(rc, SQLITE_DONE);
    sqlite3_finalize(st);
    return n_rows;
}

/* Whether the row can be read; then it is what it was. */
static bool read_note(sqlite3 *db, int n)
{
    char body[MAX_BODY + 1], id[20];
    sqlite3_stmt *st;
    int rc = sqlite3_prepare_v2(db, "SELECT n,id,body,is_whole FROM whole_note WHERE n=?1", -1, &st,
                                NULL);

    if (rc == SQLITE_OK) {
        sqlite3_bind_int(st, 1, n);
        rc = sqlite3_step(st);
    }
    if (rc == SQLITE_ROW) {
        snprintf(id, sizeof(id), "id-%06d", n);
        body_of(n, body);
        assert_int_equal(sqlite3_column_int(st, 0), n);
        assert_string_equal((const char *)sqlite3_column_text(st, 1), id);
        assert_string_equal((const char *)sqlite3_column_text(st, 2), body);
    }
    sqlite3_finalize(st);
    return rc == SQLITE_ROW;
}

static int count(sqlite3 *db, const char *sql)
{
    int64_t n;

    assert_int_equal(sqlite_file_run(db, &n, sql), SQLITE_OK);
    return (int)n;
}

static void read_amounts(sqlite3 *db, bool has[N_AMOUNTS])
{
    sqlite3_stmt *st;
    char owner[60];
    int rc;

    memset(has, 0, N_AMOUNTS * sizeof(*has));
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT day,owner,a,b,is_whole FROM whole_amount", -1, &st, NULL),
        0);
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        const int n = (int)strtol((const char *)sqlite3_column_text(st, 1) + 1, NULL, 10);

        assert_in_range(n, 0, N_AMOUNTS - 1);
        owner_of(n, owner);
        assert_int_equal(sqlite3_column_int(st, 0), n / 20);
        assert_string_equal((const char *)sqlite3_column_text(st, 1), owner);
        assert_true(sqlite3_column_int64(st, 2) == ((int64_t)n - 100) * (INT64_C(1) << n % 50));
        assert_int_equal(*(const unsigned char *)sqlite3_column_blob(st, 3), n % 256);
        has[n] = true;
    }
    assert_int_equal(rc, SQLITE_DONE);
    sqlite3_finalize(st);
}

/* ---- damage ---- */

static size_t place(uint64_t *seed, const struct bytes *b)
{
    return random_below(seed, (uint32_t)b->n);
}

static void flip(struct bytes *b, uint64_t *seed)
{
    for (uint32_t i = random_below(seed, 12) + 1; i > 0; i--)
        b->data[place(seed, b)] ^= (char)(1 + random_below(seed, 255));
}

static void zero_pages(struct bytes *b, uint64_t *seed)
{
    for (uint32_t i = random_below(seed, 5) + 1; i > 0; i--)
        memset(b->data + place(seed, b) / PAGE * PAGE, 0, PAGE);
}

static void zero_sector(struct bytes *b, uint64_t *seed)
{
    memset(b->data + place(seed, b) / 512 * 512, 0, 512);
}

static void cut_short(struct bytes *b, uint64_t *seed)
{
    b->n = place(seed, b);
}

static void hit_header(struct bytes *b, uint64_t *seed)
{
    for (int i = 0; i < 30; i++)
        b->data[random_below(seed, 100)] = (char)random_below(seed, 256);
}

/* A page that was written in the place of another. */
static void copy_page(struct bytes *b, uint64_t *seed)
{
    const size_t from = place(seed, b) / PAGE * PAGE, to = place(seed, b) / PAGE * PAGE;

    memmove(b->data + to, b->data + from, PAGE);
}

static void (*const kinds[])(struct bytes *b, uint64_t *seed) = {flip,      zero_pages, zero_sector,
                                                                 cut_short, hit_header, copy_page};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Whether the page leads to others: the first one has the schema, those of the types 2 and 5 are
 * the upper ones of indexes and tables. */
static bool is_upper(const char *page, size_t at)
{
    return at == 0 || page[0] == 2 || page[0] == 5;
}

/* Is the mark on a page that is not what it was, or may such a page have led to it? */
static bool is_hit(const struct bytes *was, const struct bytes *is, const char *mark)
{
    for (size_t at = 0; at < was->n; at += PAGE) {
        const char *page = was->data + at;

        if ((at + PAGE > is->n || memcmp(page, is->data + at, PAGE) != 0) &&
            (is_upper(page, at) || memmem(page, PAGE, mark, strlen(mark)) != NULL))
            return true;
    }
    return false;
}

/* Rows of one day have the same key: they are saved together, and so are those before. */
static bool is_day_hit(const struct bytes *was, const struct bytes *is, int day)
{
    bool is_one = false;
    char mark[20];

    for (int i = day * 20; i < day * 20 + 40; i++) {
        snprintf(mark, sizeof(mark), "{%06d}", i);
        is_one = is_one || is_hit(was, is, mark);
    }
    return is_one;
}

/* Every undamaged row is in the new file, and the loss of the others is reported. */
static void check_rows(sqlite3 *db, const struct bytes *was, const struct bytes *is,
                       const struct sqlite_loss *loss)
{
    bool notes[N_NOTES], amounts[N_AMOUNTS];
    const uint64_t n_notes = N_NOTES - (uint64_t)read_notes(db, notes);
    bool is_lost = n_notes > 0;
    char mark[20];

    read_amounts(db, amounts);
    for (int i = 0; i < N_NOTES; i++) {
        snprintf(mark, sizeof(mark), "<%06d>", i);
        if (!notes[i] && !is_hit(was, is, mark))
            fail_msg("seed %d: note %d was on whole pages", (int)check_seed, i);
    }
    for (int i = 0; i < N_AMOUNTS; i++) {
        if (!amounts[i] && !is_day_hit(was, is, i / 20))
            fail_msg("seed %d: amount %d was on whole pages", (int)check_seed, i);
        is_lost = is_lost || !amounts[i];
    }
    assert_true(!is_lost || loss->is_recovered);
    assert_true(!is_lost || loss->n_rows > 0);
    assert_true(loss->is_unknown || loss->n_rows == n_notes);
}

static void test_random_damage(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes was, is;

    (void)state;
    fill(db);
    sqlite3_close(db);
    was = read_file(path);
    assert_true(was.n > 200 * (size_t)PAGE);
    for (uint64_t seed = 0; seed < 10 * N_KINDS; seed++) {
        uint64_t random = seed;

        check_seed = seed;
        remove_files();
        is = copy_of(&was);
        kinds[seed % N_KINDS](&is, &random);
        write_file(path, &is);
        db = open_db(&loss);
        check_rows(db, &was, &is, &loss);
        sqlite3_close(db);
        free(is.data);
    }
    free(was.data);
}

/* Without the check of an opening: pages change while the file is open, and a row that is read has
 * the values that were written, or its reading fails. */
static void test_rows_are_checked_when_read(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes was, is;
    int n_failed = 0;

    (void)state;
    fill(db);
    sqlite3_close(db);
    was = read_file(path);
    db = open_db(&loss);
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint64_t random = seed;

        is = copy_of(&was);
        for (int i = 0; i < 300; i++)
            is.data[PAGE + random_below(&random, (uint32_t)(is.n - PAGE))] ^=
                (char)(1 + random_below(&random, 255));
        write_over(&is);
        sqlite3_db_release_memory(db);
        for (int n = 0; n < N_NOTES; n++)
            n_failed += !read_note(db, n);
        free(is.data);
    }
    assert_in_range(n_failed, 200 * 50, 200 * N_NOTES);
    sqlite3_close(db);
    free(was.data);
}

/* ---- after a recovery ---- */

static void damage_page(int number)
{
    struct bytes is = read_file(path);

    assert_true(is.n > (size_t)number * PAGE);
    memset(is.data + (size_t)(number - 1) * PAGE, 'x', PAGE);
    write_file(path, &is);
    free(is.data);
}

/* A recovered file is a file like others, and the damaged one is kept. */
static void test_what_is_kept(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes is, kept;
    char name[100];
    struct stat st;

    (void)state;
    fill(db);
    sqlite3_close(db);
    damage_page(6);
    is = read_file(path);
    db = open_db(&loss);
    assert_true(loss.is_recovered);
    sqlite3_close(db);
    snprintf(name, sizeof(name), "%s.damaged", path);
    kept = read_file(name);
    assert_int_equal(kept.n, is.n);
    assert_memory_equal(kept.data, is.data, is.n);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    db = open_db(&loss);
    assert_false(loss.is_recovered);
    assert_true(loss.n_rows == 0);
    run(db, "DELETE FROM note; DELETE FROM amount");
    fill(db);
    sqlite3_close(db);
    db = open_db(&loss);
    assert_false(loss.is_recovered);
    sqlite3_close(db);
    free(is.data);
    free(kept.data);
}

static void write_beside(const char *end, const struct bytes *b)
{
    char name[100];

    snprintf(name, sizeof(name), "%s%s", path, end);
    write_file(name, b);
}

/* The process that recovered the file ended after any of the changes of names: there is the new
 * file, or the damaged one is recovered again. */
static void test_killed_between_names(void **state)
{
    struct bytes whole, hurt, none = {(char[]){""}, 0};
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    bool has[N_NOTES];
    char saved[100];

    (void)state;
    fill(db);
    sqlite3_close(db);
    whole = read_file(path);
    damage_page(6);
    hurt = read_file(path);
    snprintf(saved, sizeof(saved), "%s.saved", path);
    for (int step = 0; step < 4; step++) {
        remove_files();
        write_beside(step == 0 ? ".new" : ".saved", &whole);
        if (step < 2)
            write_beside("-wal", &none);
        else
            write_beside(".damaged-wal", &none);
        write_beside(step < 3 ? "" : ".damaged", &hurt);
        db = open_db(&loss);
        assert_true(loss.is_recovered);
        assert_in_range(read_notes(db, has), N_NOTES / 2, N_NOTES);
        assert_true(step < 3 || read_notes(db, has) == N_NOTES);
        sqlite3_close(db);
        assert_int_equal(access(saved, F_OK), -1);
        db = open_db(&loss);
        assert_false(loss.is_recovered);
        sqlite3_close(db);
    }
    free(whole.data);
    free(hurt.data);
}

/* No new file can be made: the damaged one is as it was, and can be recovered later. */
static void test_no_room(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes is, then;
    char name[100];

    (void)state;
    fill(db);
    sqlite3_close(db);
    damage_page(6);
    is = read_file(path);
    snprintf(name, sizeof(name), "%s.new", path);
    assert_int_equal(mkdir(name, 0700), 0);
    assert_true(sqlite_file_open(&db, path, &form, &loss, err, sizeof(err)) < 0);
    assert_null(db);
    assert_true(strstr(err, path) != NULL && strstr(err, "damaged") != NULL);
    then = read_file(path);
    assert_int_equal(then.n, is.n);
    assert_memory_equal(then.data, is.data, is.n);
    assert_int_equal(rmdir(name), 0);
    db = open_db(&loss);
    assert_true(loss.is_recovered);
    sqlite3_close(db);
    free(is.data);
    free(then.data);
}

/* ---- one kind of damage each ---- */

static void expect_error(sqlite3 *db, const char *sql)
{
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_CORRUPT);
    assert_true(sqlite_file_is_damage(db));
    assert_non_null(strstr(sqlite_file_fail(db), "damaged"));
}

/* One byte of a body changes while the file is served: the row's reading and its update fail, other
 * rows are read; the next opening recovers the file, although its pages are in order. */
static void test_a_byte_of_a_body(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes is;
    bool has[N_NOTES];
    char *at;

    (void)state;
    fill(db);
    sqlite3_close(db);
    is = read_file(path);
    db = open_db(&loss);
    at = memmem(is.data, is.n, "<000101>", 8);
    assert_non_null(at);
    at[3] ^= 4;
    write_over(&is);
    sqlite3_db_release_memory(db);
    expect_error(db, "SELECT body,is_whole FROM whole_note WHERE id='id-000101'");
    expect_error(db, "UPDATE note SET id='other' WHERE n=101");
    assert_true(read_note(db, 100) && read_note(db, 102));
    run(db, "DELETE FROM note WHERE n=100");
    sqlite3_close(db);
    db = open_db(&loss);
    assert_true(loss.is_recovered && !loss.is_unknown && loss.n_rows == 1);
    assert_int_equal(read_notes(db, has), N_NOTES - 2);
    assert_false(has[100] || has[101]);
    sqlite3_close(db);
    free(is.data);
}

/* An UPDATE gives the row the hash of its new values; a row that a statement leaves out does not
 * fail for the values that it has not. */
static void test_an_update(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);

    (void)state;
    add_note(db, 1);
    run(db, "UPDATE note SET id='other' WHERE n=1");
    assert_int_equal(sqlite3_changes(db), 1);
    run(db, "INSERT OR REPLACE INTO note(n,id,body) SELECT n,'id-000001',body FROM whole_note");
    assert_true(read_note(db, 1));
    run(db, "SELECT is_whole FROM whole_note WHERE n=1 AND body='other'");
    assert_int_equal(sqlite3_exec(db, "INSERT INTO note(n,id) VALUES(2,'a')", NULL, NULL, NULL),
                     SQLITE_CONSTRAINT);
    sqlite3_close(db);
    db = open_db(&loss);
    assert_false(loss.is_recovered);
    sqlite3_close(db);
}

/* Pages of an index alone: every row is there. */
static void test_an_index(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes is;
    bool has[N_NOTES];
    int n = 0;

    (void)state;
    fill(db);
    sqlite3_close(db);
    is = read_file(path);
    for (size_t at = PAGE; at < is.n; at += PAGE)
        if (is.data[at] == 10 && memmem(is.data + at, PAGE, "id-", 3) != NULL && n++ == 1)
            memset(is.data + at, 0x55, PAGE);
    assert_true(n > 1);
    write_file(path, &is);
    db = open_db(&loss);
    assert_true(loss.is_recovered && !loss.is_unknown && loss.n_rows == 0);
    assert_int_equal(read_notes(db, has), N_NOTES);
    sqlite3_close(db);
    free(is.data);
}

/* The end is missing: the file says that it is longer. */
static void test_a_cut_file(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes is;
    bool has[N_NOTES];
    int n;

    (void)state;
    fill(db);
    sqlite3_close(db);
    is = read_file(path);
    is.n = is.n / 2 + 100;
    write_file(path, &is);
    db = open_db(&loss);
    n = read_notes(db, has);
    assert_in_range(n, N_NOTES / 4, N_NOTES - 1);
    assert_true(loss.is_recovered && loss.n_rows > 0);
    sqlite3_close(db);
    free(is.data);
}

/* The file has no header any more: all is lost and told, and the file is kept. */
static void test_no_header(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes is, kept;
    bool has[N_NOTES];
    char name[100];

    (void)state;
    fill(db);
    sqlite3_close(db);
    is = read_file(path);
    memset(is.data, 0, 100);
    write_file(path, &is);
    db = open_db(&loss);
    assert_true(loss.is_recovered && loss.is_unknown && loss.n_rows > 0);
    assert_int_equal(read_notes(db, has), 0);
    add_note(db, 1);
    sqlite3_close(db);
    snprintf(name, sizeof(name), "%s.damaged", path);
    kept = read_file(name);
    assert_int_equal(kept.n, is.n);
    assert_memory_equal(kept.data, is.data, is.n);
    free(is.data);
    free(kept.data);
}

/* The application_id is another: the definition of the tables says that the file is ours. */
static void test_another_id(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes is;
    bool has[N_NOTES];

    (void)state;
    fill(db);
    sqlite3_close(db);
    is = read_file(path);
    is.data[70] ^= 1;
    write_file(path, &is);
    db = open_db(&loss);
    assert_true(loss.is_recovered && !loss.is_unknown && loss.n_rows == 0);
    assert_int_equal(read_notes(db, has), N_NOTES);
    sqlite3_close(db);
    free(is.data);
}

/* ---- the log of changes ---- */

/* A database and its log as a process that was killed leaves them. */
static void make_killed(struct bytes *file, struct bytes *log)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);

    run(db, "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0");
    for (int i = 0; i < N_PIECES; i++) {
        add_notes(db, i, N_PIECES);
    }
    *file = read_file(path);
    *log = read_file(log_path);
    sqlite3_close(db);
}

static void put_killed(const struct bytes *file, const struct bytes *log)
{
    remove_files();
    write_file(path, file);
    write_file(log_path, log);
}

/* SQLite takes the changes before the damaged piece, and no others. */
static void test_a_damaged_log(void **state)
{
    struct bytes file, log, is;

    (void)state;
    make_killed(&file, &log);
    for (uint64_t seed = 0; seed < 24; seed++) {
        uint64_t random = seed;
        struct sqlite_loss loss;
        bool has[N_NOTES];
        sqlite3 *db;
        int n;

        is = copy_of(&log);
        if (seed % 4 == 1)
            memset(is.data, 0xff, 32); /* the title */
        else
            is.data[random_below(&random, (uint32_t)log.n)] ^= 0x55;
        put_killed(&file, &is);
        db = open_db(&loss);
        n = read_notes(db, has);
        for (int k = 0; k < N_NOTES; k++)
            assert_true(has[k] == (k % N_PIECES < n / (N_NOTES / N_PIECES)));
        assert_true(!loss.is_recovered && n < N_NOTES);
        sqlite3_close(db);
        free(is.data);
    }
    free(file.data);
    free(log.data);
}

/* A damaged file whose log has changes: they are recovered too. */
static void test_damage_below_a_log(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes file, log;
    bool has[N_NOTES];

    (void)state;
    add_notes(db, 0, 2);
    sqlite3_close(db);
    db = open_db(&loss);
    run(db, "PRAGMA wal_autocheckpoint=0");
    add_notes(db, 1, 2);
    file = read_file(path);
    log = read_file(log_path);
    sqlite3_close(db);
    memset(file.data + file.n / 2 / PAGE * PAGE, 0x77, PAGE);
    put_killed(&file, &log);
    db = open_db(&loss);
    assert_true(read_notes(db, has) > N_NOTES / 2);
    assert_true(has[N_NOTES - 1]);
    sqlite3_close(db);
    free(file.data);
    free(log.data);
}

/* A log that ends in mid-change is none that was damaged: what had an end before is there. */
static void test_a_torn_log(void **state)
{
    struct bytes file, log;
    uint64_t random = 1;

    (void)state;
    make_killed(&file, &log);
    for (int i = 0; i < 10; i++) {
        struct sqlite_loss loss;
        struct bytes is = {log.data, random_below(&random, (uint32_t)log.n)};
        bool has[N_NOTES];
        sqlite3 *db;
        int n;

        put_killed(&file, &is);
        db = open_db(&loss);
        n = read_notes(db, has);
        assert_int_equal(n % (N_NOTES / N_PIECES), 0);
        assert_false(loss.is_recovered);
        assert_true(loss.n_rows == 0);
        for (int k = 0; k < N_NOTES; k++)
            assert_true(has[k] == (k % N_PIECES < n / (N_NOTES / N_PIECES)));
        sqlite3_close(db);
    }
    free(file.data);
    free(log.data);
}

/* ---- other files ---- */

/* A file of the version before: without hashes, and with reserved bytes. What it has is
 * not checked; what is written to it now is. */
static void test_the_version_before(void **state)
{
    struct sqlite_loss loss;
    int reserved = 8;
    bool has[N_NOTES];
    struct bytes is;
    sqlite3 *db;

    (void)state;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
    run(db, SCHEMA(""));
    run(db, "PRAGMA journal_mode=WAL; PRAGMA application_id=1364525057; PRAGMA user_version=3");
    add_notes(db, 0, 2);
    sqlite3_close(db);
    is = read_file(path);
    assert_int_equal(is.data[20], 8);
    free(is.data);
    for (int i = 0; i < 2; i++) {
        db = open_db(&loss);
        assert_false(loss.is_recovered);
        assert_int_equal(read_notes(db, has), i == 0 ? N_NOTES / 2 : N_NOTES);
        if (i == 0)
            add_notes(db, 1, 2);
        assert_int_equal(count(db, "SELECT count(*) FROM note WHERE hash IS NULL"), 0);
        run(db, "UPDATE note SET id=id WHERE n=0");
        sqlite3_close(db);
    }
    is = read_file(path);
    assert_int_equal(is.data[20], 9); /* so that builds of that version refuse it */
    free(is.data);
}

/* A table without an index, whose page says that it has no cells: no statement fails, and nothing
 * names the rows. */
static void test_rows_that_nothing_names(void **state)
{
    struct sqlite_loss loss;
    bool has[N_AMOUNTS];
    struct bytes is;
    int64_t page;
    sqlite3 *db;

    (void)state;
    db = open_db(&loss);
    for (int n = 0; n < 5; n++)
        add_amount(db, n);
    page = count(db, "SELECT rootpage FROM sqlite_schema WHERE name='amount'");
    sqlite3_close(db);
    is = read_file(path);
    is.data[(page - 1) * PAGE + 3] = is.data[(page - 1) * PAGE + 4] = 0;
    write_file(path, &is);
    free(is.data);
    db = open_db(&loss);
    assert_true(loss.is_recovered && loss.is_unknown && loss.n_rows > 0);
    read_amounts(db, has);
    assert_false(has[0]);
    sqlite3_close(db);
}

/* A damaged cell may lack its hash. Nothing else changes such a row. */
static void test_a_row_without_its_hash_is_damaged(void **state)
{
    struct sqlite_loss loss;
    bool has[N_NOTES];
    sqlite3 *db;

    (void)state;
    db = open_db(&loss);
    add_notes(db, 0, 1);
    sqlite3_close(db);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    run(db, "UPDATE note SET hash=NULL WHERE n=3");
    sqlite3_close(db);
    db = open_db(&loss);
    assert_true(loss.is_recovered && loss.n_rows == 1);
    assert_int_equal(read_notes(db, has), N_NOTES - 1);
    assert_false(has[3]);
    sqlite3_close(db);
}

/* A damaged file of that version: rows get their hashes when they are recovered. */
static void test_the_version_before_damaged(void **state)
{
    struct sqlite_loss loss;
    bool has[N_NOTES];
    sqlite3 *db;

    (void)state;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    run(db, SCHEMA(""));
    run(db, "PRAGMA application_id=1364525057; PRAGMA user_version=3");
    add_notes(db, 0, 1);
    sqlite3_close(db);
    damage_page(9);
    db = open_db(&loss);
    assert_true(loss.is_recovered);
    assert_in_range(read_notes(db, has), N_NOTES / 2, N_NOTES);
    assert_int_equal(count(db, "SELECT count(*) FROM note WHERE hash IS NULL"), 0);
    sqlite3_close(db);
}

static void expect_refused(int rc, const char *why)
{
    struct sqlite_loss loss;
    struct bytes is = read_file(path), then;
    sqlite3 *db;

    assert_int_equal(sqlite_file_open(&db, path, &form, &loss, err, sizeof(err)), rc);
    sqlite3_close(db);
    if (strstr(err, path) == NULL || strstr(err, why) == NULL)
        fail_msg("%s", err);
    then = read_file(path);
    assert_int_equal(then.n, is.n);
    assert_memory_equal(then.data, is.data, is.n);
    free(is.data);
    free(then.data);
}

static void test_other_databases(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db, *other;

    (void)state;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    run(db, "CREATE TABLE t(a)");
    sqlite3_close(db);
    expect_refused(ERR_FORMAT, "another program");
    for (int version = 2; version < 6; version += 3) {
        remove_files();
        db = open_db(&loss);
        run(db, version == 2 ? "PRAGMA user_version=2" : "PRAGMA user_version=5");
        sqlite3_close(db);
        expect_refused(ERR_FORMAT, version == 2 ? "version 2 of notes" : "version 5 of notes");
    }
    remove_files();
    db = open_db(&loss);
    assert_int_equal(sqlite_file_open(&other, path, &form, &loss, err, sizeof(err)), ERR_BUSY);
    sqlite3_close(other);
    sqlite3_close(db);
}

/* A file that is not ours is never replaced, however it looks. */
static void test_files_of_others(void **state)
{
    struct sqlite_loss loss;
    struct bytes is = {calloc(1, 20 * PAGE), 20 * PAGE}, then;
    uint64_t random = 7;
    sqlite3 *db;

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < is.n; i++)
            is.data[i] = (char)random_below(&random, 256);
        if (round == 1)
            memcpy(is.data, "SQLite format 3", 16);
        if (round == 2)
            memset(is.data, 0, is.n);
        write_file(path, &is);
        assert_true(sqlite_file_open(&db, path, &form, &loss, err, sizeof(err)) < 0);
        sqlite3_close(db);
        then = read_file(path);
        assert_int_equal(then.n, is.n);
        assert_memory_equal(then.data, is.data, is.n);
        free(then.data);
    }
    free(is.data);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_random_damage),
        TEST(test_rows_are_checked_when_read),
        TEST(test_what_is_kept),
        TEST(test_killed_between_names),
        TEST(test_no_room),
        TEST(test_a_byte_of_a_body),
        TEST(test_an_update),
        TEST(test_an_index),
        TEST(test_a_cut_file),
        TEST(test_no_header),
        TEST(test_another_id),
        TEST(test_a_damaged_log),
        TEST(test_damage_below_a_log),
        TEST(test_a_torn_log),
        TEST(test_the_version_before),
        TEST(test_rows_that_nothing_names),
        TEST(test_a_row_without_its_hash_is_damaged),
        TEST(test_the_version_before_damaged),
        TEST(test_other_databases),
        TEST(test_files_of_others),
    };

    log_setup(LOG_OFF, false, 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
