/* server/storage/response_store.c - see response_store.h.
 *
 * All SQL is in response_sql.inc and prepared at the opening; each call binds, steps and resets
 * those statements. A response and its items are two tables joined by the row number, so that a
 * conversation is a walk back along `previous`, then the items of each response, oldest first. The
 * keeper's thread calls; only the two counts that metrics show are atomic. A build without SQLite
 * has response_store_none.c in its place.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/response_store.h"

#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/storage/sqlite_bind.h"
#include "server/storage/sqlite_file.h"
#include "server/storage/sqlite_pages.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAY_S 86400
/* Most responses in a conversation. */
#define MAX_CHAIN 4096

enum statement {
#define SQL(name, text) SQL_##name,
#include "server/storage/response_sql.inc"
#undef SQL
    N_SQL
};

static const char *const texts[] = {
#define SQL(name, text) text,
#include "server/storage/response_sql.inc"
#undef SQL
};

static const struct sqlite_table tables[] = {
    {"response", 8, false, "INSERT OR IGNORE INTO response SELECT ?9,?2,?3,?4,?5,?6,?7,?8"},
    {"item", 6, false, "INSERT OR IGNORE INTO item(rowid,response,n,is_output,id,owner,body)"
                       " VALUES(?7,?1,?2,?3,?4,?5,?6)"},
};

/* Note rows that only an index still knows: of the index of ids, and of items
 * (response,is_output,n). */
static const char enter_lost[] =
    "INSERT OR IGNORE INTO lost SELECT 'response',?2 WHERE ?1=2 AND typeof(?2)='text'"
    " AND substr(?2,1,5)='resp_' AND NOT EXISTS(SELECT 1 FROM response WHERE id=?2)"
    " UNION ALL SELECT 'item of',?2 WHERE ?1=4 AND typeof(?2)='integer'"
    " AND NOT EXISTS(SELECT 1 FROM item WHERE rowid=?5)";

/* After damage keep only whole responses, since later ones build upon them: a response that lacks
 * an item is deleted. Input items are numbered from 0, output items are in the response's body too,
 * and the items of one input were written one after the other: when more than one page is gone, so
 * that an index may not tell, the row after the last one must exist. */
static const char settle[] =
    "INSERT OR IGNORE INTO lost SELECT 'response',id FROM response r WHERE"
    " n IN (SELECT id FROM lost WHERE what='item of')"
    " OR (SELECT count(*)<>coalesce(max(n)+1,0) FROM item WHERE response=r.n AND is_output=0)"
    " OR (SELECT count(*) FROM item WHERE response=r.n AND is_output=1)<>"
    "    CASE WHEN is_open THEN 0 ELSE coalesce(json_array_length(body,'$.output'),0) END"
    " OR ((SELECT n_pages FROM damage)>1 AND NOT EXISTS(SELECT 1 FROM item WHERE rowid="
    "    (SELECT max(rowid)+1 FROM item WHERE response=r.n AND is_output=0)));"
    "DELETE FROM response WHERE id IN (SELECT id FROM lost WHERE what='response');"
    "DELETE FROM item WHERE response NOT IN (SELECT n FROM response);"
    "DELETE FROM lost WHERE what='item of';";

static const struct sqlite_form form = {
    .what = "kept responses",
    .application_id = 0x51554952, /* "QUIR" */
    .version = 1,
    .schema = "CREATE TABLE IF NOT EXISTS response(n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
              " owner TEXT NOT NULL, previous TEXT, created INTEGER NOT NULL,"
              " is_open INTEGER NOT NULL, is_background INTEGER NOT NULL, body TEXT NOT NULL);"
              "CREATE INDEX IF NOT EXISTS response_created ON response(created);"
              "CREATE TABLE IF NOT EXISTS item(response INTEGER NOT NULL REFERENCES response(n)"
              " ON DELETE CASCADE, n INTEGER NOT NULL, is_output INTEGER NOT NULL,"
              " id TEXT NOT NULL, owner TEXT NOT NULL, body TEXT NOT NULL);"
              "CREATE INDEX IF NOT EXISTS item_response ON item(response,is_output,n);"
              "CREATE INDEX IF NOT EXISTS item_id ON item(id);",
    .tables = tables,
    .n_tables = 2,
    .enter_lost = enter_lost,
    .settle = settle,
};

