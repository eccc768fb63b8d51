/* tests/unit/server/test_sqlite_salvage.c - databases that are damaged at random places: what comes
 * out went in, what lies on whole pages comes out, and what does not is counted. Each row has its
 * number in every few bytes, so that the bytes of the file say which pages it lies on. */
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
#include "server/storage/sqlite_pages.h"
#include "server/storage/sqlite_place.h"
#include "tests/fixtures/files.h"
#include "tests/fixtures/random.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE SQLITE_PAGES_SIZE
#define N_NOTES 300
#define N_AMOUNTS 400
#define MAX_BODY 20000
#define N_PIECES 10 /* transactions of a log */

static const struct sqlite_table tables[] = {
    {"note", 3, false, "INSERT OR IGNORE INTO note SELECT ?4,?2,?3"},
    {"amount", 5, true, "INSERT OR IGNORE INTO amount VALUES(?1,?2,?3,?4,?5)"},
};

static struct sqlite_form form = {
    .what = "notes",
    .schema = "CREATE TABLE IF NOT EXISTS note(n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
              " body TEXT NOT NULL);"
              "CREATE TABLE IF NOT EXISTS amount(day INTEGER NOT NULL, owner TEXT NOT NULL,"
              " a INTEGER, b REAL, c BLOB, PRIMARY KEY(day,owner)) WITHOUT ROWID;",
    .application_id = 0x51550001,
    .version = 3,
    .tables = tables,
    .n_tables = 2,
    .enter_lost = "INSERT OR IGNORE INTO lost SELECT 'note',?2 WHERE ?1=2 AND"
                  " NOT EXISTS(SELECT 1 FROM note WHERE id=?2)",
};

static char folder[64], path[80], log_path[90];
static char err[300];

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
    static const char *const ends[] = {"", "-wal", ".damaged", ".damaged-wal", ".new",
                                       ".saved"};
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
    sql = sqlite3_mprintf("INSERT INTO note VALUES(%d,'id-%06d',%Q)", n, n, body);
    run(db, sql);
    sqlite3_free(sql);
}

static void add_amount(sqlite3 *db, int n)
{
    char owner[60];
    char *sql;

    owner_of(n, owner);
    sql = sqlite3_mprintf("INSERT INTO amount VALUES(%d,%Q,%lld,%d.25,x'%02x')", n / 20, owner,
                          ((long long)n - 100) * (1LL << n % 50), n, n % 256);
    run(db, sql);
    sqlite3_free(sql);
}

