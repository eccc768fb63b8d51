/* server/storage/request_restorer.c - see request_restorer.h.
 *
 * Items move between two lists: `waiting`, in order of arrival, and `running`, whose local calls
 * are not answered yet; an answered item is freed, because from then on the completion has the
 * request. pump() starts calls up to MAX_RUNNING, and a timer ticks while items wait. Two hash
 * indices tell whether a client that asks for a stream should wait for it. All on the I/O thread.
 */
#include "server/storage/request_restorer.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/hash_index.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/name_copy.h"
#include "server/auth/api_keys.h"
#include "server/process/loop_guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Most calls at a time; those for a model that is still loading must leave room for others. */
#define MAX_RUNNING 256
/* Pause before an item that got 429 or 503 is tried again; it doubles each time. */
#define MIN_PAUSE_US 200000u
#define MAX_PAUSE_US 5000000u
#define TICK_MS 100

struct item {
    struct list link; /* in `waiting` or `running` */
    struct request_restorer *restorer;
    struct saved_request saved;
    struct local_call call;
    struct buf body; /* borrows */
    char path[256], tenant[128];
    uint64_t pause_us, wait_until_us;
};

struct request_restorer {
    struct request_restorer_options opt;
    struct local_calls *calls;
    struct list waiting, running;             /* struct item; `waiting` by arrival */
    struct hash_index by_id, by_conversation; /* indices of both lists */
    uint32_t n_running, n_begun, n_lost;
    bool is_stopping, is_closed;
    uint64_t start_us;
    uv_timer_t tick;
};

static void pump(struct request_restorer *r);

static uint64_t conversation_hash(const struct item *item)
{
    return hash_of_bytes(item->saved.begin.conversation.text, item->saved.begin.conversation.n);
}

static int register_item(struct item *item)
{
    struct request_restorer *r = item->restorer;
    int rc = hash_index_add(&r->by_id, hash_of_text(item->saved.id), (uintptr_t)item);

    if (rc == 0 && item->saved.begin.conversation.n > 0)
        rc = hash_index_add(&r->by_conversation, conversation_hash(item), (uintptr_t)item);
    return rc;
}

static void destroy_item(struct item *item)
{
    struct request_restorer *r = item->restorer;

    hash_index_remove(&r->by_id, hash_of_text(item->saved.id), (uintptr_t)item);
    hash_index_remove(&r->by_conversation, conversation_hash(item), (uintptr_t)item);
    list_unlink(&item->link);
    saved_request_release(&item->saved);
    mem_free(item);
}

/* ---- the end of an item ---- */

static void lose(struct item *item, const char *why)
{
    struct request_restorer *r = item->restorer;
    char id[3 * REQUEST_RECORD_ID];

    log_error("requests", "event=request_lost id=%s reason=%s",
              log_quote(id, sizeof(id), item->saved.id), why);
    request_keeper_forget(r->opt.keeper, &item->saved, true);
    r->n_lost++;
    destroy_item(item);
}

static void refuse_restored(struct item *item, int status)
{
    struct saved_request *s = &item->saved;
    char why[32];

    if (status == 409) {
        lose(item, "model_changed");
        return;
    }
    if (s->n_tokens > 0 || s->has_end) {
        s->n_tokens = 0;
        s->has_end = false;
        list_push_front(&item->restorer->waiting, &item->link);
        return;
    }
    snprintf(why, sizeof(why), "status_%d", status);
    lose(item, why);
}

static void put_back(struct item *item)
{
    const uint64_t longer = 2 * item->pause_us;

    item->pause_us = longer < MIN_PAUSE_US   ? MIN_PAUSE_US
                     : longer > MAX_PAUSE_US ? MAX_PAUSE_US
                                             : longer;
    item->wait_until_us = clock_us() + item->pause_us;
    list_push_back(&item->restorer->waiting, &item->link);
}

static void on_reply(struct local_call *call, const struct local_reply *reply)
{
    struct item *item = list_entry(call, struct item, call);
    struct request_restorer *r = item->restorer;

    list_unlink(&item->link);
    r->n_running--;
    if (reply->status >= 200 && reply->status < 300) {
        r->n_begun++;
        destroy_item(item);
    } else if (reply->status == 0 || reply->status == 408 || reply->status == 429 ||
               reply->status >= 500) {
        put_back(item);
    } else {
        refuse_restored(item, reply->status);
    }
    pump(r);
}

/* ---- the beginning ---- */

static void release_key(void *key)
{
    key_unref(key);
}

static int copy_text(struct request_text t, char *out, size_t size)
{
    return name_copy_n(out, size, t.text, t.n);
}

static int start_restorer(struct item *item, struct key *key)
{
    struct request_restorer *r = item->restorer;
    const struct request_begin *b = &item->saved.begin;
    struct local_request request = {.path = item->path,
                                    .tenant = key == NULL ? item->tenant : "",
                                    .id = item->saved.id,
                                    .body = &item->body,
                                    .owner = key_ref(key),
                                    .release_owner = release_key,
                                    .owner_name = key != NULL ? key->spec.name : "",
                                    .context = &item->saved};
    int rc;

    item->body = (struct buf){.data = (char *)(uintptr_t)b->body.text, .len = b->body.n};
    item->call.done = on_reply;
    rc = local_call_start(&item->call, r->calls, &request);
    if (rc < 0)
        key_unref(key);
    return rc;
}

