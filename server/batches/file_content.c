/* server/batches/file_content.c - see file_content.h.
 *
 * Two threads alternate: a job on the storage thread reads 256 KiB, the I/O thread writes it to
 * the stream, and on_room() posts the next job when the client has taken it. A client that
 * disconnects only clears `call`; the last job closes the descriptor, because closing may wait for
 * a disk.
 */
#include "server/batches/file_content.h"

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/auth/auth.h"
#include "server/batches/batch_pages.h"
#include "server/batches/batch_run.h"
#include "server/batches/batch_store.h"
#include "server/http/http_call.h"
#include "server/process/worker_pool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)256 << 10)

struct content {
    struct worker_job job;
    const struct batch_pages *pages;
    struct http_call *call; /* NULL: the client disconnected */
    char id[BATCH_STORE_ID], owner[BATCH_STORE_OWNER];
    int fd; /* -1 = not open yet */
    struct buf piece;
    bool has_job, has_begun, has_ended;
    struct api_error error;
};

/* ---- the job ---- */

static void read_piece(struct content *c)
{
    ssize_t n;

    buf_clear(&c->piece);
    if (buf_reserve(&c->piece, PIECE) < 0) {
        api_error_no_memory(&c->error);
        return;
    }
    do
        n = read(c->fd, c->piece.data, PIECE);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        api_error_set(&c->error, 503, NULL, "batch_dir", "the file cannot be read: %s",
                      strerror(errno));
    c->piece.len = n > 0 ? (size_t)n : 0;
    c->has_ended = n == 0;
}

static void on_content_work(struct worker_job *job)
{
    struct content *c = list_entry(job, struct content, job);
    const struct batch_name name = {c->owner, c->id};

    batch_store_try_open(c->pages->store);
    if (c->fd < 0)
        batch_store_open_file(c->pages->store, &name, &c->fd, &c->error);
    if (c->fd >= 0)
        read_piece(c);
}

static void on_close(struct worker_job *job)
{
    struct content *c = list_entry(job, struct content, job);

    if (c->fd >= 0)
        close(c->fd);
}

static void on_closed(struct worker_job *job)
{
    struct content *c = list_entry(job, struct content, job);

    buf_release(&c->piece);
    mem_free(c);
}

/* ---- the call ---- */

static void post(struct content *c, void (*work)(struct worker_job *job),
                 void (*done)(struct worker_job *job))
{
    c->has_job = true;
    c->job.work = work;
    c->job.done = done;
    c->job.name = "file_content";
    c->job.subject = BATCH_JOB_SUBJECT;
    (void)worker_pool_post(c->pages->storage,
                           &c->job); /* the storage thread has no limit of jobs */
}

static void end_content(struct content *c)
{
    c->call = NULL;
    post(c, on_close, on_closed);
}

static void on_content_client_gone(void *ud)
{
    struct content *c = ud;

    c->call = NULL;
    if (!c->has_job)
        end_content(c);
}

static void on_content_done(struct worker_job *job);

static void on_room(void *ud)
{
    struct content *c = ud;

    if (!c->has_job)
        post(c, on_content_work, on_content_done);
}

/* After the first piece an error can only be shown by aborting the answer. */
static void fail_content(struct content *c)
{
    struct http_call *call = c->call;

    if (c->has_begun)
        http_call_abort(call);
    else
        http_call_reply_error(call, &c->error);
    end_content(c);
}

static void on_content_done(struct worker_job *job)
{
    struct content *c = list_entry(job, struct content, job);
    struct http_call *call = c->call;

    c->has_job = false;
    if (call == NULL) {
        end_content(c);
        return;
    }
    if (c->error.status != 0) {
        fail_content(c);
        return;
    }
    if (!c->has_begun) {
        http_call_stream(call, "application/octet-stream");
        http_call_on_room(call, on_room, c);
    }
    c->has_begun = true;
    if (c->has_ended) {
        http_call_end(call);
        end_content(c);
    } else if (http_call_write(call, c->piece.data, c->piece.len) < 0) {
        http_call_abort(call);
        end_content(c);
    }
}

void file_content_send(const struct batch_pages *pages, struct http_call *call)
{
    const char *id = http_call_tail(call);
    struct content *c = strlen(id) < BATCH_STORE_ID ? mem_calloc(1, sizeof(*c)) : NULL;
    struct api_error e;

    if (c == NULL) {
        api_error_set(&e, 404, NULL, NULL, "there is no file with this id");
        http_call_reply_error(call, &e);
        return;
    }
    c->pages = pages;
    c->call = call;
    c->fd = -1;
    memcpy(c->id, id, strlen(id) + 1);
    auth_tenant(call, pages->tenant_header, c->owner, sizeof(c->owner));
    buf_init(&c->piece, PIECE);
    http_call_on_gone(call, on_content_client_gone, c);
    post(c, on_content_work, on_content_done);
}
