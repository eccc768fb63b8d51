/* server/storage/response_store.c - see response_store.h.
 *
 * All SQL is in response_sql.inc; sql_store.h runs it. A response and its items are two tables
 * joined by the row number, so that a conversation is a walk back along `previous`, then the items
 * of each response, oldest first. The keeper's thread calls the functions; only the two counts for
 * metrics are atomic.
 */
#include "server/storage/response_store.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/storage/sql_store.h"

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
    {.name = "response",
     .columns = "id,n,owner,previous,created,is_open,is_background,body",
     .row = "rowid=new.rowid",
     .key = "rowid",
     .lost = "SELECT 'response',id FROM damaged.response d INDEXED BY sqlite_autoindex_response_1"
             " WHERE NOT EXISTS(SELECT 1 FROM response WHERE id=d.id OR n=d.n)"},
    {.name = "item",
     .columns = "response,n,is_output,id,owner,body",
     .row = "rowid=new.rowid",
     .key = "rowid",
     .lost = "SELECT 'item of',response FROM damaged.item d INDEXED BY item_response WHERE NOT"
             " EXISTS(SELECT 1 FROM item i WHERE i.rowid=d.rowid OR"
             " i.response=d.response AND i.is_output=d.is_output AND i.n=d.n)"},
};

/* After damage keep only whole responses, since later ones build upon them: a response that lacks
 * an item is deleted. Input items are numbered from 0, output items are in the response's body too,
 * and the items of one input were written one after the other: when an index does not tell all, the
 * row after the last one must exist. */
static const char settle[] =
    "INSERT OR IGNORE INTO lost SELECT 'response',id FROM response r WHERE"
    " n IN (SELECT id FROM lost WHERE what='item of')"
    " OR (SELECT count(*)<>coalesce(max(n)+1,0) FROM item WHERE response=r.n AND is_output=0)"
    " OR (SELECT count(*) FROM item WHERE response=r.n AND is_output=1)<>"
    "    CASE WHEN is_open THEN 0 WHEN NOT json_valid(body) THEN -1"
    "    ELSE coalesce(json_array_length(body,'$.output'),0) END"
    " OR ((SELECT is_unknown FROM damage) AND NOT EXISTS(SELECT 1 FROM item WHERE rowid="
    "    (SELECT max(rowid)+1 FROM item WHERE response=r.n AND is_output=0)));"
    "DELETE FROM response WHERE id IN (SELECT id FROM lost WHERE what='response');"
    "DELETE FROM item WHERE response NOT IN (SELECT n FROM response);"
    "DELETE FROM lost WHERE what='item of';";

static const struct sql_store_form form = {
    .file.what = "kept responses",
    .file.application_id = 0x51554952, /* "QUIR" */
    .file.version = 2,
    .file.schema =
        "CREATE TABLE IF NOT EXISTS response(n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
        " owner TEXT NOT NULL, previous TEXT, created INTEGER NOT NULL,"
        " is_open INTEGER NOT NULL, is_background INTEGER NOT NULL, body TEXT NOT NULL,"
        " hash INTEGER);"
        "CREATE INDEX IF NOT EXISTS response_created ON response(created);"
        "CREATE TABLE IF NOT EXISTS item(response INTEGER NOT NULL REFERENCES response(n)"
        " ON DELETE CASCADE, n INTEGER NOT NULL, is_output INTEGER NOT NULL,"
        " id TEXT NOT NULL, owner TEXT NOT NULL, body TEXT NOT NULL, hash INTEGER);"
        "CREATE INDEX IF NOT EXISTS item_response ON item(response,is_output,n);"
        "CREATE INDEX IF NOT EXISTS item_id ON item(id);",
    .file.tables = tables,
    .file.n_tables = 2,
    .file.settle = settle,
    .statements = texts,
    .n_statements = N_SQL,
    .subject = "kept responses",
    .setting = "responses_db",
    .log = "responses",
};

struct response_store {
    struct sql_store sql;
    uint64_t max_bytes;
    int64_t max_age_s;
    int64_t n;                             /* rows, the current transaction's included */
    _Atomic uint64_t n_shown, bytes_shown; /* values after the last committed change */
};

