/* server/batches/batch_pages.c - see batch_pages.h.
 *
 * A call becomes a struct asker, a job on the storage thread that parses, asks the store and
 * renders; its result is sent on the I/O thread. A job outlives its client: on_batch_client_gone()
 * only clears the call. After a batch was created or cancelled the I/O thread notifies the runner,
 * which reads the batch from the store.
 */
#include "server/batches/batch_pages.h"

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/auth/api_keys.h"
#include "server/auth/auth.h"
#include "server/batches/batch_runner.h"
#include "server/batches/file_content.h"
#include "server/http/http_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILES 10000 /* OpenAI's limits */
#define MAX_BATCHES 100
#define DEFAULT_BATCHES 20
#define MAX_WINDOW_H 168
#define MAX_METADATA 16
#define MAX_METADATA_KEY 64
#define MAX_METADATA_VALUE 512

struct asker {
    struct worker_job job;
    const struct batch_pages *pages;
    struct http_call *call; /* NULL: the client disconnected */
    enum batch_page_kind kind;
    bool deletes, creates;
    char id[BATCH_STORE_ID], owner[BATCH_STORE_OWNER], key[BATCH_STORE_KEY];
    char after[BATCH_STORE_ID], purpose[32];
    struct batch_page page;
    struct batch_start start;
    char endpoint[BATCH_LINE_MAX_URL + 1], input[BATCH_STORE_ID], window[8];
    char *metadata;  /* allocated by cJSON, or NULL */
    struct buf body; /* body of a call that creates a batch */
    struct buf out;
    struct api_error error;
};

static int copy_text_field(struct asker *a, const char *name, const char *value, char *out,
                           size_t size)
{
    if (value == NULL)
        return 0;
    if (strlen(value) >= size)
        return api_error_set(&a->error, 400, name, NULL, "'%s' is too long", name);
    memcpy(out, value, strlen(value) + 1);
    return 0;
}

/* ---- a new batch ---- */

static int take_batch_text(struct asker *a, const cJSON *body, const char *name, char *out,
                           size_t size)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(body, name);

    if (v == NULL)
        return api_error_set(&a->error, 400, name, "missing_required_parameter", "'%s' is missing",
                             name);
    if (!cJSON_IsString(v))
        return api_error_set(&a->error, 400, name, NULL, "'%s' must be a string", name);
    return copy_text_field(a, name, v->valuestring, out, size);
}

static int read_window(struct asker *a)
{
    char *end;
    const unsigned long n = strtoul(a->window, &end, 10);

    if (a->window[0] < '1' || a->window[0] > '9' || strcmp(end, "h") != 0 || n > MAX_WINDOW_H)
        return api_error_set(
            &a->error, 400, "completion_window", "invalid_value",
            "'completion_window' must be a number of hours from 1h to %dh, such as 24h",
            MAX_WINDOW_H);
    a->start.window_s = (uint32_t)n * 3600;
    return 0;
}

/* Check a member of `metadata`. The error names it, unless its name is what is too long. */
static int check_metadata_member(struct asker *a, const cJSON *member)
{
    if (strlen(member->string) > MAX_METADATA_KEY)
        return api_error_set(&a->error, 400, "metadata", NULL,
                             "a name in 'metadata' has more than %d bytes: use a shorter one",
                             MAX_METADATA_KEY);
    if (!cJSON_IsString(member) || strlen(member->valuestring) > MAX_METADATA_VALUE)
        return api_error_set(&a->error, 400, "metadata", NULL,
                             "'%s' in 'metadata' must be a string of at most %d bytes",
                             member->string, MAX_METADATA_VALUE);
    return 0;
}

static int read_metadata(struct asker *a, const cJSON *body)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(body, "metadata");

    if (all == NULL || cJSON_IsNull(all))
        return 0;
    if (!cJSON_IsObject(all) || cJSON_GetArraySize(all) > MAX_METADATA)
        return api_error_set(&a->error, 400, "metadata", NULL,
                             "'metadata' must be an object with at most %d members", MAX_METADATA);
    for (const cJSON *it = all->child; it != NULL; it = it->next)
        if (check_metadata_member(a, it) < 0)
            return ERR_INVAL;
    a->metadata = cJSON_PrintUnformatted(all);
    return a->metadata != NULL ? 0 : api_error_no_memory(&a->error);
}

