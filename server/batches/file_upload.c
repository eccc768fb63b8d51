/* server/batches/file_upload.c - see file_upload.h.
 *
 * The HTTP layer passes the body in pieces (http_route.receive). Each becomes a job on the storage
 * thread that runs the multipart parser and writes the file's bytes; the client is paused until the
 * job is done, so that at most one piece is in memory. Every upload ends with the job
 * drop_upload(), which closes the file and removes it unless it was placed.
 */
#include "server/batches/file_upload.h"

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/auth/auth.h"
#include "server/batches/batch_pages.h"
#include "server/batches/batch_run.h"
#include "server/batches/batch_store.h"
#include "server/batches/multipart.h"
#include "server/http/http_call.h"
#include "server/process/worker_pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FIELD 255
#define SYNC_AT_ONCE ((uint64_t)8 << 20)
/* OpenAI's limits of expires_after[seconds]. */
#define MIN_KEEP_S 3600
#define MAX_KEEP_S 2592000

enum field { FIELD_OTHER = 0, FIELD_FILE, FIELD_PURPOSE, FIELD_ANCHOR, FIELD_SECONDS, N_FIELDS };

static const char *const names[N_FIELDS] = {
    [FIELD_FILE] = "file",
    [FIELD_PURPOSE] = "purpose",
    [FIELD_ANCHOR] = "expires_after[anchor]",
    [FIELD_SECONDS] = "expires_after[seconds]",
};

struct upload {
    struct worker_job job;
    const struct batch_pages *pages;
    struct http_call *call; /* NULL: it was answered, or the client disconnected */
    char owner[BATCH_STORE_OWNER];
    bool has_job;
    /* The members below belong to the job while there is one. */
    struct multipart form;
    struct buf piece, out;
    enum field field; /* of the current part */
    char values[N_FIELDS][MAX_FIELD + 1];
    bool has[N_FIELDS];
    char id[BATCH_STORE_ID], filename[MULTIPART_MAX_FILENAME + 1];
    int fd; /* -1 = no file */
    uint64_t bytes, n_taken;
    uint64_t n_synced; /* bytes that are on the disk */
    bool has_last_boundary, is_placed;
    struct api_error error;
};

/* ---- the job: on the storage thread ---- */

static int begin_part(struct upload *u)
{
    u->field = FIELD_OTHER;
    for (int f = FIELD_FILE; f < N_FIELDS; f++)
        if (strcmp(u->form.name, names[f]) == 0)
            u->field = (enum field)f;
    if (u->field == FIELD_OTHER)
        return 0;
    if (u->has[u->field])
        return api_error_set(&u->error, 400, names[u->field], NULL,
                             "'%s' is given twice: the form may have one part with this name",
                             names[u->field]);
    u->has[u->field] = true;
    if (u->field != FIELD_FILE)
        return 0;
    snprintf(u->filename, sizeof(u->filename), "%s",
             u->form.filename[0] != '\0' ? u->form.filename : "file");
    if (!json_is_utf8(u->filename, strlen(u->filename)))
        return api_error_set(&u->error, 400, "file", NULL, "the file's name must be UTF-8");
    return batch_store_begin_file(u->pages->store, u->id, &u->fd, &u->error);
}

/* Sync the file each SYNC_AT_ONCE bytes, so that the last sync is short: other jobs of the storage
 * thread wait for it. */
static int sync_data(struct upload *u)
{
    if (u->bytes - u->n_synced < SYNC_AT_ONCE)
        return 0;
    if (fdatasync(u->fd) < 0)
        return api_error_set(&u->error, 503, NULL, "batch_dir", "the file cannot be kept: %s",
                             strerror(errno));
    u->n_synced = u->bytes;
    return 0;
}

static int write_data(struct upload *u, const char *data, size_t n)
{
    if (u->bytes + n > u->pages->max_file)
        return api_error_set(&u->error, 413, "file", NULL,
                             "the file has more than %" PRIu64
                             " bytes (batch_file_size): split it into several files",
                             u->pages->max_file);
    if (batch_store_take_room(u->pages->store, n, &u->error) < 0)
        return ERR_LIMIT;
    u->n_taken += n;
    while (n > 0) {
        const ssize_t put = write(u->fd, data, n);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return api_error_set(&u->error, 503, NULL, "batch_dir", "the file cannot be kept: %s",
                                 strerror(errno));
        data += put;
        n -= (size_t)put;
        u->bytes += (uint64_t)put;
    }
    return sync_data(u);
}

