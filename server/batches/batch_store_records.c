/* server/batches/batch_store_records.c - the batches of batch_store.h, from creation to end.
 *
 * A batch is one row whose status only moves forward: every UPDATE names the statuses from which it
 * may change, so that a late job changes nothing. Progress and usage are one transaction, and so
 * are the end and the rows of its answers. A batch's seed is a hash of its id.
 */
#include "server/batches/batch_store_impl.h"

#include "core/base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static const char *const statuses[] = {
    [BATCH_ENDS_NOT] = "",       [BATCH_COMPLETED] = "completed", [BATCH_FAILED] = "failed",
    [BATCH_EXPIRED] = "expired", [BATCH_CANCELLED] = "cancelled",
};

/* ---- for clients ---- */

static int check_input(struct batch_store *s, const struct batch_name *input, struct api_error *e)
{
    const int rc =
        sql_store_run(&s->sql, SQL_GET_FILE, e, "tti", input->id, input->owner, batch_store_now());

    sql_store_reset(&s->sql, SQL_GET_FILE);
    if (rc == 0) {
        batch_store_not_found(e, "file", input->id);
        snprintf(e->param, sizeof(e->param), "input_file_id");
        return ERR_NOENT;
    }
    return rc < 0 ? rc : 0;
}

/* Check the number of open batches. It is checked on the storage thread, where calls run one after
 * the other, so that no two of them take the last place. */