static bool body_has(const cJSON *body, const char *name)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(body, name);

    return v != NULL && !cJSON_IsNull(v);
}

static int read_body(struct asker *a, const cJSON *body)
{
    if (!cJSON_IsObject(body))
        return api_error_set(&a->error, 400, NULL, NULL, "the body must be an object");
    if (body_has(body, "output_expires_after"))
        return api_error_set(&a->error, 400, "output_expires_after", "unsupported_parameter",
                             "'output_expires_after' is not supported: output files are kept as "
                             "long as other files (batch_days)");
    if (take_batch_text(a, body, "input_file_id", a->input, sizeof(a->input)) < 0 ||
        take_batch_text(a, body, "endpoint", a->endpoint, sizeof(a->endpoint)) < 0 ||
        take_batch_text(a, body, "completion_window", a->window, sizeof(a->window)) < 0 ||
        read_window(a) < 0 || read_metadata(a, body) < 0)
        return ERR_INVAL;
    if (!batch_line_is_endpoint(a->endpoint))
        return api_error_set(&a->error, 400, "endpoint", "invalid_value",
                             "'endpoint' must be " BATCH_LINE_ENDPOINTS);
    a->start.input = a->input;
    a->start.endpoint = a->endpoint;
    a->start.window = a->window;
    a->start.metadata = a->metadata;
    a->start.key = a->key;
    return 0;
}

/* Create a batch; runs on the storage thread. */
static void create(struct asker *a, struct batch_store *s)
{
    cJSON *body = NULL;
    const char *why;
    int rc = json_parse(a->body.data != NULL ? a->body.data : "", a->body.len, &body, &why);

    if (rc < 0)
        api_error_set(&a->error, 400, NULL, NULL, "%s", why);
    else
        rc = read_body(a, body);
    cJSON_Delete(body);
    if (rc == 0)
        batch_store_create(s, a->owner, &a->start, a->id, &a->out, &a->error);
}

/* ---- the answer ---- */

static void ask_files(struct asker *a, struct batch_store *s, const struct batch_name *name)
{
    if (a->kind == BATCH_PAGE_FILES)
        batch_store_list_files(s, a->owner, &a->page, &a->out, &a->error);
    else if (a->deletes)
        batch_store_delete_file(s, name, &a->out, &a->error);
    else
        batch_store_get_file(s, name, &a->out, &a->error);
}

static void on_batch_page_work(struct worker_job *job)
{
    struct asker *a = list_entry(job, struct asker, job);
    const struct batch_name name = {a->owner, a->id};
    struct batch_store *s = a->pages->store;

    batch_store_try_open(s);
    if (a->creates)
        create(a, s);
    else if (a->kind == BATCH_PAGE_BATCHES)
        batch_store_list(s, a->owner, &a->page, &a->out, &a->error);
    else if (a->kind == BATCH_PAGE_BATCH)
        batch_store_get(s, &name, &a->out, &a->error);
    else if (a->kind == BATCH_PAGE_CANCEL)
        batch_store_cancel(s, &name, &a->out, &a->error);
    else
        ask_files(a, s, &name);
}

/* Notify the runner that a batch was created or cancelled. */
static void tell_runner(const struct asker *a)
{
    struct batch_record *record;

    if (a->error.status != 0)
        return;
    if (a->kind == BATCH_PAGE_CANCEL)
        batch_runner_cancel(a->pages->runner, a->id);
    if (!a->creates)
        return;
    record = mem_calloc(1, sizeof(*record));
    if (record == NULL)
        return; /* no memory: the next process runs the batch */
    memcpy(record->id, a->id, sizeof(record->id));
    (void)batch_runner_add(a->pages->runner, record, BATCH_LOADING);
    mem_free(record);
}

static void destroy_asker(struct asker *a)
{
    cJSON_free(a->metadata);
    buf_release(&a->out);
    buf_release(&a->body);
    mem_free(a);
}