static int take_data(struct upload *u, const char *data, size_t n)
{
    char *value = u->values[u->field];
    const size_t len = strlen(value);

    if (u->field == FIELD_OTHER)
        return 0;
    if (u->field == FIELD_FILE)
        return write_data(u, data, n);
    if (n > MAX_FIELD - len || memchr(data, '\0', n) != NULL)
        return api_error_set(&u->error, 400, names[u->field], NULL,
                             "'%s' must be a text of at most %d bytes without NUL", names[u->field],
                             MAX_FIELD);
    memcpy(value + len, data, n);
    value[len + n] = '\0';
    return 0;
}

static void take_piece(struct worker_job *job)
{
    struct upload *u = list_entry(job, struct upload, job);
    const char *at = u->piece.data, *end = at + u->piece.len, *data = NULL;
    enum multipart_event e = MULTIPART_PART;
    size_t n = 0;
    int rc = 0;

    batch_store_try_open(u->pages->store);
    while (rc == 0 && e != MULTIPART_MORE) {
        e = multipart_next(&u->form, &at, end, &data, &n);
        if (e == MULTIPART_PART)
            rc = begin_part(u);
        else if (e == MULTIPART_DATA)
            rc = take_data(u, data, n);
        else if (e == MULTIPART_BAD)
            rc =
                api_error_set(&u->error, 400, NULL, NULL, "the form is not valid: %s", u->form.why);
        u->has_last_boundary |= e == MULTIPART_END;
    }
}

static int read_keep(struct upload *u, uint32_t *keep_s)
{
    char *end;
    const unsigned long n = strtoul(u->values[FIELD_SECONDS], &end, 10);

    *keep_s = 0;
    if (!u->has[FIELD_ANCHOR] && !u->has[FIELD_SECONDS])
        return 0;
    if (strcmp(u->values[FIELD_ANCHOR], "created_at") != 0)
        return api_error_set(&u->error, 400, "expires_after", NULL,
                             "'expires_after[anchor]' must be created_at, the only anchor that is "
                             "supported");
    if (u->values[FIELD_SECONDS][0] < '1' || u->values[FIELD_SECONDS][0] > '9' || *end != '\0' ||
        n < MIN_KEEP_S || n > MAX_KEEP_S)
        return api_error_set(&u->error, 400, "expires_after", NULL,
                             "'expires_after[seconds]' must be a whole number from %d to %d",
                             MIN_KEEP_S, MAX_KEEP_S);
    *keep_s = (uint32_t)n;
    return 0;
}

static int check_form(struct upload *u)
{
    if (!u->has_last_boundary)
        return api_error_set(
            &u->error, 400, NULL, NULL,
            "the form is cut: its last boundary, the one with -- behind it, is missing: "
            "send the whole form");
    if (!u->has[FIELD_FILE] || u->fd < 0)
        return api_error_set(&u->error, 400, "file", NULL,
                             "'file' is missing: the form must have a part with this name");
    if (!u->has[FIELD_PURPOSE])
        return api_error_set(
            &u->error, 400, "purpose", NULL,
            "'purpose' is missing: the form must have a part with this name, and the "
            "value batch");
    if (strcmp(u->values[FIELD_PURPOSE], "batch") != 0)
        return api_error_set(&u->error, 400, "purpose", NULL,
                             "'purpose' must be batch, the only purpose that is supported");
    return 0;
}

static void keep_file(struct worker_job *job)
{
    struct upload *u = list_entry(job, struct upload, job);
    const struct batch_name name = {u->owner, u->id};
    struct batch_upload file = {u->filename, "batch", u->bytes, 0};

    if (check_form(u) < 0 || read_keep(u, &file.keep_s) < 0)
        return;
    u->is_placed =
        batch_store_end_file(u->pages->store, &name, u->fd, &file, &u->out, &u->error) == 0;
    if (u->is_placed) { /* the file's row counts its bytes now */
        batch_store_give_room(u->pages->store, u->n_taken);
        u->n_taken = 0;
    }
}