/* ---- statements ---- */

static int64_t oldest(const struct response_store *s)
{
    return (int64_t)time(NULL) - s->max_age_s;
}

static int not_found(struct api_error *e, const char *what, const char *id)
{
    api_error_set(e, 404, NULL, NULL, "no %s '%.*s' is kept here", what, RESPONSE_MAX_ID, id);
    return ERR_NOENT;
}

/* Find the row of a response, with FIND or GET, and leave the statement at it. */
static int find_response(struct response_store *s, enum statement which,
                         const struct response_name *name, struct api_error *e)
{
    const int rc = sql_store_run(&s->sql, which, e, "tti", name->id, name->owner, oldest(s));

    return rc == 0 ? not_found(e, "response", name->id) : rc < 0 ? rc : 0;
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

/* Run a statement without parameters and read the number that it returns. */
static int read_count(struct response_store *s, enum statement which, int64_t *out,
                      struct api_error *e)
{
    const int rc = sql_store_run(&s->sql, which, e, "");

    *out = sql_store_int(&s->sql, which, 0);
    sql_store_reset(&s->sql, which);
    return rc < 0 ? rc : 0;
}

static void show_counts(struct response_store *s)
{
    struct api_error ignored;
    int64_t bytes;

    atomic_store_explicit(&s->n_shown, (uint64_t)s->n, memory_order_relaxed);
    if (read_count(s, SQL_BYTES, &bytes, &ignored) == 0)
        atomic_store_explicit(&s->bytes_shown, (uint64_t)bytes, memory_order_relaxed);
}

struct response_counts response_store_counts(const struct response_store *s)
{
    if (s == NULL)
        return (struct response_counts){0};
    return (struct response_counts){atomic_load_explicit(&s->n_shown, memory_order_relaxed),
                                    atomic_load_explicit(&s->bytes_shown, memory_order_relaxed),
                                    s->sql.loss.n_rows};
}

/* Count the responses that a statement has deleted; rc: result of its step. Returns their number,
 * or rc if that is negative. */
static int count_dropped(struct response_store *s, int rc)
{
    const int n = rc < 0 ? 0 : (int)sql_store_n_changed(&s->sql);

    s->n -= n;
    return rc < 0 ? rc : n;
}

/* Delete up to 64 responses that are too old, then the oldest until the size fits, never `last` (or
 * ""). */
static int prune(struct response_store *s, const char *last, struct api_error *e)
{
    int64_t bytes = 0;
    int rc = count_dropped(s, sql_store_run(&s->sql, SQL_DELETE_OLD, e, "i", oldest(s)));

    while (rc >= 0) {
        rc = read_count(s, SQL_BYTES, &bytes, e);
        if (rc < 0 || (uint64_t)bytes <= s->max_bytes)
            break;
        rc = count_dropped(s, sql_store_run(&s->sql, SQL_DELETE_OLDEST, e, "t", last));
        if (rc <= 0)
            break;
    }
    return rc < 0 ? rc : 0;
}

/* ---- life ---- */

static int open_responses(struct response_store *s, const char *path, char *err, size_t err_len)
{
    struct api_error e = {0};
    const int rc = sql_store_open(&s->sql, &form, path, err, err_len);

    if (rc == 0 && (read_count(s, SQL_COUNT, &s->n, &e) < 0 ||
                    sql_store_run(&s->sql, SQL_FAIL_OPEN, &e, "") < 0 || prune(s, "", &e) < 0)) {
        snprintf(err, err_len, "'%s': %s", path, e.message);
        return ERR_IO;
    }
    return rc;
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
    rc = open_responses(s, options->path, err, err_len);
    if (rc < 0 && s->sql.is_damaged) { /* damage was found by reading, in a file that was too large
                                        * to be checked when it was opened */
        sql_store_close(&s->sql);
        rc = open_responses(s, options->path, err, err_len);
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
    sql_store_close(&s->sql);
    mem_free(s);
    *store = NULL;
}

/* ---- a response ---- */

/* End a change; n: number of rows before it. */
static int end_counted(struct response_store *s, int64_t n, int rc, struct api_error *e)
{
    rc = sql_store_end(&s->sql, rc, e);
    if (rc < 0)
        s->n = n;
    show_counts(s);
    return rc;
}

/* Delete old responses in a transaction of its own: if it fails because of a damaged page, the new
 * response stays. */
static void make_response_room(struct response_store *s, const char *last)
{
    const int64_t n = s->n;
    struct api_error ignored = {0};
    int rc = sql_store_begin(&s->sql, &ignored);

    if (rc == 0)
        rc = prune(s, last, &ignored);
    (void)end_counted(s, n, rc, &ignored);
}

/* A damaged file that cannot be made smaller must not grow. */
static int check_response_room(struct response_store *s, struct api_error *e)
{
    int64_t bytes;

    if (!s->sql.is_damaged)
        return 0;
    if (read_count(s, SQL_BYTES, &bytes, e) < 0)
        return ERR_IO;
    if ((uint64_t)bytes <= s->max_bytes)
        return 0;
    api_error_set(e, 503, NULL, "responses_db",
                  "the file of kept responses is damaged and full: it is repaired when the server "
                  "starts again");
    return ERR_IO;
}

static int add_items(struct response_store *s, const struct response_name *name, bool is_output,
                     const struct buf *items, struct api_error *e)
{
    return sql_store_run(&s->sql, SQL_ADD_ITEMS, e, "ttib", name->id, name->owner,
                         (int64_t)is_output, items);
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
        return sql_store_run(&s->sql, SQL_REOPEN, e, "ttb", name->id, name->owner, start->body);
    rc = check_response_room(s, e);
    if (rc == 0)
        rc = sql_store_begin(&s->sql, e);
    if (rc == 0)
        rc = sql_store_run(&s->sql, SQL_INSERT, e, "tttiib", name->id, name->owner, start->previous,
                           start->created, (int64_t)start->is_background, start->body);
    if (rc == 0) {
        s->n++;
        rc = add_items(s, name, false, start->input, e);
    }
    return end_counted(s, n, rc, e);
}

int response_store_end(struct response_store *s, const struct response_name *name,
                       const struct buf *body, const struct buf *output, struct api_error *e)
{
    const int64_t n = s->n;
    int rc = sql_store_begin(&s->sql, e);

    if (rc == 0)
        rc = sql_store_run(&s->sql, SQL_END, e, "ttb", name->id, name->owner, body);
    if (rc == 0 && sql_store_n_changed(&s->sql) > 0)
        rc = add_items(s, name, true, output, e);
    rc = end_counted(s, n, rc, e);
    if (rc == 0)
        make_response_room(s, name->id);
    return rc;
}

int response_store_give_up(struct response_store *s, const struct response_name *name,
                           const char *status, const char *error, struct api_error *e)
{
    return sql_store_run(&s->sql, SQL_GIVE_UP, e, "tttt", name->id, name->owner, status, error);
}

int response_store_get(struct response_store *s, const struct response_name *name, struct buf *out,
                       struct api_error *e)
{
    const int rc = find_response(s, SQL_GET, name, e);

    if (rc < 0)
        return rc;
    sql_store_add(&s->sql, SQL_GET, 0, out);
    sql_store_reset(&s->sql, SQL_GET);
    return check_out(out, e);
}

int response_store_delete(struct response_store *s, const struct response_name *name,
                          struct api_error *e)
{
    const int rc = count_dropped(
        s, sql_store_run(&s->sql, SQL_DELETE, e, "tti", name->id, name->owner, oldest(s)));

    if (rc < 0)
        return rc;
    show_counts(s);
    return rc > 0 ? 0 : not_found(e, "response", name->id);
}

int response_store_cancel(struct response_store *s, const struct response_name *name,
                          struct buf *out, struct api_error *e)
{
    int rc = find_response(s, SQL_FIND, name, e);
    const bool is_background = sql_store_int(&s->sql, SQL_FIND, 3) != 0;

    sql_store_reset(&s->sql, SQL_FIND);
    if (rc < 0)
        return rc;
    if (!is_background) {
        api_error_set(
            e, 400, NULL, NULL,
            "only a background response can be cancelled; close the connection to end another one");
        return ERR_INVAL;
    }
    rc = response_store_give_up(s, name, "cancelled", NULL, e);
    return rc < 0 ? rc : response_store_get(s, name, out, e);
}

/* ---- items ---- */

/* Find the number of the item after which a page begins. */
static int find_place(struct response_store *s, int64_t n, const struct response_page *page,
                      int64_t *place, struct api_error *e)
{
    int rc;

    *place = page->is_ascending ? -1 : INT64_MAX;
    if (page->after == NULL)
        return 0;
    rc = sql_store_run(&s->sql, SQL_PLACE, e, "it", n, page->after);
    if (rc == 0) {
        api_error_set(e, 400, "after", NULL, "'after' must be the id of an item of this response");
        return ERR_INVAL;
    }
    *place = sql_store_int(&s->sql, SQL_PLACE, 0);
    sql_store_reset(&s->sql, SQL_PLACE);
    return rc < 0 ? rc : 0;
}

int response_store_items(struct response_store *s, const struct response_name *name,
                         const struct response_page *page, struct buf *out, struct api_error *e)
{
    const enum statement which = page->is_ascending ? SQL_PAGE_UP : SQL_PAGE_DOWN;
    int rc = find_response(s, SQL_FIND, name, e);
    const int64_t response = sql_store_int(&s->sql, SQL_FIND, 0);
    int64_t place = 0;

    sql_store_reset(&s->sql, SQL_FIND);
    if (rc == 0)
        rc = find_place(s, response, page, &place, e);
    if (rc < 0)
        return rc;
    rc = sql_store_run(&s->sql, which, e, "iii", response, place, (int64_t)page->limit + 1);
    rc = sql_store_list(&s->sql, which, rc, page->limit, out, e);
    return rc < 0 ? rc : check_out(out, e);
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
    int rc = find_response(s, SQL_FIND, &name, e);

    if (rc == ERR_NOENT)
        api_error_set(e, 404, "previous_response_id", "previous_response_not_found",
                      chain->length == 0
                          ? "no response '%s' is kept here"
                          : "the response '%s', which this one continues, is no longer kept",
                      id);
    if (rc < 0)
        return rc;
    if (sql_store_int(&s->sql, SQL_FIND, 2) != 0) {
        rc = ERR_INVAL;
        api_error_set(e, 400, "previous_response_id", NULL, "the response '%s' is in progress", id);
    } else if (chain->length == MAX_CHAIN) {
        rc = ERR_LIMIT;
        api_error_set(e, 400, "previous_response_id", NULL,
                      "a conversation may have at most %d responses", MAX_CHAIN);
    } else {
        chain->n[chain->length++] = sql_store_int(&s->sql, SQL_FIND, 0);
        snprintf(id, RESPONSE_MAX_ID + 1, "%s", sql_store_text(&s->sql, SQL_FIND, 1));
    }
    sql_store_reset(&s->sql, SQL_FIND);
    return rc;
}

static int add_items_of(struct response_store *s, int64_t n, struct buf *out, bool *is_first,
                        struct api_error *e)
{
    int rc = sql_store_run(&s->sql, SQL_ITEMS_OF, e, "i", n);

    for (; rc == 1 && out->err == 0; rc = sql_store_next(&s->sql, SQL_ITEMS_OF, e)) {
        if (!*is_first)
            buf_add_char(out, ',');
        *is_first = false;
        sql_store_add(&s->sql, SQL_ITEMS_OF, 1, out);
    }
    sql_store_reset(&s->sql, SQL_ITEMS_OF);
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
    const int rc = sql_store_run(&s->sql, SQL_ITEM, e, "tti", id, owner, oldest(s));

    if (rc == 0)
        return not_found(e, "item", id);
    if (rc < 0)
        return rc;
    json_add_cstring(out, id);
    buf_add_char(out, ':');
    sql_store_add(&s->sql, SQL_ITEM, 1, out);
    sql_store_reset(&s->sql, SQL_ITEM);
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