static void fill(sqlite3 *db)
{
    run(db, "BEGIN");
    for (int n = 0; n < N_NOTES; n++)
        add_note(db, n);
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
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT n,id,body FROM note", -1, &st, NULL), 0);
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

static void read_amounts(sqlite3 *db, bool has[N_AMOUNTS])
{
    sqlite3_stmt *st;
    char owner[60];
    int rc;

    memset(has, 0, N_AMOUNTS * sizeof(*has));
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM amount", -1, &st, NULL), 0);
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        const int n = (int)strtol((const char *)sqlite3_column_text(st, 1) + 1, NULL, 10);

        assert_in_range(n, 0, N_AMOUNTS - 1);
        owner_of(n, owner);
        assert_int_equal(sqlite3_column_int(st, 0), n / 20);
        assert_string_equal((const char *)sqlite3_column_text(st, 1), owner);
        assert_true(sqlite3_column_int64(st, 2) == ((int64_t)n - 100) * (INT64_C(1) << n % 50));
        assert_true(sqlite3_column_double(st, 3) == n + 0.25);
        assert_int_equal(*(const unsigned char *)sqlite3_column_blob(st, 4), n % 256);
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

static void (*const kinds[])(struct bytes *b, uint64_t *seed) = {
    flip, zero_pages, zero_sector, cut_short, hit_header, copy_page};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Is the mark on a page that is not what it was? Pages that have `but` too do not count. */
static bool is_hit(const struct bytes *was, const struct bytes *is, const char *mark,
                   const char *but)
{
    for (size_t at = 0; at < was->n; at += PAGE) {
        const char *page = was->data + at;

        if (at + PAGE <= is->n && memcmp(page, is->data + at, PAGE) == 0)
            continue;
        if (memmem(page, PAGE, mark, strlen(mark)) != NULL &&
            (but == NULL || memmem(page, PAGE, but, strlen(but)) == NULL))
            return true;
    }
    return false;
}

/* What is whole is there; and what is not is counted, where an index still knows of it. */
static void check_notes(sqlite3 *db, const struct bytes *was, const struct bytes *is,
                        const struct sqlite_loss *loss)
{
    bool has[N_NOTES];
    uint64_t n_known = 0;
    const int n = read_notes(db, has);

    for (int i = 0; i < N_NOTES; i++) {
        char mark[20], id[20];

        snprintf(mark, sizeof(mark), "<%06d>", i);
        snprintf(id, sizeof(id), "id-%06d", i);
        if (!has[i] && !is_hit(was, is, mark, NULL))
            fail_msg("note %d was on whole pages", i);
        n_known += !has[i] && !is_hit(was, is, id, mark);
    }
    assert_true(loss->n_rows >= n_known && (n == 0 || loss->n_rows <= (uint64_t)(N_NOTES - n)));
}

static void check_amounts(sqlite3 *db, const struct bytes *was, const struct bytes *is)
{
    bool has[N_AMOUNTS];

    read_amounts(db, has);
    for (int i = 0; i < N_AMOUNTS; i++) {
        char mark[20];

        snprintf(mark, sizeof(mark), "{%06d}", i);
        if (!has[i] && !is_hit(was, is, mark, NULL))
            fail_msg("amount %d was on whole pages", i);
    }
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

        remove_files();
        is = copy_of(&was);
        kinds[seed % N_KINDS](&is, &random);
        write_file(path, &is);
        db = open_db(&loss);
        check_notes(db, &was, &is, &loss);
        check_amounts(db, &was, &is);
        sqlite3_close(db);
        free(is.data);
    }
    free(was.data);
}

/* One that was saved is a file like others. */
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
    is = read_file(path);
    memset(is.data + 5 * PAGE, 'x', PAGE);
    write_file(path, &is);
    db = open_db(&loss);
    assert_true(loss.is_salvaged);
    sqlite3_close(db);
    snprintf(name, sizeof(name), "%s.damaged", path);
    kept = read_file(name);
    assert_int_equal(kept.n, is.n);
    assert_memory_equal(kept.data + PAGE, is.data + PAGE, is.n - PAGE);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    db = open_db(&loss);
    assert_false(loss.is_salvaged);
    assert_true(loss.n_rows == 0);
    run(db, "DELETE FROM note; DELETE FROM amount");
    fill(db);
    run(db, "PRAGMA integrity_check");
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

static void expect_beside(const char *end, const struct bytes *b)
{
    char name[100];
    struct bytes is;

    snprintf(name, sizeof(name), "%s%s", path, end);
    is = read_file(name);
    assert_int_equal(is.n, b->n);
    assert_memory_equal(is.data, b->data, b->n);
    free(is.data);
}

/* The process that made a new file ended before any of the three changes of names, and after the
 * second one: the next has what that one saved, and all of the damaged one, with its log. */
static void test_killed_between_names(void **state)
{
    static const char *const places[][2] = {
        {"", "-wal"}, {".damaged", "-wal"}, {".damaged", ".damaged-wal"}};
    struct bytes older = {(char[]){"of an older one"}, 15}, log = {(char[]){"its log"}, 7};
    struct bytes whole, is;
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    bool has[N_NOTES];
    char saved[100];

    (void)state;
    fill(db);
    sqlite3_close(db);
    whole = read_file(path);
    is = copy_of(&whole);
    memset(is.data + 5 * PAGE, 'x', PAGE);
    snprintf(saved, sizeof(saved), "%s.saved", path);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        remove_files();
        write_beside(".damaged", &older);
        write_beside(".damaged-wal", &older);
        write_beside(places[i][0], &is);
        write_beside(places[i][1], &log);
        write_beside(".saved", &whole);
        db = open_db(&loss);
        assert_true(loss.is_salvaged);
        assert_int_equal(read_notes(db, has), N_NOTES);
        sqlite3_close(db);
        expect_beside(".damaged", &is);
        expect_beside(".damaged-wal", &log);
        assert_int_equal(access(saved, F_OK), -1);
        db = open_db(&loss);
        assert_false(loss.is_salvaged);
        sqlite3_close(db);
    }
    free(whole.data);
    free(is.data);
}

