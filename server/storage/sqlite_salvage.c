/* server/storage/sqlite_salvage.c - see sqlite_salvage.h.
 *
 * Two passes over all pages of the image: the first inserts the rows of tables into a new database,
 * the second enters what indexes still know of rows that are missing into the table `lost`. Which
 * table a row belongs to follows from its number of columns. The form's statements then remove rows
 * that cannot stay alone. Everything is one transaction; sqlite_place_take() puts the file in
 * place.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/sqlite_salvage.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "server/storage/sqlite_pages.h"
#include "server/storage/sqlite_place.h"
#include "server/storage/sqlite_record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_TABLES 4
/* Lost rows that are logged one by one. */
#define MAX_NAMED 1000
#define MAX_KEY 4
#define MAX_PATH 4096

struct salvage {
    const struct sqlite_image *image;
    const struct sqlite_form *form;
    sqlite3 *db; /* the new database */
    sqlite3_stmt *insert[MAX_TABLES], *enter_lost;
    uint64_t n_rows, n_unread; /* rows that were saved; rows with a page that is not whole */
    uint32_t n_bad;            /* pages */
    struct sqlite_record record;
};

/* ---- the new database ---- */

static const char modes[] = "PRAGMA locking_mode=EXCLUSIVE;"
                            "PRAGMA journal_mode=OFF;"
                            "PRAGMA synchronous=OFF;"
                            "PRAGMA secure_delete=ON;"
                            "PRAGMA temp_store=MEMORY;";

static const char lists[] = "CREATE TEMP TABLE lost(what,id,PRIMARY KEY(what,id)) WITHOUT ROWID;"
                            "CREATE TEMP TABLE damage(n_pages);"
                            "BEGIN;";

static int prepare_salvage(struct salvage *s)
{
    int rc = SQLITE_OK;

    for (uint32_t i = 0; rc == SQLITE_OK && i < s->form->n_tables; i++)
        rc = sqlite3_prepare_v2(s->db, s->form->tables[i].insert, -1, &s->insert[i], NULL);
    if (rc == SQLITE_OK && s->form->enter_lost != NULL)
        rc = sqlite3_prepare_v2(s->db, s->form->enter_lost, -1, &s->enter_lost, NULL);
    return rc;
}

static int begin_salvage(struct salvage *s, const char *path)
{
    char ids[100];
    int rc, fd;

    unlink(path);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return SQLITE_CANTOPEN;
    close(fd);
    snprintf(ids, sizeof(ids), "PRAGMA application_id=%" PRIu32 ";PRAGMA user_version=%" PRIu32,
             s->form->application_id, s->form->version);
    rc = sqlite_pages_open(&s->db, path, s->form->application_id, true);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, modes, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, s->form->schema, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, ids, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, lists, NULL, NULL, NULL);
    return rc == SQLITE_OK ? prepare_salvage(s) : rc;
}

static void end_salvage(struct salvage *s)
{
    for (uint32_t i = 0; i < MAX_TABLES; i++)
        sqlite3_finalize(s->insert[i]);
    sqlite3_finalize(s->enter_lost);
    sqlite3_close(s->db);
    sqlite_record_release(&s->record);
}

/* ---- rows ---- */

/* Step a statement. A row that the schema refuses is not one of ours, and is left out. */
static int run_salvage_step(sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);

    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    rc &= 0xff;
    return rc == SQLITE_DONE || rc == SQLITE_CONSTRAINT || rc == SQLITE_MISMATCH ? SQLITE_OK : rc;
}

static int save_row(struct salvage *s, bool of_index)
{
    const struct sqlite_record *r = &s->record;
    int rc;

    for (uint32_t i = 0; i < s->form->n_tables; i++) {
        const struct sqlite_table *t = &s->form->tables[i];

        if (t->n_columns != r->n || t->is_index != of_index)
            continue;
        for (uint32_t c = 0; c < r->n; c++)
            sqlite_record_bind(r, c, s->insert[i], (int)c + 1);
        if (!of_index)
            sqlite3_bind_int64(s->insert[i], (int)r->n + 1, r->row);
        rc = run_salvage_step(s->insert[i]);
        s->n_rows += rc == SQLITE_OK && sqlite3_changes(s->db) > 0;
        return rc;
    }
    return SQLITE_OK;
}

static int enter_lost(struct salvage *s, bool of_index)
{
    const struct sqlite_record *r = &s->record;

    if (!of_index || s->enter_lost == NULL || r->n < 2 || r->n > MAX_KEY)
        return SQLITE_OK;
    sqlite3_bind_int64(s->enter_lost, 1, r->n);
    for (uint32_t i = 0; i < r->n; i++)
        sqlite_record_bind(r, i, s->enter_lost, (int)i + 2);
    return run_salvage_step(s->enter_lost);
}

