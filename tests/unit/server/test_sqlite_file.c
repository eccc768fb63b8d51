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
#include "tests/fixtures/damaged_bytes.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_NOTES 300
#define N_AMOUNTS 400
#define N_MANY 10000
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

static const struct sqlite_form form = {
    .what = "notes",
    .schema = SCHEMA(", hash INTEGER"),
    .application_id = 0x51550001,
    .version = 4,
    .is_durable = true,
    .tables = tables,
    .n_tables = 2,
};

static char folder[64], path[80];
static char err[300];
static uint64_t check_seed;
static sqlite3 *db;             /* the latest opening's, or NULL */
static struct bytes whole;      /* the file that set_up_full() has made */
static struct bytes whole_log;  /* its log, if make_killed() has made both */
static struct sqlite_loss loss; /* of the latest opening */
static bool has[N_NOTES];       /* notes that read_notes() has found */

/* ---- files ---- */

static const char *beside(const char *end)
{
    static char name[100];

    snprintf(name, sizeof(name), "%s%s", path, end);
    return name;
}

static void remove_files(void)
{
    static const char *const ends[] = {"",     "-wal",       ".damaged", ".damaged-wal",
                                       ".new", ".recovering"};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        unlink(beside(ends[i]));
}

static void close_db(void)
{
    sqlite3_close(db);
    db = NULL;
}

static int try_open(void)
{
    int rc;

    close_db();
    rc = sqlite_file_open(&db, path, &form, &loss, err, sizeof(err));
    assert_true((rc == 0) == (db != NULL));
    return rc;
}

static void open_db(void)
{
    if (try_open() < 0)
        fail_msg("%s", err);
}

/* As a program that knows nothing of hashes. */
static void open_plain(void)
{
    close_db();
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/quire-salvage-%d", (int)getpid());
    mkdir(folder, 0700);
    snprintf(path, sizeof(path), "%s/db", folder);
    remove_files();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_db();
    free(whole.data);
    free(whole_log.data);
    whole = whole_log = (struct bytes){0};
    remove_files();
    rmdir(folder);
    return 0;
}

static void run(const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

/* ---- rows ---- */

/* A number's row. Bodies repeat the number: some are short, some fill a page, some have several
 * pages of their own. */
#define ID "printf('id-%06d',n)"
#define BODY                                                                                       \
    "replace(hex(zeroblob(json_extract('[5,87,25,1125,11,375,50,2500,7,187]','$['||(n%10)||']')))" \
    ",'00',printf('<%06d>',n))"
#define OWNER "printf('{%06d}%.*c',n,n%40,'x')"
#define A "(n-100)*(1<<n%50)"
#define B "CAST(n AS BLOB)"

/* Add a table's rows of every step-th number. */
static void add_rows(const char *insert, int first, int step, int end)
{
    char sql[1000];

    snprintf(sql, sizeof(sql),
             "WITH c(n) AS (SELECT %d UNION ALL SELECT n+%d FROM c WHERE n+%d<%d) %s FROM c", first,
             step, step, end, insert);
    run(sql);
}

static void add_notes(int first, int step)
{
    add_rows("INSERT INTO note(n,id,body) SELECT n," ID "," BODY, first, step, N_NOTES);
}

static void add_amounts(int first, int end)
{
    add_rows("INSERT INTO amount(day,owner,a,b) SELECT n/20," OWNER "," A "," B, first, 1, end);
}

static void fill(void)
{
    run("BEGIN");
    add_notes(0, 1);
    add_amounts(0, N_AMOUNTS);
    run("COMMIT");
}

/* Read all rows that a statement selects: a number, and whether the row is what it was. Returns how
 * many there are, or -1 if the last step has failed. */
static int read_rows(const char *sql, bool *seen, int n_max)
{
    sqlite3_stmt *st;
    int n_rows = 0, rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

    memset(seen, 0, (size_t)n_max * sizeof(*seen));
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        const int n = sqlite3_column_int(st, 0);

        assert_in_range(n, 0, n_max - 1);
        assert_int_equal(sqlite3_column_int(st, 1), 1);
        assert_false(seen[n]);
        seen[n] = true;
        n_rows++;
        rc = SQLITE_OK;
    }
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? n_rows : -1;
}

