/* server/server_usage.c - GET /v1/usage, rendered on a pool thread; see server_impl.h.
 *
 * The ledger may have 65,536 rows, whose text takes a tenth of a second, too long for the I/O
 * thread: it copies the ledger, and a pool thread renders the copy.
 */
#include "server/server_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/http/http_call.h"
#include "server/storage/usage_page.h"

struct usage_job {
    struct body_job body; /* has no body: the call is a GET */
    struct usage_ledger *ledger;
    struct usage_question question;
    bool has_keys;
    struct buf out;
    int rc;
};

static void usage_job_read(struct body_job *j)
{
    struct usage_job *u = list_entry(j, struct usage_job, body);

    u->rc = usage_page_render(u->ledger, &u->question, u->has_keys, &u->out);
}

static void usage_job_destroy(struct usage_job *u)
{
    usage_ledger_destroy(&u->ledger);
    buf_release(&u->out);
    mem_free(u);
}

static void refuse_usage(struct http_call *call, int rc)
{
    struct api_error e;

    if (rc == ERR_AGAIN)
        api_error_set(&e, 429, NULL, "queue_full", "too many requests are being answered");
    else
        api_error_no_memory(&e);
    http_call_reply_error(call, &e);
}

static void usage_job_done(struct body_job *j)
{
    struct usage_job *u = list_entry(j, struct usage_job, body);

    body_job_release(j);
    if (j->call != NULL && u->rc < 0)
        refuse_usage(j->call, u->rc);
    else if (j->call != NULL)
        http_call_reply_page(j->call, usage_page_type(&u->question), &u->out);
    usage_job_destroy(u);
}

static int begin_usage(struct server *s, struct usage_job *u, struct http_call *call)
{
    const int rc = usage_ledger_copy(&u->ledger, s->usage);

    u->has_keys = s->keys != NULL;
    u->body.read = usage_job_read;
    u->body.done = usage_job_done;
    buf_init(&u->out, HTTP_MAX_REPLY);
    return rc == 0 ? body_job_start(&u->body, &s->body_jobs, call, "usage") : rc;
}

void server_tell_usage(struct server *s, struct http_call *call)
{
    struct usage_question q;
    struct usage_job *u;
    struct api_error e;
    int rc = ERR_NOMEM;

    if (usage_question_read(call, &q, &e) < 0) {
        http_call_reply_error(call, &e);
        return;
    }
    u = mem_calloc(1, sizeof(*u));
    if (u != NULL) {
        u->question = q;
        rc = begin_usage(s, u, call);
    }
    if (rc == 0)
        return;
    if (u != NULL)
        usage_job_destroy(u);
    refuse_usage(call, rc);
}