static int read_records(struct salvage *s, const unsigned char *page, uint32_t number,
                        bool of_index, int (*each)(struct salvage *s, bool of_index))
{
    const uint32_t n = sqlite_record_count(page, number, of_index);
    int rc = SQLITE_OK;

    for (uint32_t i = 0; rc == SQLITE_OK && i < n; i++) {
        const int read = sqlite_record_read(&s->record, s->image, page, number, i);

        if (read == ERR_NOMEM)
            rc = SQLITE_NOMEM;
        else if (read == 0)
            rc = each(s, of_index);
        else
            s->n_unread += each == save_row && !of_index;
    }
    return rc;
}

/* Whether SQLite uses the page: never the one with the bytes that it locks. */
static bool is_used(uint32_t number)
{
    return number != 0x40000000 / SQLITE_PAGES_SIZE + 1;
}

static int read_pages(struct salvage *s, int (*each)(struct salvage *s, bool of_index))
{
    unsigned char page[SQLITE_PAGES_SIZE];
    int rc = SQLITE_OK;

    s->n_bad = 0;
    for (uint32_t i = 1; rc == SQLITE_OK && i <= s->image->n_pages; i++) {
        if (!sqlite_image_read(s->image, i, page)) {
            s->n_bad += is_used(i);
            continue;
        }
        rc = read_records(s, page, i, false, each);
        if (rc == SQLITE_OK)
            rc = read_records(s, page, i, true, each);
    }
    return rc;
}

/* Save the rows first: then whatever the indexes have beyond them is lost. */
static int save(struct salvage *s)
{
    char damage[80];
    int rc = read_pages(s, save_row);

    if (rc == SQLITE_OK && s->enter_lost != NULL)
        rc = read_pages(s, enter_lost);
    snprintf(damage, sizeof(damage), "INSERT INTO damage VALUES(%" PRIu32 ")", s->n_bad);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, damage, NULL, NULL, NULL);
    if (rc == SQLITE_OK && s->form->settle != NULL)
        rc = sqlite3_exec(s->db, s->form->settle, NULL, NULL, NULL);
    return rc == SQLITE_OK ? sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) : rc;
}

/* ---- what is lost ---- */

static uint64_t name_lost(struct salvage *s, const char *path)
{
    char quoted[2][300];
    sqlite3_stmt *st = NULL;
    uint64_t n = 0;

    if (sqlite3_prepare_v2(s->db, "SELECT what,id FROM lost", -1, &st, NULL) != SQLITE_OK)
        return 0;
    for (; sqlite3_step(st) == SQLITE_ROW; n++) {
        const char *id = (const char *)sqlite3_column_text(st, 1);

        if (n < MAX_NAMED)
            log_error("database", "event=row_lost file=%s table=%s id=%s",
                      log_quote(quoted[0], sizeof(quoted[0]), path),
                      (const char *)sqlite3_column_text(st, 0),
                      log_quote(quoted[1], sizeof(quoted[1]), id != NULL ? id : ""));
    }
    sqlite3_finalize(st);
    return n;
}

/* Log and count the losses. If nothing has names, count at least one row for each lost page. */
static void tell_loss(struct salvage *s, const char *path, struct sqlite_loss *loss)
{
    char quoted[300];
    uint64_t n = name_lost(s, path);

    n = n > s->n_unread ? n : s->n_unread;
    if (s->form->enter_lost == NULL || s->n_rows == 0)
        n = n > s->n_bad ? n : s->n_bad;
    loss->is_salvaged = true;
    loss->n_rows += n;
    log_error("database",
              "event=database_saved file=%s saved=%" PRIu64 " lost=%" PRIu64 " pages=%" PRIu32
              " pages_damaged=%" PRIu32,
              log_quote(quoted, sizeof(quoted), path), s->n_rows, n, s->image->n_pages, s->n_bad);
}

/* ---- files ---- */

int sqlite_salvage(const struct sqlite_image *image, const char *path,
                   const struct sqlite_form *form, struct sqlite_loss *loss, char *err,
                   size_t err_len)
{
    struct salvage s = {.image = image, .form = form};
    char new_path[MAX_PATH + 8], kept[MAX_PATH + 16], quoted[300];
    int rc;

    snprintf(new_path, sizeof(new_path), "%s.new", path);
    snprintf(kept, sizeof(kept), "%s.damaged", path);
    log_error("database", "event=database_damaged kept_as=%s",
              log_quote(quoted, sizeof(quoted), kept));
    rc = begin_salvage(&s, new_path);
    if (rc == SQLITE_OK)
        rc = save(&s);
    if (rc == SQLITE_OK)
        tell_loss(&s, path, loss);
    else
        snprintf(err, err_len, "'%s' is damaged, and what can be saved cannot be written: %s", path,
                 s.db != NULL ? sqlite3_errmsg(s.db) : sqlite3_errstr(rc));
    end_salvage(&s);
    if (rc == SQLITE_OK && sqlite_place_take(path, new_path) == 0)
        return 0;
    if (rc == SQLITE_OK)
        snprintf(err, err_len, "'%s' is damaged, and a new file cannot take its place: %s", path,
                 strerror(errno));
    unlink(new_path);
    return rc == SQLITE_NOMEM ? ERR_NOMEM : ERR_IO;
}
#endif