struct response_store {
    sqlite3 *db;
    sqlite3_stmt *statements[N_SQL];
    uint64_t max_bytes;
    int64_t max_age_s;
    struct sqlite_loss loss; /* at the opening */
    bool is_damaged;         /* a page that was read since the opening is damaged */
    int64_t n; /* rows, with the effect of the change under way */
    _Atomic uint64_t n_shown, bytes_shown; /* as of the last change that has ended */
};

/* ---- statements ---- */

/* Bind the parameters of a statement (sqlite_bind.h). */
static sqlite3_stmt *bind(struct response_store *s, enum statement which, const char *types, ...)
{
    va_list ap;

    va_start(ap, types);
    sqlite_bind(s->statements[which], types, ap);
    va_end(ap);
    return s->statements[which];
}

/* Take one step: 1 with a row, 0 without, or the ERR_* of the file. */
static int step(struct response_store *s, sqlite3_stmt *st, struct api_error *e)
{
    const int rc = sqlite3_step(st);
    char quoted[300];
    const char *why;
    int code;

    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE) {
        sqlite3_reset(st);
        return 0;
    }
    code = sqlite3_extended_errcode(s->db);
    s->is_damaged = s->is_damaged || sqlite_pages_is_damage(s->db);
    sqlite3_reset(st);
    why = sqlite_file_fail(s->db);
    log_error("responses", "event=database_failed code=%d reason=%s", code,
              log_quote(quoted, sizeof(quoted), why));
    api_error_set(e, rc == SQLITE_NOMEM ? 500 : 503, NULL, "responses_db",
                  "kept responses cannot be read or written now: %s", why);
    return rc == SQLITE_NOMEM ? ERR_NOMEM : ERR_IO;
}

static int run_statement(struct response_store *s, enum statement which, struct api_error *e)
{
    return step(s, bind(s, which, ""), e);
}

static void roll_back(struct response_store *s)
{
    struct api_error ignored = {0};

    if (sqlite3_get_autocommit(s->db) == 0)
        (void)run_statement(s, SQL_ROLLBACK, &ignored);
}

/* Commit the change if rc is 0, else roll it back. */
static int end_change(struct response_store *s, int rc, struct api_error *e)
{
    if (rc >= 0)
        rc = run_statement(s, SQL_COMMIT, e);
    if (rc < 0)
        roll_back(s);
    return rc < 0 ? rc : 0;
}

static int64_t oldest(const struct response_store *s)
{
    return (int64_t)time(NULL) - s->max_age_s;
}

static int not_found(struct api_error *e, const char *what, const char *id)
{
    api_error_set(e, 404, NULL, NULL, "no %s '%.*s' is kept here", what, RESPONSE_MAX_ID, id);
    return ERR_NOENT;
}

/* Find the row of a response, with FIND or GET; 0 with *st at it. */
static int find_response(struct response_store *s, enum statement which,
                         const struct response_name *name, sqlite3_stmt **st, struct api_error *e)
{
    int rc;

    *st = bind(s, which, "tti", name->id, name->owner, oldest(s));
    rc = step(s, *st, e);
    return rc == 0 ? not_found(e, "response", name->id) : rc < 0 ? rc : 0;
}

static void add_column(struct buf *out, sqlite3_stmt *st, int i)
{
    const char *text = (const char *)sqlite3_column_text(st, i);

    if (text != NULL)
        buf_add(out, text, (size_t)sqlite3_column_bytes(st, i));
}

static int check_out(const struct buf *out, struct api_error *e)
{
    if (out->err == 0)
        return 0;
    if (out->err == ERR_NOMEM)
        return api_error_no_memory(e);
    api_error_set(e, 400, "previous_response_id", NULL,
                  "the conversation so far is longer than a body may be (max_body)");
    return ERR_LIMIT;
}