#define READ_NOTES "SELECT n,id=" ID " AND body=" BODY ",is_whole FROM whole_note"

static int read_notes(void)
{
    const int n = read_rows(READ_NOTES, has, N_NOTES);

    assert_true(n >= 0);
    return n;
}

/* Whether the row can be read; then it is what it was. */
static bool read_note(int n)
{
    bool seen[N_NOTES];
    char sql[500];

    snprintf(sql, sizeof(sql), "%s WHERE n=%d", READ_NOTES, n);
    return read_rows(sql, seen, N_NOTES) == 1;
}

static void read_amounts(bool amounts[N_AMOUNTS])
{
    const char *sql = "SELECT n,day=n/20 AND owner=" OWNER " AND a=" A " AND b=" B ",is_whole"
                      " FROM (SELECT *,CAST(substr(owner,2,6) AS INTEGER) AS n FROM whole_amount)";

    assert_true(read_rows(sql, amounts, N_AMOUNTS) >= 0);
}

/* ---- random damage ---- */

/* Rows of one day have the same key: they are saved together, and so are those before. */
static bool is_day_hit(const struct bytes *is, int day)
{
    char mark[20];

    for (int i = day * 20; i < day * 20 + 40; i++) {
        snprintf(mark, sizeof(mark), "{%06d}", i);
        if (is_hit(&whole, is, mark))
            return true;
    }
    return false;
}

/* A file with all rows, closed; its bytes are `whole`. */
static int set_up_full(void **state)
{
    set_up(state);
    open_db();
    fill();
    close_db();
    whole = read_file(path);
    return 0;
}

/* Every undamaged row is in the new file, and the loss of the others is reported. */
static void check_rows(const struct bytes *is)
{
    const uint64_t n_notes = N_NOTES - (uint64_t)read_notes();
    bool amounts[N_AMOUNTS], is_lost = n_notes > 0;
    char mark[20];

    read_amounts(amounts);
    for (int i = 0; i < N_NOTES; i++) {
        snprintf(mark, sizeof(mark), "<%06d>", i);
        if (!has[i] && !is_hit(&whole, is, mark))
            fail_msg("seed %d: note %d was on whole pages", (int)check_seed, i);
    }
    for (int i = 0; i < N_AMOUNTS; i++) {
        if (!amounts[i] && !is_day_hit(is, i / 20))
            fail_msg("seed %d: amount %d was on whole pages", (int)check_seed, i);
        is_lost = is_lost || !amounts[i];
    }
    assert_true(!is_lost || loss.is_recovered);
    assert_true(!is_lost || loss.n_rows > 0);
    assert_true(loss.is_unknown || loss.n_rows == n_notes);
}

static void test_random_damage(void **state)
{
    (void)state;
    assert_true(whole.n > 200 * (size_t)PAGE);
    for (uint64_t seed = 0; seed < 20 * N_KINDS; seed++) {
        struct bytes is = copy_of(&whole);

        check_seed = seed;
        close_db();
        remove_files();
        damage(&is, seed);
        write_file(path, &is);
        open_db();
        check_rows(&is);
        free(is.data);
    }
}

/* Without the check of an opening: pages change while the file is open, and a row that is read has
 * the values that were written, or its reading fails. */
static void test_rows_are_checked_when_read(void **state)
{
    int n_failed = 0;

    (void)state;
    open_db();
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct bytes is = copy_of(&whole);
        uint64_t random = seed;

        for (int i = 0; i < 300; i++)
            is.data[PAGE + random_below(&random, (uint32_t)(is.n - PAGE))] ^=
                (char)(1 + random_below(&random, 255));
        write_file(path, &is);
        sqlite3_db_release_memory(db);
        for (int n = 0; n < N_NOTES; n++)
            n_failed += !read_note(n);
        free(is.data);
    }
    assert_in_range(n_failed, 200 * 50, 200 * N_NOTES);
}

/* ---- after a recovery ---- */

/* Fill a page of `whole` with one value, and write the file. */
static void damage_page(size_t at, int value)
{
    assert_true(whole.n >= at + PAGE);
    memset(whole.data + at, value, PAGE);
    write_file(path, &whole);
}

