/* server/storage/stream_store.c - keeps streams, and drops them after a time or when memory is
 * short; see stream_store.h.
 *
 * Each stream is in the list of all and in two hash indices (by id and by conversation, both with
 * its owner). Streams without readers are also in `idle`, ordered by the time at which they became
 * idle, so that the one timer needs only the first; ended ones among them are in `ended`, from
 * whose front memory is freed. All on the I/O thread.
 */
#include "server/storage/stream_store_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/process/loop_guard.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- time ---- */

static void on_stream_timer(uv_timer_t *timer);

static void arm(struct stream_store *s)
{
    const struct kept_stream *k;
    uint64_t now, at;

    if (list_is_empty(&s->idle) || s->is_stopped)
        return;
    k = list_entry(s->idle.next, struct kept_stream, idle_link);
    now = clock_us();
    at = k->idle_us + (uint64_t)s->opt.keep_ms * 1000;
    uv_update_time(s->opt.loop);
    uv_timer_start(&s->timer, on_stream_timer, at > now ? (at - now) / 1000 + 1 : 1, 0);
}

static void on_stream_timer(uv_timer_t *timer)
{
    LOOP_CALLBACK(timer->loop, "stream_store.timer");
    struct stream_store *s = timer->data;
    const uint64_t keep_us = (uint64_t)s->opt.keep_ms * 1000, now = clock_us();

    list_each(it, &s->idle) {
        struct kept_stream *k = list_entry(it, struct kept_stream, idle_link);

        if (k->idle_us + keep_us > now || loop_guard_is_due(timer->loop))
            break;
        s->counts.n_stopped += k->stop != NULL;
        kept_stream_drop(k);
    }
    arm(s);
}

void stream_store_note(struct kept_stream *k)
{
    struct stream_store *s = k->store;
    const bool is_idle = k->n_readers == 0 && (k->is_over || !k->is_alone);
    const bool was_first = s->idle.next == &k->idle_link;

    list_unlink(&k->idle_link);
    list_unlink(&k->ended_link);
    if (is_idle) {
        k->idle_us = clock_us();
        list_push_back(&s->idle, &k->idle_link);
    }
    if (is_idle && k->is_over)
        list_push_back(&s->ended, &k->ended_link);
    if (was_first || s->idle.next == &k->idle_link)
        arm(s);
}

/* ---- memory ---- */

/* Find the oldest stream that has ended and has no readers, except `other`. */
static struct kept_stream *oldest_ended(struct stream_store *s, const struct kept_stream *other)
{
    list_each(it, &s->ended) {
        struct kept_stream *k = list_entry(it, struct kept_stream, ended_link);

        if (k != other)
            return k;
    }
    return NULL;
}

bool stream_store_make_room(struct stream_store *s, const struct kept_stream *other)
{
    struct kept_stream *k;

    while (s->counts.bytes > s->opt.memory && (k = oldest_ended(s, other)) != NULL) {
        s->counts.n_evicted++;
        kept_stream_drop(k);
    }
    return s->counts.bytes <= s->opt.memory;
}

/* ---- streams ---- */

static uint64_t id_hash(const struct kept_stream *k)
{
    return hash_of_texts(k->owner, k->id);
}

static uint64_t conversation_hash(const struct kept_stream *k)
{
    return hash_of_texts(k->owner, k->conversation);
}

static void unregister(struct kept_stream *k)
{
    hash_index_remove(&k->store->by_id, id_hash(k), (uintptr_t)k);
    hash_index_remove(&k->store->by_conversation, conversation_hash(k), (uintptr_t)k);
}

static int register_stream(struct kept_stream *k)
{
    struct stream_store *s = k->store;
    int rc = hash_index_add(&s->by_id, id_hash(k), (uintptr_t)k);

    if (rc == 0 && k->conversation[0] != '\0')
        rc = hash_index_add(&s->by_conversation, conversation_hash(k), (uintptr_t)k);
    if (rc < 0)
        unregister(k);
    return rc;
}

