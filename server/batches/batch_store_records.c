/* server/batches/batch_store_records.c - the batches of batch_store.h, from creation to end.
 *
 * A batch is one row whose status only moves forward: every UPDATE names the statuses that it may
 * leave, so that a job that comes late changes nothing. Progress and usage are one transaction, and
 * so are the end and the rows of its answers. A batch's seed is a hash of its id.
 */
#ifdef QUIRE_SQLITE
#include "server/batches/batch_store_impl.h"

#include "core/base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static const char *const statuses[] = {
    [BATCH_ENDS_NOT] = "",
    [BATCH_COMPLETED] = "completed",
    [BATCH_FAILED] = "failed",
    [BATCH_EXPIRED] = "expired",
    [BATCH_CANCELLED] = "cancelled",
};

/* ---- for clients ---- */

static int check_input(struct batch_store *s, const struct batch_name *input, struct api_error *e)
{
    sqlite3_stmt *st =
        batch_store_bind(s, SQL_GET_FILE, "tti", input->id, input->owner, batch_store_now());
    const int rc = batch_store_step(s, st, e);

    sqlite3_reset(st);
    if (rc == 0) {
        batch_store_not_found(e, "file", input->id);
        snprintf(e->param, sizeof(e->param), "input_file_id");
        return ERR_NOENT;
    }
    return rc < 0 ? rc : 0;
}

/* Checked here, on the keeper's thread, where calls run one after the other: no two of them can
 * take the last place. */
static int check_open(struct batch_store *s, const char *owner, struct api_error *e)
{
    sqlite3_stmt *st = batch_store_bind(s, SQL_COUNT_OPEN, "t", owner);
    const int64_t most = owner[0] != '\0' ? BATCH_STORE_MAX_OPEN_OF_OWNER : BATCH_STORE_MAX_OPEN;
    const int rc = batch_store_step(s, st, e);
    const int64_t n = rc == 1 ? sqlite3_column_int64(st, 0) : 0;
    const int64_t n_own = rc == 1 ? sqlite3_column_int64(st, 1) : 0;

    sqlite3_reset(st);
    if (rc < 0 || (n < BATCH_STORE_MAX_OPEN && n_own < most))
        return rc < 0 ? rc : 0;
    api_error_set(e, 429, NULL, "too_many_batches",
                  "%" PRId64 " batches%s wait or run already: come again when one has ended",
                  n_own >= most ? n_own : n, n_own >= most && owner[0] != '\0' ? " of yours" : "");
    return ERR_LIMIT;
}

int batch_store_create(struct batch_store *s, const char *owner, const struct batch_start *start,
                       char id[BATCH_STORE_ID], struct buf *out, struct api_error *e)
{
    const struct batch_name input = {owner, start->input}, name = {owner, id};
    const int64_t now = batch_store_now();
    char answers[BATCH_N_KINDS][BATCH_STORE_ID];
    int64_t seed;
    int rc = check_input(s, &input, e);

    if (rc == 0)
        rc = check_open(s, owner, e);
    if (rc < 0)
        return rc;
    batch_store_random_id("batch_", id);
    seed = (int64_t)XXH3_64bits(id, strlen(id));
    for (int kind = 0; kind < BATCH_N_KINDS; kind++)
        batch_store_random_id("file-", answers[kind]);
    rc = batch_store_step(s,
                          batch_store_bind(s, SQL_ADD, "tttttttiitti", id, owner, start->key,
                                           start->endpoint, start->input, start->window,
                                           start->metadata, now, now + start->window_s,
                                           answers[BATCH_OUTPUT], answers[BATCH_ERRORS], seed),
                          e);
    return rc < 0 ? rc : batch_store_get(s, &name, out, e);
}

int batch_store_cancel(struct batch_store *s, const struct batch_name *name, struct buf *out,
                       struct api_error *e)
{
    int rc = batch_store_get(s, name, out, e);
    bool is_cancelled;

    if (rc == 0)
        rc = batch_store_step(s,
                              batch_store_bind(s, SQL_CANCEL, "ttii", name->id, name->owner,
                                               batch_store_now(), (int64_t)BATCH_CANCELLED),
                              e);
    if (rc < 0)
        return rc;
    is_cancelled = sqlite3_changes(s->db) > 0;
    buf_clear(out);
    rc = batch_store_get(s, name, out, e);
    if (rc < 0 || is_cancelled || strstr(out->data, "\"status\":\"cancelling\"") != NULL)
        return rc;
    api_error_set(e, 409, NULL, "batch_ended", "the batch has ended, or is about to");
    return ERR_BUSY;
}

/* ---- for batch_run.c and batch_runner.c ---- */

static void take_column_text(sqlite3_stmt *st, int i, char *out, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(st, i);

    snprintf(out, size, "%s", text != NULL ? text : "");
}

static void take_path(const struct batch_store *s, sqlite3_stmt *st, int i,
                      char out[BATCH_STORE_PATH])
{
    char id[BATCH_STORE_ID];

    take_column_text(st, i, id, sizeof(id));
    batch_store_path(s, id, out);
}