static void begin_restored(struct item *item)
{
    struct request_restorer *r = item->restorer;
    const struct request_text name = item->saved.begin.key;
    struct key *key = NULL;
    char text[128];
    int rc;

    if (copy_text(name, text, sizeof(text)) < 0 ||
        copy_text(item->saved.begin.path, item->path, sizeof(item->path)) < 0 ||
        copy_text(item->saved.begin.tenant, item->tenant, sizeof(item->tenant)) < 0) {
        lose(item, "name_too_long");
        return;
    }
    if (name.n > 0 && (key = r->opt.find_key(r->opt.ud, text)) == NULL) {
        lose(item, "key_is_gone");
        return;
    }
    list_unlink(&item->link);
    list_push_back(&r->running, &item->link);
    r->n_running++;
    rc = start_restorer(item, key);
    if (rc == 0)
        return;
    r->n_running--;
    list_unlink(&item->link);
    if (rc == ERR_NOMEM)
        put_back(item);
    else
        refuse_restored(item, 404);
}

static void say_end(struct request_restorer *r)
{
    if (r->n_begun + r->n_lost > 0)
        log_info("requests", "event=requests_restored n=%" PRIu32 " lost=%" PRIu32 " ms=%.1f",
                 r->n_begun, r->n_lost, (double)(clock_us() - r->start_us) / 1e3);
    r->n_begun = r->n_lost = 0;
}

static void on_restorer_tick(uv_timer_t *tick)
{
    LOOP_CALLBACK(tick->loop, "request_restorer.tick");
    pump(tick->data);
}

static struct item *next_restored(struct request_restorer *r)
{
    const uint64_t now = clock_us();

    list_each(it, &r->waiting)
    {
        struct item *item = list_entry(it, struct item, link);

        if (item->wait_until_us <= now)
            return item;
    }
    return NULL;
}

static void pump(struct request_restorer *r)
{
    struct item *item;

    if (r->is_stopping || r->calls == NULL)
        return;
    while (r->n_running < MAX_RUNNING && (item = next_restored(r)) != NULL)
        begin_restored(item);
    if (!list_is_empty(&r->waiting))
        uv_timer_start(&r->tick, on_restorer_tick, TICK_MS, 0);
    else if (r->n_running == 0)
        say_end(r);
}

/* ---- life ---- */

static void on_saved(void *ud, struct saved_requests *saved)
{
    struct request_restorer *r = ud;

    r->start_us = clock_us();
    for (size_t i = 0; i < saved->n; i++) {
        struct item *item = mem_calloc(1, sizeof(*item));

        if (item == NULL)
            break; /* the rest stays in the file */
        item->restorer = r;
        item->saved = saved->all[i];
        saved->all[i].payload = NULL;
        saved->all[i].tokens = NULL;
        list_push_back(&r->waiting, &item->link);
        if (register_item(item) < 0) {
            destroy_item(item);
            break;
        }
    }
    saved_requests_release(saved);
    pump(r);
}

int request_restorer_create(struct request_restorer **out,
                            const struct request_restorer_options *options)
{
    struct request_restorer *r = mem_calloc(1, sizeof(*r));

    *out = NULL;
    if (r == NULL)
        return ERR_NOMEM;
    r->opt = *options;
    list_init(&r->waiting);
    list_init(&r->running);
    uv_timer_init(options->loop, &r->tick);
    r->tick.data = r;
    *out = r;
    request_keeper_on_saved(r->opt.keeper, on_saved, r);
    return 0;
}

void request_restorer_start(struct request_restorer *r, struct local_calls *calls)
{
    r->calls = calls;
    r->start_us = clock_us();
    pump(r);
}

void request_restorer_drain(struct request_restorer *r)
{
    if (r == NULL || r->is_stopping)
        return;
    r->is_stopping = true;
    list_each(it, &r->running) local_call_cancel(&list_entry(it, struct item, link)->call);
    if (!r->is_closed)
        uv_timer_stop(&r->tick);
}

void request_restorer_stop(struct request_restorer *r)
{
    if (r == NULL || r->is_closed)
        return;
    r->is_stopping = r->is_closed = true;
    uv_close((uv_handle_t *)&r->tick, NULL);
}

void request_restorer_destroy(struct request_restorer **restorer)
{
    struct request_restorer *r = restorer != NULL ? *restorer : NULL;

    if (r == NULL)
        return;
    list_each(it, &r->waiting) destroy_item(list_entry(it, struct item, link));
    list_each(it, &r->running) destroy_item(list_entry(it, struct item, link));
    hash_index_release(&r->by_id);
    hash_index_release(&r->by_conversation);
    mem_free(r);
    *restorer = NULL;
}

/* ---- expected streams ---- */

static bool is_request_text(struct request_text t, const char *text)
{
    return strlen(text) == t.n && memcmp(t.text, text, t.n) == 0;
}

/* True: a request of the owner waits that has the name as its id or conversation. */
static bool has_item(const struct request_restorer *r, const char *owner, const char *name,
                     bool is_id)
{
    const struct hash_index *index = is_id ? &r->by_id : &r->by_conversation;
    struct hash_walk w = {.hash = hash_of_text(name)};
    const struct item *item;

    while ((item = (const struct item *)hash_index_next(index, &w)) != NULL) {
        const struct saved_request *s = &item->saved;
        const bool is_it =
            is_id ? strcmp(s->id, name) == 0 : is_request_text(s->begin.conversation, name);

        if (is_it && is_request_text(s->begin.tenant, owner))
            return true;
    }
    return false;
}

bool request_restorer_has(const struct request_restorer *r, const char *owner, const char *id)
{
    return r != NULL && has_item(r, owner, id, true);
}

/* Always true while another process has the file, because its requests are not known. */
bool request_restorer_expects(const struct request_restorer *r, const char *owner, const char *id,
                              const char *conversation)
{
    return r != NULL && (r->is_stopping || !request_keeper_is_open(r->opt.keeper) ||
                         has_item(r, owner, id != NULL ? id : conversation, id != NULL));
}