void stream_store_remove(struct kept_stream *k)
{
    struct stream_store *s = k->store;

    if (k->is_over)
        s->counts.n_ended--;
    else
        s->counts.n_running--;
    list_unlink(&k->link);
    list_unlink(&k->idle_link);
    list_unlink(&k->ended_link);
    unregister(k);
}

int stream_store_add(struct kept_stream **out, struct stream_store *s,
                     const struct stream_start *start)
{
    struct kept_stream *before =
        start->conversation[0] != '\0'
            ? stream_store_find_conversation(s, start->owner, start->conversation)
            : NULL;
    struct kept_stream *k = mem_calloc(1, sizeof(*k));

    *out = NULL;
    if (k == NULL)
        return ERR_NOMEM;
    if (before != NULL)
        kept_stream_drop(before);
    s->counts.bytes += STREAM_COST;
    if (!stream_store_make_room(s, NULL)) {
        s->counts.bytes -= STREAM_COST;
        mem_free(k);
        return ERR_AGAIN;
    }
    kept_stream_init(k, s, start);
    if (register_stream(k) < 0) {
        s->counts.bytes -= STREAM_COST;
        mem_free(k);
        return ERR_NOMEM;
    }
    k->number = s->n_begun++;
    list_push_back(&s->all, &k->link);
    s->counts.n_running++;
    stream_store_note(k);
    *out = k;
    return 0;
}

struct kept_stream *stream_store_find(struct stream_store *s, const char *owner, const char *id)
{
    struct hash_walk w = {.hash = hash_of_texts(owner, id)};
    struct kept_stream *found = NULL, *k;

    while ((k = (struct kept_stream *)hash_index_next(&s->by_id, &w)) != NULL)
        if (strcmp(k->id, id) == 0 && strcmp(k->owner, owner) == 0 &&
            (found == NULL || k->number > found->number))
            found = k; /* the latest */
    return found;
}

struct kept_stream *stream_store_find_conversation(struct stream_store *s, const char *owner,
                                                   const char *conversation)
{
    struct hash_walk w = {.hash = hash_of_texts(owner, conversation)};
    struct kept_stream *k;

    while ((k = (struct kept_stream *)hash_index_next(&s->by_conversation, &w)) != NULL)
        if (strcmp(k->conversation, conversation) == 0 && strcmp(k->owner, owner) == 0)
            return k;
    return NULL;
}

struct stream_counts stream_store_counts(const struct stream_store *s)
{
    return s != NULL ? s->counts : (struct stream_counts){0};
}

uint32_t stream_store_keep_ms(const struct stream_store *s)
{
    return s->opt.keep_ms;
}

/* ---- life ---- */

int stream_store_open(struct stream_store **out, const struct stream_store_options *options)
{
    struct stream_store *s = mem_calloc(1, sizeof(*s));

    *out = NULL;
    if (s == NULL)
        return ERR_NOMEM;
    s->opt = *options;
    list_init(&s->all);
    list_init(&s->idle);
    list_init(&s->ended);
    s->timer.data = s;
    uv_timer_init(s->opt.loop, &s->timer); /* cannot fail */
    uv_unref((uv_handle_t *)&s->timer);
    *out = s;
    return 0;
}

void stream_store_stop(struct stream_store *s)
{
    if (s == NULL || s->is_stopped)
        return;
    s->is_stopped = true;
    list_each(it, &s->all) {
        struct kept_stream *k = list_entry(it, struct kept_stream, link);

        kept_stream_drop(k);
    }
    uv_close((uv_handle_t *)&s->timer, NULL);
}

void stream_store_close(struct stream_store **s)
{
    if (s == NULL || *s == NULL)
        return;
    stream_store_stop(*s);
    hash_index_release(&(*s)->by_id);
    hash_index_release(&(*s)->by_conversation);
    mem_free(*s);
    *s = NULL;
}