static void drop_upload(struct worker_job *job)
{
    struct upload *u = list_entry(job, struct upload, job);

    if (u->fd < 0)
        return;
    batch_store_give_room(u->pages->store, u->n_taken);
    close(u->fd);
    if (!u->is_placed)
        batch_store_drop_file(u->pages->store, u->id);
}

/* ---- the call ---- */

static void post(struct upload *u, void (*work)(struct worker_job *job),
                 void (*done)(struct worker_job *job))
{
    u->has_job = true;
    u->job.work = work;
    u->job.done = done;
    u->job.name = "file_upload";
    u->job.subject = BATCH_JOB_SUBJECT;
    (void)worker_pool_post(u->pages->storage,
                           &u->job); /* the storage thread has no limit of jobs */
}

static void after_drop(struct worker_job *job)
{
    struct upload *u = list_entry(job, struct upload, job);

    buf_release(&u->piece);
    buf_release(&u->out);
    mem_free(u);
}

/* Called when the call was answered, or its client has disconnected: clean up on the storage
 * thread. */
static void leave_upload(struct upload *u)
{
    u->call = NULL;
    post(u, drop_upload, after_drop);
}

static void on_upload_client_gone(void *ud)
{
    struct upload *u = ud;

    u->call = NULL;
    if (!u->has_job)
        leave_upload(u);
}

static bool has_failed(struct upload *u)
{
    u->has_job = false;
    if (u->call != NULL && u->error.status == 0)
        return false;
    if (u->call != NULL) {
        http_call_set_received(u->call, NULL);
        http_call_reply_error(u->call, &u->error);
    }
    leave_upload(u);
    return true;
}

static void after_piece(struct worker_job *job)
{
    struct upload *u = list_entry(job, struct upload, job);

    buf_release(&u->piece);
    if (!has_failed(u))
        http_call_resume(u->call);
}

static void after_keep(struct worker_job *job)
{
    struct upload *u = list_entry(job, struct upload, job);

    if (has_failed(u))
        return;
    http_call_reply(u->call, 200, "application/json", &u->out);
    leave_upload(u);
}

static void refuse_upload(struct http_call *call, int status, const char *message)
{
    struct api_error e;

    api_error_set(&e, status, NULL, NULL, "%s", message);
    http_call_reply_error(call, &e);
}

/* Begin an upload when its first piece has come. NULL: the call has been answered. */
static struct upload *begin_upload(const struct batch_pages *pages, struct http_call *call)
{
    struct upload *u;

    if (pages->store == NULL)
        return batch_pages_refuse(call), NULL;
    u = mem_calloc(1, sizeof(*u));
    if (u == NULL)
        return refuse_upload(call, 500, "out of memory"), NULL;
    if (!multipart_init(&u->form, http_call_header(call, "Content-Type"))) {
        mem_free(u);
        return refuse_upload(call, 415, "the content type must be multipart/form-data"), NULL;
    }
    u->pages = pages;
    u->call = call;
    u->fd = -1;
    buf_init(&u->out, HTTP_MAX_REPLY);
    auth_tenant(call, pages->tenant_header, u->owner, sizeof(u->owner));
    http_call_set_received(call, u);
    http_call_on_gone(call, on_upload_client_gone, u);
    return u;
}

void file_upload_receive(const struct batch_pages *pages, struct http_call *call)
{
    struct upload *u = http_call_received(call);

    if (u == NULL)
        u = begin_upload(pages, call);
    if (u == NULL)
        return;
    u->piece = http_call_take_body(call);
    http_call_pause(call);
    post(u, take_piece, after_piece);
}

void file_upload_end(const struct batch_pages *pages, struct http_call *call)
{
    struct upload *u = http_call_received(call);

    if (u != NULL)
        post(u, keep_file, after_keep);
    else if (pages->store == NULL)
        batch_pages_refuse(call);
    else
        refuse_upload(call, 400, "the form is empty: it must have the parts 'file' and 'purpose'");
}