/* A recovered file is a file like others, and the damaged one is kept. */
static void test_what_is_kept(void **state)
{
    struct stat st;

    (void)state;
    damage_page(5 * PAGE, 'x');
    open_db();
    assert_true(loss.is_recovered);
    check_file(beside(".damaged"), &whole);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    for (int i = 0; i < 2; i++) {
        open_db();
        assert_true(!loss.is_recovered && loss.n_rows == 0);
        run("DELETE FROM note; DELETE FROM amount");
        fill();
    }
}

/* The process that recovered the file ended before or after any of the changes of names: the
 * damaged file is recovered again. What its log had is in the file by then. */
static void test_killed_between_names(void **state)
{
    static const char *const ends[][3] = {
        /* the new file, which may be incomplete; the damaged one; its log */
        {".new", "", "-wal"},
        {".new", ".recovering", "-wal"},
        {".new", ".recovering", ".damaged-wal"},
        {"", ".recovering", ".damaged-wal"},
    };
    const struct bytes part = {whole.data, whole.n / 3}, none = {(char[]){""}, 0};
    struct bytes hurt = copy_of(&whole);
    int n_saved = 0;

    (void)state;
    memset(hurt.data + 5 * PAGE, 'x', PAGE);
    for (int step = 0; step < 4; step++) {
        close_db();
        remove_files();
        write_file(beside(ends[step][0]), step < 3 ? &part : &whole);
        write_file(beside(ends[step][1]), &hurt);
        write_file(beside(ends[step][2]), &none);
        write_file(beside(".damaged"), &part); /* an earlier one */
        open_db();
        assert_true(loss.is_recovered);
        assert_in_range(read_notes(), N_NOTES / 2, N_NOTES);
        assert_true(step == 0 || read_notes() == n_saved);
        n_saved = read_notes();
        check_file(beside(".damaged"), &hurt);
        assert_int_equal(access(beside(".new"), F_OK), -1);
        assert_int_equal(access(beside(".recovering"), F_OK), -1);
        open_db();
        assert_false(loss.is_recovered);
    }
    free(hurt.data);
}

/* No new file can be made, or a name is taken by a folder, or another process recovers the file,
 * which it has attached: the damaged file is as it was, and can be recovered later. */