/* While another process does that, and when it has just done so. */
static void test_another_is_at_it(void **state)
{
    struct bytes b = {(char[]){"new"}, 3};
    char saved[100];
    int fd;

    (void)state;
    snprintf(saved, sizeof(saved), "%s.saved", path);
    write_beside(".saved", &b);
    write_beside("", &b);
    fd = open(saved, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(sqlite_place_finish(path), ERR_BUSY);
    assert_int_equal(access(path, F_OK) | access(saved, F_OK), 0);
    close(fd);
    assert_int_equal(sqlite_place_finish(path), 1);
    assert_int_equal(sqlite_place_finish(path), 0);
}

/* No new file can be made: the damaged one is as it was, and can be saved later. */
static void test_no_room(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes is, then;
    char name[100];
    bool has[N_NOTES];

    (void)state;
    fill(db);
    sqlite3_close(db);
    is = read_file(path);
    memset(is.data, 0, 100);
    write_file(path, &is);
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
    assert_true(loss.is_salvaged && loss.n_rows == 0);
    assert_int_equal(read_notes(db, has), N_NOTES);
    sqlite3_close(db);
    free(is.data);
    free(then.data);
}

/* While it is served: an error of that call, never other bytes, and the next opening mends it, even
 * if it would not find the page by itself. */
static void test_while_it_is_open(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    struct bytes was, is;
    bool has[N_NOTES];

    (void)state;
    fill(db);
    sqlite3_close(db);
    was = read_file(path);
    db = open_db(&loss);
    is = copy_of(&was);
    for (size_t at = PAGE; at < is.n; at += PAGE)
        is.data[at + 2000] ^= 1;
    write_file(path, &is);
    sqlite3_db_release_memory(db);
    assert_int_equal(sqlite3_exec(db, "SELECT sum(length(body)) FROM note", NULL, NULL, NULL),
                     SQLITE_IOERR);
    assert_int_equal(sqlite3_extended_errcode(db), SQLITE_IOERR_DATA);
    assert_non_null(strstr(sqlite_file_fail(db), "damaged"));
    sqlite3_close(db);
    free(is.data);
    is = read_file(path); /* its first page has the mark */
    memcpy(is.data + PAGE, was.data + PAGE, was.n - PAGE);
    write_file(path, &is);
    db = open_db(&loss);
    assert_true(loss.is_salvaged && loss.n_rows == 0);
    assert_int_equal(read_notes(db, has), N_NOTES);
    sqlite3_close(db);
    free(was.data);
    free(is.data);
}

/* ---- the log of changes ---- */

/* A database and its log as a process that was killed leaves them. */
static void make_killed(struct bytes *file, struct bytes *log, bool is_in_file)
{
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);

    run(db, "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0");
    for (int i = 0; i < N_PIECES; i++) {
        run(db, "BEGIN");
        for (int n = i; n < N_NOTES; n += N_PIECES)
            add_note(db, n);
        run(db, "COMMIT");
    }
    if (is_in_file)
        run(db, "PRAGMA wal_checkpoint(PASSIVE)");
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

/* Rows that have no byte in a damaged piece are there; of the last change there may be none. */
static void check_log(const struct bytes *was, const struct bytes *is, uint64_t seed)
{
    const size_t piece = 24 + PAGE;
    struct sqlite_loss loss;
    sqlite3 *db = open_db(&loss);
    bool has[N_NOTES];

    read_notes(db, has);
    for (int i = 0; i < N_NOTES; i++) {
        bool is_hurt = has[i] || i % N_PIECES == N_PIECES - 1;
        char mark[20];

        snprintf(mark, sizeof(mark), "<%06d>", i);
        for (size_t at = 32; !is_hurt && at + piece <= was->n; at += piece)
            is_hurt = memcmp(was->data + at, is->data + at, piece) != 0 &&
                      memmem(was->data + at + 24, PAGE, mark, 8) != NULL;
        if (!is_hurt)
            fail_msg("seed %d: note %d was in whole pieces", (int)seed, i);
    }
    sqlite3_close(db);
}

static void test_a_damaged_log(void **state)
{
    struct bytes file, log, is;

    (void)state;
    for (uint64_t seed = 0; seed < 24; seed++) {
        uint64_t random = seed;

        if (seed % 12 == 0) {
            form.is_durable = seed == 0; /* else the file says that the log had been whole */
            remove_files();
            make_killed(&file, &log, seed != 0);
        }
        is = copy_of(&log);
        for (uint32_t i = random_below(&random, 3) + 1; i > 0; i--)
            is.data[32 + 4120 * random_below(&random, (uint32_t)(log.n / 4120)) + 24 +
                    random_below(&random, PAGE)] ^= 0x55;
        if (seed % 4 == 1)
            memset(is.data, 0xff, 32); /* the title */
        put_killed(&file, &is);
        check_log(&log, &is, seed);
        free(is.data);
        if (seed % 12 == 11) {
            free(file.data);
            free(log.data);
        }
    }
}

/* A log that ends in mid-change is none that was damaged: what had an end before is there. */
static void test_a_torn_log(void **state)
{
    struct bytes file, log;
    uint64_t random = 1;

    (void)state;
    make_killed(&file, &log, false);
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
        assert_false(loss.is_salvaged);
        assert_true(loss.n_rows == 0);
        for (int k = 0; k < N_NOTES; k++)
            assert_true(has[k] == (k % N_PIECES < n / (N_NOTES / N_PIECES)));
        sqlite3_close(db);
    }
    free(file.data);
    free(log.data);
}