/* ---- deletion of old responses ---- */

/* Bytes of the file that are in use. */
static int used(struct response_store *s, uint64_t *bytes, struct api_error *e)
{
    sqlite3_stmt *st = bind(s, SQL_N_PAGES, "");
    const int rc = step(s, st, e);

    *bytes =
        rc == 1 ? (uint64_t)sqlite3_column_int64(st, 0) * (uint64_t)sqlite3_column_int64(st, 1) : 0;
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static void show_counts(struct response_store *s)
{
    struct api_error ignored;
    uint64_t bytes;

    atomic_store_explicit(&s->n_shown, (uint64_t)s->n, memory_order_relaxed);
    if (used(s, &bytes, &ignored) == 0)
        atomic_store_explicit(&s->bytes_shown, bytes, memory_order_relaxed);
}

struct response_counts response_store_counts(const struct response_store *s)
{
    if (s == NULL)
        return (struct response_counts){0};
    return (struct response_counts){atomic_load_explicit(&s->n_shown, memory_order_relaxed),
                                    atomic_load_explicit(&s->bytes_shown, memory_order_relaxed),
                                    s->loss.n_rows};
}

/* Run a statement that deletes responses. Their number, or a negative ERR_*. */
static int drop_response(struct response_store *s, sqlite3_stmt *st, struct api_error *e)
{
    const int rc = step(s, st, e);
    const int n = rc < 0 ? 0 : sqlite3_changes(s->db);

    s->n -= n;
    return rc < 0 ? rc : n;
}

/* Delete responses that are too old, then the oldest until the size fits, never `last` (or ""). */
static int prune(struct response_store *s, const char *last, struct api_error *e)
{
    uint64_t bytes = 0;
    int rc = drop_response(s, bind(s, SQL_DELETE_OLD, "i", oldest(s)), e);

    while (rc >= 0) {
        rc = used(s, &bytes, e);
        if (rc < 0 || bytes <= s->max_bytes)
            break;
        rc = drop_response(s, bind(s, SQL_DELETE_OLDEST, "t", last), e);
        if (rc <= 0)
            break;
    }
    return rc < 0 ? rc : 0;
}

/* ---- life ---- */

static int prepare_response_statements(struct response_store *s)
{
    for (int i = 0; i < N_SQL; i++)
        if (sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[i],
                               NULL) != SQLITE_OK)
            return ERR_FORMAT;
    return 0;
}