static void test_no_room(void **state)
{
    static const char *const ends[] = {".new", ".recovering", ".damaged"};
    char attach[200];
    sqlite3 *other;

    (void)state;
    damage_page(5 * PAGE, 'x');
    for (int i = 0; i < 3; i++) {
        char inside[120];

        snprintf(inside, sizeof(inside), "%s/x", beside(ends[i]));
        assert_int_equal(mkdir(beside(ends[i]), 0700), 0);
        assert_int_equal(mkdir(inside, 0700), 0);
        assert_true(try_open() < 0);
        assert_true(strstr(err, path) != NULL && strstr(err, "damaged") != NULL);
        check_file(path, &whole);
        assert_int_equal(rmdir(inside), 0);
        assert_int_equal(rmdir(beside(ends[i])), 0);
    }
    snprintf(attach, sizeof(attach),
             "PRAGMA locking_mode=EXCLUSIVE; ATTACH '%s' AS damaged;"
             "PRAGMA damaged.user_version",
             path);
    assert_int_equal(sqlite3_open(":memory:", &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, attach, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(try_open(), ERR_BUSY);
    check_file(path, &whole);
    sqlite3_close(other);
    open_db();
    assert_true(loss.is_recovered);
}

/* ---- one kind of damage each ---- */

/* Open the damaged file: exactly so many notes are lost, and no other rows. */
static void check_lost(uint64_t n_lost, int n_left)
{
    open_db();
    assert_true(loss.is_recovered && !loss.is_unknown && loss.n_rows == n_lost);
    assert_int_equal(read_notes(), n_left);
}

/* Return where the n-th page of the type that has the mark begins: 10 is that of an index or a
 * table without rowids, 0 of a long body. */
static size_t find_page(char type, const char *mark, int n)
{
    for (size_t at = PAGE; at < whole.n; at += PAGE)
        if (whole.data[at] == type && memmem(whole.data + at, PAGE, mark, strlen(mark)) != NULL &&
            --n == 0)
            return at;
    fail_msg("no page has %s", mark);
    return 0;
}

/* One byte of a body changes while the file is served: the row's reading and its update fail, other
 * rows are read; the next opening recovers the file, although its pages are in order. */
static void test_a_byte_of_a_body(void **state)
{
    static const char *const statements[] = {
        "SELECT body,is_whole FROM whole_note WHERE id='id-000101'",
        "UPDATE note SET id='other' WHERE n=101"};
    char *at = memmem(whole.data, whole.n, "<000101>", 8);

    (void)state;
    open_db();
    assert_non_null(at);
    at[3] ^= 4;
    write_file(path, &whole);
    sqlite3_db_release_memory(db);
    for (int i = 0; i < 2; i++) {
        bool is_damaged = false;

        assert_int_equal(sqlite3_exec(db, statements[i], NULL, NULL, NULL), SQLITE_CORRUPT);
        assert_non_null(strstr(sqlite_file_fail(db, &is_damaged), "damaged"));
        assert_true(is_damaged);
    }
    assert_true(read_note(100) && read_note(102));
    run("DELETE FROM note WHERE n=100");
    check_lost(1, N_NOTES - 2);
    assert_false(has[100] || has[101]);
}

/* An UPDATE gives the row the hash of its new values; a row that a statement leaves out does not
 * fail for the values that it has not. */
static void test_an_update(void **state)
{
    (void)state;
    open_db();
    add_notes(1, N_NOTES);
    run("UPDATE note SET id='other' WHERE n=1");
    assert_int_equal(sqlite3_changes(db), 1);
    run("INSERT OR REPLACE INTO note(n,id,body) SELECT n,'id-000001',body FROM whole_note");
    assert_true(read_note(1));
    run("SELECT is_whole FROM whole_note WHERE n=1 AND body='other'");
    assert_int_equal(sqlite3_exec(db, "INSERT INTO note(n,id) VALUES(2,'a')", NULL, NULL, NULL),
                     SQLITE_CONSTRAINT);
    open_db();
    assert_false(loss.is_recovered);
}

/* A page of an index is lost, and no row; or the application_id is another, and the definition of
 * the tables tells that the file is ours; or a damaged cell lacks its hash. */
static void test_exact_losses(void **state)
{
    (void)state;
    whole.data[70] ^= 1;
    write_file(path, &whole);
    check_lost(0, N_NOTES);
    close_db();
    damage_page(find_page(10, "id-", 2), 0x55);
    check_lost(0, N_NOTES);
    open_plain();
    run("UPDATE note SET hash=NULL WHERE n=3");
    check_lost(1, N_NOTES - 1);
    assert_false(has[3]);
}

/* The end is missing: the file says that it is longer. Then the header is too: all is lost and
 * told, and the file is kept. */
static void test_no_end_and_no_header(void **state)
{
    (void)state;
    whole.n = whole.n / 2 + 100;
    write_file(path, &whole);
    open_db();
    assert_in_range(read_notes(), N_NOTES / 4, N_NOTES - 1);
    assert_true(loss.is_recovered && loss.n_rows > 0);
    close_db();
    memset(whole.data, 0, 100);
    write_file(path, &whole);
    open_db();
    assert_true(loss.is_recovered && loss.is_unknown && loss.n_rows > 0);
    assert_int_equal(read_notes(), 0);
    add_notes(1, N_NOTES);
    check_file(beside(".damaged"), &whole);
}

/* A thousand keys fail one after the other: all other rows are saved. */
static void test_many_keys(void **state)
{
    static bool seen[N_MANY];
    struct bytes hurt;
    char mark[20], *at;
    int n_rows;

    (void)state;
    open_db();
    add_rows("INSERT INTO note(n,id,body) SELECT n," ID ",printf('<%06d>',n)", 0, 1, N_MANY);
    close_db();
    whole = read_file(path);
    hurt = copy_of(&whole);
    for (int n = 5000; n < 6000; n++) {
        snprintf(mark, sizeof(mark), "<%06d>", n);
        at = memmem(hurt.data, hurt.n, mark, 8);
        if (at != NULL)
            memset(hurt.data + (at - hurt.data) / PAGE * PAGE, 'x', PAGE);
    }
    write_file(path, &hurt);
    open_db();
    n_rows = read_rows("SELECT n,body=printf('<%06d>',n),is_whole FROM whole_note", seen, N_MANY);
    assert_in_range(n_rows, N_MANY - 1300, N_MANY - 1000);
    assert_true(!loss.is_unknown && loss.n_rows == (uint64_t)(N_MANY - n_rows));
    for (int n = 0; n < N_MANY; n++) {
        snprintf(mark, sizeof(mark), "<%06d>", n);
        assert_true(seen[n] || is_hit(&whole, &hurt, mark));
    }
    free(hurt.data);
}

/* A table without an index, whose page says that it has no cells: no statement fails, and nothing
 * names the rows. */
static void test_rows_that_nothing_names(void **state)
{
    bool amounts[N_AMOUNTS];
    size_t page;

    (void)state;
    open_db();
    add_amounts(0, 5);
    close_db();
    whole = read_file(path);
    page = find_page(10, "{000000}", 1);
    whole.data[page + 3] = whole.data[page + 4] = 0;
    write_file(path, &whole);
    open_db();
    assert_true(loss.is_recovered && loss.is_unknown && loss.n_rows > 0);
    read_amounts(amounts);
    assert_false(amounts[0]);
}

/* ---- the log of changes ---- */

/* Make a database and its log as a process that was killed leaves them. In the log are n
 * transactions, each with every step-th note. */
static void make_killed(int n, int step)
{
    open_db();
    run("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0");
    for (int i = 0; i < n; i++)
        add_notes(i, step);
    whole = read_file(path);
    whole_log = read_file(beside("-wal"));
}

static void put_killed(const struct bytes *log)
{
    close_db();
    remove_files();
    write_file(path, &whole);
    write_file(beside("-wal"), log);
    open_db();
}

/* SQLite takes the changes before the damaged piece, or those that had an end before a log that
 * ends in mid-change, and no others. */
static void test_damaged_and_torn_logs(void **state)
{
    (void)state;
    make_killed(N_PIECES, N_PIECES);
    for (uint64_t seed = 0; seed < 36; seed++) {
        struct bytes is = copy_of(&whole_log);
        uint64_t random = seed;
        const size_t at = random_below(&random, (uint32_t)is.n);
        int n;

        if (seed % 3 == 0)
            is.n = at;
        else if (seed % 4 == 1)
            memset(is.data, 0xff, 32); /* the title */
        else
            is.data[at] ^= 0x55;
        put_killed(&is);
        n = read_notes();
        assert_int_equal(n % (N_NOTES / N_PIECES), 0);
        for (int k = 0; k < N_NOTES; k++)
            assert_true(has[k] == (k % N_PIECES < n / (N_NOTES / N_PIECES)));
        assert_true(n < N_NOTES && !loss.is_recovered && loss.n_rows == 0);
        free(is.data);
    }
}

/* A damaged file whose log has changes: they are recovered too, and are in the damaged file before
 * its name changes, so that the process may end then. */
static void test_damage_below_a_log(void **state)
{
    (void)state;
    open_db();
    add_notes(1, 2);
    make_killed(1, 2);
    memset(whole.data + find_page(0, "<000107>", 2), 0x77, PAGE); /* a page of its body */
    put_killed(&whole_log);
    for (int i = 0; i < 2; i++) {
        open_db();
        assert_true(loss.is_recovered == (i > 0) && loss.n_rows == (uint64_t)i);
        assert_int_equal(read_notes(), N_NOTES - 1);
        assert_false(has[107]);
        close_db();
        assert_int_equal(unlink(beside("-wal")), 0);
        assert_int_equal(rename(beside(".damaged"), path), 0);
    }
}

/* ---- other files ---- */

/* Make a file of the version before, with every step-th note. */
static void make_old(int reserved, const char *schema, int step)
{
    open_plain();
    sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
    run(schema);
    run("PRAGMA journal_mode=WAL; PRAGMA application_id=1364525057; PRAGMA user_version=3");
    add_notes(0, step);
    close_db();
    whole = read_file(path);
}

/* A file of the version before: without hashes, with reserved bytes, and without a table that came
 * later. What it has is not checked; what is written to it now is. Nothing of it stays behind, and
 * a damaged file that was kept does. */
static void test_the_version_before(void **state)
{
    const struct bytes kept = {(char[]){"kept"}, 4};

    (void)state;
    make_old(8, "CREATE TABLE note(n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body TEXT)", 2);
    assert_int_equal(whole.data[20], 8);
    write_file(beside(".damaged"), &kept);
    for (int i = 0; i < 2; i++) {
        open_db();
        assert_false(loss.is_recovered || loss.is_unknown || loss.n_rows > 0);
        assert_int_equal(read_notes(), i == 0 ? N_NOTES / 2 : N_NOTES);
        if (i == 0)
            add_notes(1, 2);
        run("UPDATE note SET id=id WHERE n=0");
        add_amounts(i, i + 1);
    }
    close_db();
    free(whole.data);
    whole = read_file(path);
    assert_int_equal(whole.data[20], 0); /* so that builds of that version refuse it */
    check_file(beside(".damaged"), &kept);
    assert_int_equal(access(beside(".recovering"), F_OK), -1);
    assert_int_equal(access(beside(".damaged-wal"), F_OK), -1);
}

/* A damaged file of that version: rows get their hashes when they are recovered. */
static void test_the_version_before_damaged(void **state)
{
    (void)state;
    make_old(0, SCHEMA(""), 1);
    damage_page(8 * PAGE, 'x');
    open_db();
    assert_true(loss.is_recovered);
    assert_in_range(read_notes(), N_NOTES / 2, N_NOTES);
    check_file(beside(".damaged"), &whole);
}

/* The file is refused, and as it was. */
static void expect_refused(int rc, const char *why)
{
    struct bytes is;

    close_db();
    is = read_file(path);
    assert_int_equal(try_open(), rc);
    if (strstr(err, path) == NULL || strstr(err, why) == NULL)
        fail_msg("%s", err);
    check_file(path, &is);
    free(is.data);
    remove_files();
}

static void test_other_databases(void **state)
{
    sqlite3 *other;

    (void)state;
    open_plain();
    run("CREATE TABLE t(a)");
    expect_refused(ERR_FORMAT, "another program; move it away");
    open_db();
    run("PRAGMA user_version=2");
    expect_refused(ERR_FORMAT, "version 2, and this build reads 4");
    open_db();
    run("PRAGMA user_version=5");
    expect_refused(ERR_FORMAT, "version 5, and this build reads 4");
    open_plain();
    run("CREATE TABLE note(a); PRAGMA application_id=1364525057; PRAGMA user_version=3");
    expect_refused(ERR_FORMAT, "its tables are others");
    open_db();
    assert_int_equal(sqlite_file_open(&other, path, &form, &loss, err, sizeof(err)), ERR_BUSY);
    assert_null(other);
}

/* A file that is not ours is never replaced, however it looks. */
static void test_files_of_others(void **state)
{
    uint64_t random = 7;

    (void)state;
    whole = (struct bytes){calloc(1, 20 * PAGE), 20 * PAGE};
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < whole.n; i++)
            whole.data[i] = (char)random_below(&random, 256);
        if (round == 1)
            memcpy(whole.data, "SQLite format 3", 16);
        if (round == 2)
            memset(whole.data, 0, whole.n);
        write_file(path, &whole);
        expect_refused(ERR_FORMAT, "not a database; move it away");
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define FULL(name) cmocka_unit_test_setup_teardown(name, set_up_full, tear_down)
    const struct CMUnitTest tests[] = {
        FULL(test_random_damage),
        FULL(test_rows_are_checked_when_read),
        FULL(test_what_is_kept),
        FULL(test_killed_between_names),
        FULL(test_no_room),
        FULL(test_a_byte_of_a_body),
        TEST(test_an_update),
        FULL(test_exact_losses),
        FULL(test_no_end_and_no_header),
        TEST(test_many_keys),
        TEST(test_rows_that_nothing_names),
        TEST(test_damaged_and_torn_logs),
        TEST(test_damage_below_a_log),
        TEST(test_the_version_before),
        TEST(test_the_version_before_damaged),
        TEST(test_other_databases),
        TEST(test_files_of_others),
    };

    log_setup(LOG_OFF, false, 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