static int check_open(struct batch_store *s, const char *owner, struct api_error *e)
{
    const int64_t most = owner[0] != '\0' ? BATCH_STORE_MAX_OPEN_OF_OWNER : BATCH_STORE_MAX_OPEN;
    const int rc = sql_store_run(&s->sql, SQL_COUNT_OPEN, e, "t", owner);
    const int64_t n = sql_store_int(&s->sql, SQL_COUNT_OPEN, 0);
    const int64_t n_own = sql_store_int(&s->sql, SQL_COUNT_OPEN, 1);

    sql_store_reset(&s->sql, SQL_COUNT_OPEN);
    if (rc < 0 || (n < BATCH_STORE_MAX_OPEN && n_own < most))
        return rc < 0 ? rc : 0;
    api_error_set(e, 429, NULL, "too_many_batches",
                  "%" PRId64
                  " batches%s are already waiting or running: try again when one has ended",
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
    rc = sql_store_run(&s->sql, SQL_ADD, e, "tttttttiitti", id, owner, start->key, start->endpoint,
                       start->input, start->window, start->metadata, now, now + start->window_s,
                       answers[BATCH_OUTPUT], answers[BATCH_ERRORS], seed);
    return rc < 0 ? rc : batch_store_get(s, &name, out, e);
}

int batch_store_cancel(struct batch_store *s, const struct batch_name *name, struct buf *out,
                       struct api_error *e)
{
    int rc = batch_store_get(s, name, out, e);
    bool is_cancelled;

    if (rc == 0)
        rc = sql_store_run(&s->sql, SQL_CANCEL, e, "ttii", name->id, name->owner, batch_store_now(),
                           (int64_t)BATCH_CANCELLED);
    if (rc < 0)
        return rc;
    is_cancelled = sql_store_n_changed(&s->sql) > 0;
    buf_clear(out);
    rc = batch_store_get(s, name, out, e);
    if (rc < 0 || is_cancelled || strstr(out->data, "\"status\":\"cancelling\"") != NULL)
        return rc;
    api_error_set(e, 409, NULL, "batch_ended", "the batch has ended, or is about to");
    return ERR_BUSY;
}

/* ---- for batch_run.c and batch_runner.c ---- */

static void take_text(const struct batch_store *s, int column, char *out, size_t size)
{
    snprintf(out, size, "%s", sql_store_text(&s->sql, SQL_FIND_OPEN, column));
}

static void take_path(const struct batch_store *s, int column, char out[BATCH_STORE_PATH])
{
    char id[BATCH_STORE_ID];

    take_text(s, column, id, sizeof(id));
    batch_store_path(s, id, out);
}

static uint64_t take_number(const struct batch_store *s, int column)
{
    return (uint64_t)sql_store_int(&s->sql, SQL_FIND_OPEN, column);
}

static void take_record(const struct batch_store *s, struct batch_record *out)
{
    const uint64_t ending = take_number(s, 13);

    take_text(s, 1, out->id, sizeof(out->id));
    take_text(s, 2, out->owner, sizeof(out->owner));
    take_text(s, 3, out->key, sizeof(out->key));
    take_text(s, 4, out->endpoint, sizeof(out->endpoint));
    take_path(s, 5, out->input);
    take_path(s, 6, out->answers[BATCH_OUTPUT]);
    take_path(s, 7, out->answers[BATCH_ERRORS]);
    out->seed = take_number(s, 8);
    out->expires_s = (int64_t)take_number(s, 9);
    out->n_lines = (uint32_t)take_number(s, 10);
    out->ends[BATCH_OUTPUT] = take_number(s, 11);
    out->ends[BATCH_ERRORS] = take_number(s, 12);
    out->ending = ending <= BATCH_CANCELLED ? (enum batch_ending)ending : BATCH_ENDS_NOT;
}

int batch_store_find_open(struct batch_store *s, const char *id, int64_t *n,
                          struct batch_record *out, struct api_error *e)
{
    const int rc =
        sql_store_run(&s->sql, SQL_FIND_OPEN, e, "ti", id, id == NULL ? *n : (int64_t)-1);

    if (rc == 1) {
        *n = sql_store_int(&s->sql, SQL_FIND_OPEN, 0);
        take_record(s, out);
    }
    sql_store_reset(&s->sql, SQL_FIND_OPEN);
    return rc;
}

int batch_store_set_lines(struct batch_store *s, const char *id, uint32_t n_lines,
                          struct api_error *e)
{
    return sql_store_run(&s->sql, SQL_SET_LINES, e, "tii", id, batch_store_now(), (int64_t)n_lines);
}

/* Update progress and usage within a transaction. */
static int set_progress(struct batch_store *s, const char *id, const struct batch_progress *p,
                        struct api_error *e)
{
    const struct batch_usage *u = &p->usage;
    int rc = sql_store_run(&s->sql, SQL_SET_PROGRESS, e, "tiiii", id,
                           (int64_t)p->n_done[BATCH_OUTPUT], (int64_t)p->n_done[BATCH_ERRORS],
                           (int64_t)p->ends[BATCH_OUTPUT], (int64_t)p->ends[BATCH_ERRORS]);

    if (rc == 0)
        rc = sql_store_run(&s->sql, SQL_SET_USAGE, e, "tiiii", id, (int64_t)u->n_input,
                           (int64_t)u->n_cached, (int64_t)u->n_output, (int64_t)u->n_reasoning);
    return rc;
}

int batch_store_set_progress(struct batch_store *s, const char *id,
                             const struct batch_progress *progress, struct api_error *e)
{
    int rc = sql_store_begin(&s->sql, e);

    if (rc == 0)
        rc = set_progress(s, id, progress, e);
    return batch_store_end_change(s, rc, e);
}

int batch_store_set_ending(struct batch_store *s, const char *id, enum batch_ending ending,
                           struct api_error *e)
{
    return sql_store_run(&s->sql, SQL_SET_ENDING, e, "tii", id, (int64_t)ending, batch_store_now());
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
        rc = sql_store_run(&s->sql, SQL_ADD_ANSWERS, e, "tiii", id, kind, batch_store_now(),
                           batch_store_keep_until(s));
    return rc;
}

/* Remove empty files of answers, which get no row. */
static void remove_unused(struct batch_store *s, const char *id)
{
    char path[BATCH_STORE_PATH];
    struct api_error ignored = {0};

    if (sql_store_run(&s->sql, SQL_UNUSED_ANSWERS, &ignored, "t", id) == 1)
        for (int kind = 0; kind < BATCH_N_KINDS; kind++) {
            const char *unused = sql_store_text(&s->sql, SQL_UNUSED_ANSWERS, kind);

            batch_store_path(s, unused, path);
            if (unused[0] != '\0')
                unlink(path);
        }
    sql_store_reset(&s->sql, SQL_UNUSED_ANSWERS);
}

int batch_store_end(struct batch_store *s, const char *id, enum batch_ending ending,
                    const struct batch_progress *progress, const struct buf *errors,
                    struct api_error *e)
{
    struct buf list;
    int rc = sql_store_begin(&s->sql, e);

    buf_init(&list, SIZE_MAX / 2);
    if (errors != NULL && errors->len > 0)
        add_error_list(errors, &list);
    if (rc == 0)
        rc = set_progress(s, id, progress, e);
    if (rc == 0)
        rc = sql_store_run(&s->sql, SQL_END, e, "ttti", id, statuses[ending],
                           list.len > 0 ? list.data : NULL, batch_store_now());
    if (rc == 0)
        rc = add_answers(s, id, e);
    rc = batch_store_end_change(s, rc, e);
    buf_release(&list);
    if (rc == 0)
        remove_unused(s, id);
    return rc;
}