static int count_rows(struct response_store *s, struct api_error *e)
{
    sqlite3_stmt *st = bind(s, SQL_COUNT, "");
    const int rc = step(s, st, e);

    s->n = rc == 1 ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static int open_database(struct response_store *s, const char *path, char *err, size_t err_len)
{
    struct api_error e = {0};
    int rc = sqlite_file_open(&s->db, path, &form, &s->loss, err, err_len);

    if (rc == 0 && prepare_response_statements(s) < 0) {
        snprintf(err, err_len, "'%s' is no database of kept responses: %s", path,
                 sqlite3_errmsg(s->db));
        return ERR_FORMAT;
    }
    if (rc == 0 && (count_rows(s, &e) < 0 || run_statement(s, SQL_FAIL_OPEN, &e) < 0 ||
                    prune(s, "", &e) < 0)) {
        snprintf(err, err_len, "'%s': %s", path, e.message);
        return ERR_IO;
    }
    return rc;
}

static void close_database(struct response_store *s)
{
    for (int i = 0; i < N_SQL; i++) {
        sqlite3_finalize(s->statements[i]);
        s->statements[i] = NULL;
    }
    sqlite3_close(s->db);
    s->db = NULL;
}

int response_store_open(struct response_store **out, const struct response_store_options *options,
                        char *err, size_t err_len)
{
    struct response_store *s = mem_calloc(1, sizeof(*s));
    int rc;

    *out = NULL;
    if (s == NULL)
        return snprintf(err, err_len, "no memory for kept responses"), ERR_NOMEM;
    s->max_bytes = options->max_bytes;
    s->max_age_s = (int64_t)options->max_days * DAY_S;
    rc = open_database(s, options->path, err, err_len);
    if (rc < 0 && s->is_damaged) { /* a file too large to be checked at the opening: reading has
                                    * found damage */
        close_database(s);
        s->is_damaged = false;
        rc = open_database(s, options->path, err, err_len);
    }
    if (rc < 0)
        response_store_close(&s);
    else
        show_counts(s);
    *out = s;
    return rc;
}

void response_store_close(struct response_store **store)
{
    struct response_store *s = store != NULL ? *store : NULL;

    if (s == NULL)
        return;
    close_database(s);
    mem_free(s);
    *store = NULL;
}

/* ---- a response ---- */

/* End a change before which there were n rows. */
static int end_counted(struct response_store *s, int64_t n, int rc, struct api_error *e)
{
    rc = end_change(s, rc, e);
    if (rc < 0)
        s->n = n;
    show_counts(s);
    return rc;
}

/* Delete what is too much, in a change of its own: if that fails, for a damaged page, the new
 * response stays. */
static void make_response_room(struct response_store *s, const char *last)
{
    const int64_t n = s->n;
    struct api_error ignored = {0};
    int rc = run_statement(s, SQL_BEGIN, &ignored);

    if (rc == 0)
        rc = prune(s, last, &ignored);
    (void)end_counted(s, n, rc, &ignored);
}

/* A damaged file that cannot be made smaller must not grow. */
static int check_response_room(struct response_store *s, struct api_error *e)
{
    uint64_t bytes;

    if (!s->is_damaged)
        return 0;
    if (used(s, &bytes, e) < 0)
        return ERR_IO;
    if (bytes <= s->max_bytes)
        return 0;
    api_error_set(e, 503, NULL, "responses_db",
                  "the file of kept responses is damaged, and full: it is mended when the server "
                  "starts again");
    return ERR_IO;
}

int response_store_begin(struct response_store *s, const struct response_name *name,
                         const struct response_start *start, struct api_error *e)
{
    const int64_t n = s->n;
    int rc;

    if (start->body->len + start->input->len > s->max_bytes) {
        api_error_set(e, 400, "store", NULL,
                      "the request is larger than all that may be kept (responses_size): send "
                      "'store': false");
        return ERR_LIMIT;
    }
    if (start->is_restored)
        return step(s, bind(s, SQL_REOPEN, "ttb", name->id, name->owner, start->body), e);
    rc = check_response_room(s, e);
    if (rc == 0)
        rc = run_statement(s, SQL_BEGIN, e);
    if (rc == 0)
        rc = step(s,
                  bind(s, SQL_INSERT, "tttiib", name->id, name->owner, start->previous,
                       start->created, (int64_t)start->is_background, start->body),
                  e);
    if (rc == 0) {
        s->n++;
        rc = step(
            s, bind(s, SQL_ADD_ITEMS, "ttib", name->id, name->owner, (int64_t)0, start->input), e);
    }
    return end_counted(s, n, rc, e);
}

int response_store_end(struct response_store *s, const struct response_name *name,
                       const struct buf *body, const struct buf *output, struct api_error *e)
{
    const int64_t n = s->n;
    int rc = run_statement(s, SQL_BEGIN, e);

    if (rc == 0)
        rc = step(s, bind(s, SQL_END, "ttb", name->id, name->owner, body), e);
    if (rc == 0 && sqlite3_changes(s->db) > 0)
        rc = step(s, bind(s, SQL_ADD_ITEMS, "ttib", name->id, name->owner, (int64_t)1, output), e);
    rc = end_counted(s, n, rc, e);
    if (rc == 0)
        make_response_room(s, name->id);
    return rc;
}

int response_store_give_up(struct response_store *s, const struct response_name *name,
                           const char *status, const char *error, struct api_error *e)
{
    return step(s, bind(s, SQL_GIVE_UP, "tttt", name->id, name->owner, status, error), e);
}

int response_store_get(struct response_store *s, const struct response_name *name, struct buf *out,
                       struct api_error *e)
{
    sqlite3_stmt *st;
    const int rc = find_response(s, SQL_GET, name, &st, e);

    if (rc < 0)
        return rc;
    add_column(out, st, 0);
    sqlite3_reset(st);
    return check_out(out, e);
}

int response_store_delete(struct response_store *s, const struct response_name *name,
                          struct api_error *e)
{
    const int rc =
        drop_response(s, bind(s, SQL_DELETE, "tti", name->id, name->owner, oldest(s)), e);

    if (rc < 0)
        return rc;
    show_counts(s);
    return rc > 0 ? 0 : not_found(e, "response", name->id);
}

int response_store_cancel(struct response_store *s, const struct response_name *name,
                          struct buf *out, struct api_error *e)
{
    sqlite3_stmt *st;
    int rc = find_response(s, SQL_FIND, name, &st, e);
    bool is_background;

    if (rc < 0)
        return rc;
    is_background = sqlite3_column_int(st, 3) != 0;
    sqlite3_reset(st);
    if (!is_background) {
        api_error_set(e, 400, NULL, NULL,
                      "only a response in the background can be cancelled; of another one its "
                      "client closes the connection");
        return ERR_INVAL;
    }
    rc = response_store_give_up(s, name, "cancelled", NULL, e);
    return rc < 0 ? rc : response_store_get(s, name, out, e);
}

/* ---- items ---- */

static int find_number(struct response_store *s, const struct response_name *name, int64_t *n,
                       struct api_error *e)
{
    sqlite3_stmt *st;
    const int rc = find_response(s, SQL_FIND, name, &st, e);

    if (rc < 0)
        return rc;
    *n = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return 0;
}

/* The item number after which a page begins. */
static int find_place(struct response_store *s, int64_t n, const struct response_page *page,
                      int64_t *place, struct api_error *e)
{
    sqlite3_stmt *st;
    int rc;

    *place = page->is_ascending ? -1 : INT64_MAX;
    if (page->after == NULL)
        return 0;
    st = bind(s, SQL_PLACE, "it", n, page->after);
    rc = step(s, st, e);
    if (rc == 0) {
        api_error_set(e, 400, "after", NULL, "'after' must be the id of an item of this response");
        return ERR_INVAL;
    }
    *place = rc > 0 ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static void add_ends(struct buf *out, char ends[2][RESPONSE_MAX_ID + 1], uint32_t n)
{
    static const char *const names[] = {"first_id", "last_id"};

    for (int i = 0; i < 2; i++) {
        buf_printf(out, ",\"%s\":", names[i]);
        if (n > 0)
            json_add_cstring(out, ends[i]);
        else
            buf_add_str(out, "null");
    }
}

int response_store_items(struct response_store *s, const struct response_name *name,
                         const struct response_page *page, struct buf *out, struct api_error *e)
{
    char ends[2][RESPONSE_MAX_ID + 1];
    int64_t response = 0, place = 0;
    sqlite3_stmt *st;
    uint32_t n = 0;
    int rc = find_number(s, name, &response, e);

    if (rc == 0)
        rc = find_place(s, response, page, &place, e);
    if (rc < 0)
        return rc;
    buf_add_str(out, "{\"object\":\"list\",\"data\":[");
    st = bind(s, page->is_ascending ? SQL_PAGE_UP : SQL_PAGE_DOWN, "iii", response, place,
              (int64_t)page->limit + 1);
    while ((rc = step(s, st, e)) == 1 && n < page->limit) {
        if (n > 0)
            buf_add_char(out, ',');
        add_column(out, st, 1);
        for (int i = n > 0; i < 2; i++)
            snprintf(ends[i], sizeof(ends[i]), "%s", (const char *)sqlite3_column_text(st, 0));
        n++;
    }
    sqlite3_reset(st);
    if (rc < 0)
        return rc;
    buf_add_char(out, ']');
    add_ends(out, ends, n);
    buf_printf(out, ",\"has_more\":%s}", rc == 1 ? "true" : "false");
    return check_out(out, e);
}

/* ---- conversations ---- */

struct chain {
    int64_t n[MAX_CHAIN]; /* the newest first */
    uint32_t length;
};

/* Add the response `id` to the chain; `id` becomes the one before it, or "". */
static int follow_chain(struct response_store *s, const char *owner, char id[RESPONSE_MAX_ID + 1],
                        struct chain *chain, struct api_error *e)
{
    const struct response_name name = {owner, id};
    const char *previous;
    sqlite3_stmt *st;
    int rc = find_response(s, SQL_FIND, &name, &st, e);

    if (rc == ERR_NOENT)
        api_error_set(e, 404, "previous_response_id", "previous_response_not_found",
                      chain->length == 0 ? "no response '%s' is kept here"
                                         : "the response '%s', which this one goes on from, is "
                                           "kept no more",
                      id);
    if (rc < 0)
        return rc;
    if (sqlite3_column_int(st, 2) != 0) {
        rc = ERR_INVAL;
        api_error_set(e, 400, "previous_response_id", NULL, "the response '%s' is in progress", id);
    } else if (chain->length == MAX_CHAIN) {
        rc = ERR_LIMIT;
        api_error_set(e, 400, "previous_response_id", NULL,
                      "a conversation may have at most %d responses", MAX_CHAIN);
    } else {
        chain->n[chain->length++] = sqlite3_column_int64(st, 0);
        previous = (const char *)sqlite3_column_text(st, 1);
        snprintf(id, RESPONSE_MAX_ID + 1, "%s", previous != NULL ? previous : "");
    }
    sqlite3_reset(st);
    return rc;
}

static int add_items_of(struct response_store *s, int64_t n, struct buf *out, bool *is_first,
                        struct api_error *e)
{
    sqlite3_stmt *st = bind(s, SQL_ITEMS_OF, "i", n);
    int rc;

    while ((rc = step(s, st, e)) == 1 && out->err == 0) {
        if (!*is_first)
            buf_add_char(out, ',');
        *is_first = false;
        add_column(out, st, 1);
    }
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static int add_before(struct response_store *s, const char *owner, const char *previous,
                      struct buf *out, struct api_error *e)
{
    struct chain *chain = mem_calloc(1, sizeof(*chain));
    char id[RESPONSE_MAX_ID + 1];
    bool is_first = true;
    int rc = 0;

    if (chain == NULL)
        return api_error_no_memory(e);
    snprintf(id, sizeof(id), "%s", previous);
    while (rc == 0 && id[0] != '\0')
        rc = follow_chain(s, owner, id, chain, e);
    for (uint32_t i = chain->length; rc == 0 && i > 0; i--)
        rc = add_items_of(s, chain->n[i - 1], out, &is_first, e);
    mem_free(chain);
    return rc;
}

static int add_response_item(struct response_store *s, const char *owner, const char *id,
                             struct buf *out, struct api_error *e)
{
    sqlite3_stmt *st = bind(s, SQL_ITEM, "tti", id, owner, oldest(s));
    const int rc = step(s, st, e);

    if (rc == 0)
        return not_found(e, "item", id);
    if (rc < 0)
        return rc;
    json_add_cstring(out, id);
    buf_add_char(out, ':');
    add_column(out, st, 1);
    sqlite3_reset(st);
    return 0;
}

int response_store_history(struct response_store *s, const char *owner,
                           const struct response_wish *wish, struct buf *out, struct api_error *e)
{
    const char *id = wish->items.data;
    const char *end = id != NULL ? id + wish->items.len : NULL;
    int rc;

    buf_add_str(out, "{\"before\":[");
    rc = add_before(s, owner, wish->previous, out, e);
    buf_add_str(out, "],\"items\":{");
    for (; rc == 0 && id != end; id += strlen(id) + 1) {
        if (id != wish->items.data)
            buf_add_char(out, ',');
        rc = add_response_item(s, owner, id, out, e);
    }
    buf_add_str(out, "}}");
    return rc < 0 ? rc : check_out(out, e);
}

#endif