static void on_batch_page_done(struct worker_job *job)
{
    struct asker *a = list_entry(job, struct asker, job);

    tell_runner(a);
    if (a->call != NULL && a->error.status != 0)
        http_call_reply_error(a->call, &a->error);
    else if (a->call != NULL)
        http_call_reply_page(a->call, "application/json", &a->out);
    destroy_asker(a);
}

static void on_batch_client_gone(void *ud)
{
    ((struct asker *)ud)->call = NULL;
}

/* ---- the question ---- */

static int read_page(struct asker *a, unsigned long most, unsigned long usual)
{
    const char *limit = http_call_query(a->call, "limit"),
               *order = http_call_query(a->call, "order"),
               *after = http_call_query(a->call, "after"),
               *purpose = http_call_query(a->call, "purpose");
    const unsigned long n = limit != NULL ? strtoul(limit, NULL, 10) : usual;

    if (limit != NULL && (limit[strspn(limit, "0123456789")] != '\0' || n < 1 || n > most))
        return api_error_set(&a->error, 400, "limit", NULL, "'limit' must be from 1 to %lu", most);
    if (order != NULL && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return api_error_set(&a->error, 400, "order", NULL, "'order' must be asc or desc");
    if (copy_text_field(a, "after", after, a->after, sizeof(a->after)) < 0 ||
        copy_text_field(a, "purpose", purpose, a->purpose, sizeof(a->purpose)) < 0)
        return ERR_INVAL;
    a->page = (struct batch_page){.limit = (uint32_t)n,
                                  .is_ascending = order != NULL && strcmp(order, "asc") == 0,
                                  .after = after != NULL ? a->after : NULL,
                                  .purpose = purpose != NULL ? a->purpose : NULL};
    return 0;
}

static int read_batch_call(struct asker *a)
{
    const struct key *key = http_call_owner(a->call);
    const char *id = http_call_tail(a->call);

    auth_tenant(a->call, a->pages->tenant_header, a->owner, sizeof(a->owner));
    if (key != NULL)
        snprintf(a->key, sizeof(a->key), "%s", key->spec.name);
    if (a->creates) {
        a->body = http_call_take_body(a->call); /* parsed on the storage thread */
        return 0;
    }
    if (a->kind == BATCH_PAGE_FILES)
        return read_page(a, MAX_FILES, MAX_FILES);
    if (a->kind == BATCH_PAGE_BATCHES)
        return read_page(a, MAX_BATCHES, DEFAULT_BATCHES);
    if (strlen(id) >= sizeof(a->id))
        return api_error_set(&a->error, 404, NULL, NULL, "there is no file or batch with this id");
    memcpy(a->id, id, strlen(id) + 1);
    return 0;
}

void batch_pages_refuse(struct http_call *call)
{
    struct api_error e;

    api_error_set(&e, 400, NULL, NULL, "this server has no files and batches: set batch_dir");
    http_call_reply_error(call, &e);
}

void batch_pages_ask(const struct batch_pages *p, struct http_call *call, enum batch_page_kind kind)
{
    struct asker *a;
    struct api_error e;

    if (p->store == NULL) {
        batch_pages_refuse(call);
        return;
    }
    if (kind == BATCH_PAGE_CONTENT) {
        file_content_send(p, call);
        return;
    }
    a = mem_calloc(1, sizeof(*a));
    if (a == NULL) {
        api_error_no_memory(&e);
        http_call_reply_error(call, &e);
        return;
    }
    a->pages = p;
    a->call = call;
    a->kind = kind;
    a->deletes = http_call_is(call, HTTP_DELETE);
    a->creates = kind == BATCH_PAGE_BATCHES && http_call_is(call, HTTP_POST);
    buf_init(&a->out, HTTP_MAX_REPLY);
    if (read_batch_call(a) < 0) {
        http_call_reply_error(call, &a->error);
        destroy_asker(a);
        return;
    }
    http_call_on_gone(call, on_batch_client_gone, a);
    a->job.work = on_batch_page_work;
    a->job.done = on_batch_page_done;
    a->job.name = "batch_pages";
    a->job.subject = BATCH_JOB_SUBJECT;
    (void)worker_pool_post(p->storage, &a->job); /* the storage thread has no limit of jobs */
}