static void take_record(const struct batch_store *s, sqlite3_stmt *st, struct batch_record *out)
{
    const int ending = sqlite3_column_int(st, 13);

    take_column_text(st, 1, out->id, sizeof(out->id));
    take_column_text(st, 2, out->owner, sizeof(out->owner));
    take_column_text(st, 3, out->key, sizeof(out->key));
    take_column_text(st, 4, out->endpoint, sizeof(out->endpoint));
    take_path(s, st, 5, out->input);
    take_path(s, st, 6, out->answers[BATCH_OUTPUT]);
    take_path(s, st, 7, out->answers[BATCH_ERRORS]);
    out->seed = (uint64_t)sqlite3_column_int64(st, 8);
    out->expires_s = sqlite3_column_int64(st, 9);
    out->n_lines = (uint32_t)sqlite3_column_int64(st, 10);
    out->ends[BATCH_OUTPUT] = (uint64_t)sqlite3_column_int64(st, 11);
    out->ends[BATCH_ERRORS] = (uint64_t)sqlite3_column_int64(st, 12);
    out->ending = ending > 0 && ending <= BATCH_CANCELLED ? (enum batch_ending)ending
                                                          : BATCH_ENDS_NOT;
}

int batch_store_find_open(struct batch_store *s, const char *id, int64_t *n,
                          struct batch_record *out, struct api_error *e)
{
    sqlite3_stmt *st = batch_store_bind(s, SQL_FIND_OPEN, "ti", id, id == NULL ? *n : (int64_t)-1);
    const int rc = batch_store_step(s, st, e);

    if (rc == 1) {
        *n = sqlite3_column_int64(st, 0);
        take_record(s, st, out);
    }
    sqlite3_reset(st);
    return rc;
}

int batch_store_set_lines(struct batch_store *s, const char *id, uint32_t n_lines,
                          struct api_error *e)
{
    return batch_store_step(
        s, batch_store_bind(s, SQL_SET_LINES, "tii", id, batch_store_now(), (int64_t)n_lines), e);
}

/* Update progress and usage within a transaction. */
static int set_progress(struct batch_store *s, const char *id, const struct batch_progress *p,
                        struct api_error *e)
{
    const struct batch_usage *u = &p->usage;
    int rc = batch_store_step(s,
                              batch_store_bind(s, SQL_SET_PROGRESS, "tiiii", id,
                                               (int64_t)p->n_done[BATCH_OUTPUT],
                                               (int64_t)p->n_done[BATCH_ERRORS],
                                               (int64_t)p->ends[BATCH_OUTPUT],
                                               (int64_t)p->ends[BATCH_ERRORS]),
                              e);

    if (rc == 0)
        rc = batch_store_step(s,
                              batch_store_bind(s, SQL_SET_USAGE, "tiiii", id, (int64_t)u->n_input,
                                               (int64_t)u->n_cached, (int64_t)u->n_output,
                                               (int64_t)u->n_reasoning),
                              e);
    return rc;
}

int batch_store_set_progress(struct batch_store *s, const char *id,
                             const struct batch_progress *progress, struct api_error *e)
{
    int rc = batch_store_run(s, SQL_BEGIN, e);

    if (rc == 0)
        rc = set_progress(s, id, progress, e);
    return batch_store_end_change(s, rc, e);
}

int batch_store_set_ending(struct batch_store *s, const char *id, enum batch_ending ending,
                           struct api_error *e)
{
    return batch_store_step(
        s, batch_store_bind(s, SQL_SET_ENDING, "tii", id, (int64_t)ending, batch_store_now()), e);
}

static void add_error_list(const struct buf *errors, struct buf *out)
{
    buf_add_str(out, "{\"object\":\"list\",\"data\":[");
    buf_add(out, errors->data, errors->len);
    buf_add_str(out, "]}");
}

static int add_answers(struct batch_store *s, const char *id, struct api_error *e)
{
    int rc = 0;

    for (int64_t kind = 0; rc == 0 && kind < BATCH_N_KINDS; kind++)
        rc = batch_store_step(s,
                              batch_store_bind(s, SQL_ADD_ANSWERS, "tiii", id, kind,
                                               batch_store_now(), batch_store_keep_until(s)),
                              e);
    return rc;
}

/* Remove the files of answers that are empty, and get no row. */
static void remove_unused(struct batch_store *s, const char *id)
{
    sqlite3_stmt *st = batch_store_bind(s, SQL_UNUSED_ANSWERS, "t", id);
    char path[BATCH_STORE_PATH];
    struct api_error ignored = {0};

    if (batch_store_step(s, st, &ignored) == 1)
        for (int kind = 0; kind < BATCH_N_KINDS; kind++)
            if (sqlite3_column_type(st, kind) != SQLITE_NULL) {
                take_path(s, st, kind, path);
                unlink(path);
            }
    sqlite3_reset(st);
}

int batch_store_end(struct batch_store *s, const char *id, enum batch_ending ending,
                    const struct batch_progress *progress, const struct buf *errors,
                    struct api_error *e)
{
    struct buf list;
    int rc = batch_store_run(s, SQL_BEGIN, e);

    buf_init(&list, SIZE_MAX / 2);
    if (errors != NULL && errors->len > 0)
        add_error_list(errors, &list);
    if (rc == 0)
        rc = set_progress(s, id, progress, e);
    if (rc == 0)
        rc = batch_store_step(s,
                              batch_store_bind(s, SQL_END, "ttti", id, statuses[ending],
                                               list.len > 0 ? list.data : NULL, batch_store_now()),
                              e);
    if (rc == 0)
        rc = add_answers(s, id, e);
    rc = batch_store_end_change(s, rc, e);
    buf_release(&list);
    if (rc == 0)
        remove_unused(s, id);
    return rc;
}
#endif
