/* server/api/kept_responses.c - see kept_responses.h.
 *
 * Each call becomes a job of the response keeper: on_kept_work() fills the answer on the database's
 * thread, on_kept_done() sends it from the loop. If the client disconnects, the job's call becomes
 * NULL and the job runs to its end. Before a response is deleted or cancelled in the database, the
 * keeper cancels the completion that may still compute it.
 */
#include "server/api/kept_responses.h"

#include "config/weights.h"
#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/api/server_options.h"
#include "server/auth/auth.h"
#include "server/http/http_call.h"
#include "server/storage/response_keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PAGE 100
#define DEFAULT_PAGE 20

struct asker {
    struct worker_job job;
    struct response_store *store;
    struct http_call *call; /* NULL: its client has disconnected */
    enum kept_responses_page page;
    bool deletes;
    char id[RESPONSE_MAX_ID + 1], owner[WEIGHTS_MAX_NAME + 2], after[RESPONSE_MAX_ID + 1];
    struct response_page items;
    struct buf out;
    struct api_error error;
};

/* ---- the answer ---- */

static struct response_name kept_name(const struct asker *a)
{
    return (struct response_name){a->owner, a->id};
}

static void delete_one(struct asker *a)
{
    const struct response_name name = kept_name(a);

    if (response_store_delete(a->store, &name, &a->error) < 0)
        return;
    buf_add_str(&a->out, "{\"id\":");
    json_add_cstring(&a->out, a->id);
    buf_add_str(&a->out, ",\"object\":\"response\",\"deleted\":true}");
}

static void on_kept_work(struct worker_job *job)
{
    struct asker *a = list_entry(job, struct asker, job);
    const struct response_name name = kept_name(a);

    if (a->page == KEPT_RESPONSES_CANCEL)
        response_store_cancel(a->store, &name, &a->out, &a->error);
    else if (a->page == KEPT_RESPONSES_ITEMS)
        response_store_items(a->store, &name, &a->items, &a->out, &a->error);
    else if (a->deletes)
        delete_one(a);
    else
        response_store_get(a->store, &name, &a->out, &a->error);
}

static void on_kept_done(struct worker_job *job)
{
    struct asker *a = list_entry(job, struct asker, job);

    if (a->call != NULL && a->error.status != 0)
        http_call_reply_error(a->call, &a->error);
    else if (a->call != NULL)
        http_call_reply_page(a->call, "application/json", &a->out);
    buf_release(&a->out);
    mem_free(a);
}

static void on_kept_client_gone(void *ud)
{
    ((struct asker *)ud)->call = NULL;
}

/* ---- the question ---- */

static int read_page(struct asker *a)
{
    const char *limit = http_call_query(a->call, "limit"),
               *order = http_call_query(a->call, "order");
    const char *after = http_call_query(a->call, "after");
    const unsigned long n = limit != NULL ? strtoul(limit, NULL, 10) : DEFAULT_PAGE;

    if (limit != NULL && (limit[strspn(limit, "0123456789")] != '\0' || n < 1 || n > MAX_PAGE))
        return api_error_set(&a->error, 400, "limit", NULL, "'limit' must be from 1 to %d",
                             MAX_PAGE);
    if (order != NULL && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return api_error_set(&a->error, 400, "order", NULL, "'order' must be asc or desc");
    if (after != NULL && strlen(after) > RESPONSE_MAX_ID)
        return api_error_set(&a->error, 400, "after", NULL, "'after' must be the id of an item");
    a->items.limit = (uint32_t)n;
    a->items.is_ascending = order != NULL && strcmp(order, "asc") == 0;
    if (after != NULL)
        a->items.after = memcpy(a->after, after, strlen(after) + 1);
    return 0;
}

static int read_kept_call(struct asker *a, const struct server_options *server)
{
    const char *id = http_call_tail(a->call);

    if (strlen(id) > RESPONSE_MAX_ID)
        return api_error_set(&a->error, 404, NULL, NULL, "no response with this id is kept here");
    memcpy(a->id, id, strlen(id) + 1);
    a->deletes = http_call_is(a->call, HTTP_DELETE);
    auth_tenant(a->call, server->tenant_header, a->owner, sizeof(a->owner));
    return a->page == KEPT_RESPONSES_ITEMS ? read_page(a) : 0;
}

static void refuse_kept(struct http_call *call, int status, const char *message)
{
    struct api_error e;

    api_error_set(&e, status, NULL, NULL, "%s", message);
    http_call_reply_error(call, &e);
}

void kept_responses_ask(struct response_keeper *k, const struct server_options *server,
                        struct http_call *call, enum kept_responses_page page)
{
    struct response_name name;
    struct asker *a;

    if (k == NULL) {
        refuse_kept(call, 400, "this server keeps no responses: set responses_db");
        return;
    }
    a = mem_calloc(1, sizeof(*a));
    if (a == NULL) {
        refuse_kept(call, 500, "out of memory");
        return;
    }
    a->store = response_keeper_store(k);
    a->call = call;
    a->page = page;
    buf_init(&a->out, HTTP_MAX_REPLY);
    if (read_kept_call(a, server) < 0) {
        http_call_reply_error(call, &a->error);
        mem_free(a);
        return;
    }
    name = kept_name(a);
    if (a->deletes || page == KEPT_RESPONSES_CANCEL)
        response_keeper_cancel(k, &name);
    http_call_on_gone(call, on_kept_client_gone, a);
    a->job.work = on_kept_work;
    a->job.done = on_kept_done;
    response_keeper_post(k, &a->job);
}