/* Changes that were not yet in the file, of a database that may lose the last ones: SQLite stops
 * before them, and that is told. */
static void test_a_log_that_is_cut(void **state)
{
    struct bytes file, log;
    struct sqlite_loss loss;
    bool has[N_NOTES];
    sqlite3 *db;

    (void)state;
    form.is_durable = false;
    make_killed(&file, &log, false);
    log.data[log.n / 2] ^= 1;
    put_killed(&file, &log);
    db = open_db(&loss);
    assert_in_range(read_notes(db, has), 30, N_NOTES - 30);
    assert_false(loss.is_salvaged);
    assert_true(loss.n_rows > 0);
    sqlite3_close(db);
    free(file.data);
    free(log.data);
}

/* ---- other files ---- */

/* Of a build without checksums: it is read and written as it is. */
static void test_pages_without_checksums(void **state)
{
    struct sqlite_loss loss;
    sqlite3 *db;
    bool has[N_NOTES];
    struct bytes is;

    (void)state;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    run(db, form.schema);
    run(db, "PRAGMA application_id=1364525057; PRAGMA user_version=3");
    sqlite3_close(db);
    for (int i = 0; i < 2; i++) {
        db = open_db(&loss);
        if (i == 0)
            fill(db);
        assert_int_equal(read_notes(db, has), N_NOTES);
        assert_false(loss.is_salvaged);
        sqlite3_close(db);
    }
    is = read_file(path);
    assert_int_equal(is.data[20], 0);
    free(is.data);
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
        TEST(test_what_is_kept),
        TEST(test_killed_between_names),
        TEST(test_another_is_at_it),
        TEST(test_no_room),
        TEST(test_while_it_is_open),
        TEST(test_a_damaged_log),
        TEST(test_a_torn_log),
        TEST(test_a_log_that_is_cut),
        TEST(test_pages_without_checksums),
        TEST(test_files_of_others),
    };

    log_setup(LOG_OFF, false, 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
