/* kvcache/kv_events.c - a ring, and a walk over the index after an event was dropped.
 *
 * `filled` and `taken` count slots since the start. The writer stores `filled` after the slots
 * (release) and the reader loads it before reading them (acquire); `taken` is stored and loaded the
 * other way round. Before a side waits it sets its flag and then looks at the other side's count
 * once more, all of it sequentially consistent: so one of the two always sees the other, and no
 * wake-up is lost.
 */
#include "kvcache/kv_events.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/name_copy.h"

#include <stdatomic.h>
#include <string.h>

/* Most entries that one flush sends again: that takes less time than computing a token. */
#define RESEND_QUANTUM 512

struct known_origin {
    uint64_t salt;
    uint32_t adapter;
};

struct kv_events {
    uint32_t n_slots, n_blocks;
    void (*wake)(void *ud); /* wakes the reader; or NULL */
    void *wake_ud;
    void (*room)(void *ud); /* tells the engine that there is room; or NULL */
    void *room_ud;
    struct kv_event *slots; /* [n_slots] */
    _Atomic uint64_t filled, taken;
    atomic_bool is_asleep;                    /* the reader sleeps */
    atomic_bool wants_room;                   /* the writer waits for room */
    _Atomic uint64_t n_dropped, n_resent;     /* relaxed: statistics */
    char (*adapters)[KV_EVENTS_ADAPTER_NAME]; /* [KV_EVENTS_MAX_ADAPTERS + 1]; never changed once
                                               * an event names it */
    /* ---- the writer's ---- */
    uint32_t n_adapters;
    uint64_t next; /* slots written; the reader sees only `filled` of them */
    bool is_resending;
    block_id cursor; /* next entry to send again; 0: not begun */
    struct known_origin *origins; /* [n_blocks + 1] */
};

int kv_events_create(struct kv_events **out, const struct kv_events_options *o)
{
    struct kv_events *e;

    *out = NULL;
    if (o->n_slots < 4 || o->n_blocks == 0)
        return ERR_INVAL;
    e = mem_calloc(1, sizeof(*e));
    if (e == NULL)
        return ERR_NOMEM;
    e->n_slots = o->n_slots;
    e->n_blocks = o->n_blocks;
    e->slots = mem_calloc(o->n_slots, sizeof(*e->slots));
    e->origins = mem_calloc((size_t)o->n_blocks + 1, sizeof(*e->origins));
    e->adapters = mem_calloc(KV_EVENTS_MAX_ADAPTERS + 1, sizeof(*e->adapters));
    if (e->slots == NULL || e->origins == NULL || e->adapters == NULL) {
        kv_events_destroy(&e);
        return ERR_NOMEM;
    }
    *out = e;
    return 0;
}

size_t kv_events_bytes(const struct kv_events *e)
{
    return e == NULL
               ? 0
               : e->n_slots * sizeof(*e->slots) + ((size_t)e->n_blocks + 1) * sizeof(*e->origins) +
                     (KV_EVENTS_MAX_ADAPTERS + 1) * sizeof(*e->adapters);
}

void kv_events_destroy(struct kv_events **events)
{
    struct kv_events *e = events != NULL ? *events : NULL;

    if (e == NULL)
        return;
    mem_free(e->slots);
    mem_free(e->origins);
    mem_free(e->adapters);
    mem_free(e);
    *events = NULL;
}

void kv_events_on_wake(struct kv_events *e, void (*wake)(void *ud), void *ud)
{
    e->wake = wake;
    e->wake_ud = ud;
}

void kv_events_on_room(struct kv_events *e, void (*room)(void *ud), void *ud)
{
    e->room = room;
    e->room_ud = ud;
}

/* ---- engine thread ---- */

static uint32_t n_free(const struct kv_events *e)
{
    return e->n_slots - (uint32_t)(e->next - atomic_load(&e->taken));
}

/* The next slot, or NULL: the ring is full. */
static struct kv_event *next_slot(struct kv_events *e)
{
    return n_free(e) > 0 ? &e->slots[e->next % e->n_slots] : NULL;
}

static bool push(struct kv_events *e, enum kv_event_kind kind)
{
    struct kv_event *slot = next_slot(e);

    if (slot == NULL)
        return false;
    *slot = (struct kv_event){.kind = kind};
    e->next++;
    return true;
}

static bool push_entry(struct kv_events *e, const struct prefix_index *x, struct prefix_id id)
{
    struct kv_event *slot = next_slot(e);
    struct prefix_entry entry;

    if (slot == NULL)
        return false;
    if (!prefix_index_get(x, id, &entry))
        return true;
    slot->kind = KV_EVENT_STORED;
    slot->adapter = e->origins[id.n].adapter;
    slot->salt = e->origins[id.n].salt;
    slot->hash = entry.hash;
    slot->before = entry.before;
    slot->is_first = entry.is_first;
    memcpy(slot->tokens, entry.tokens, sizeof(slot->tokens));
    e->next++;
    return true;
}

static void lose(struct kv_events *e)
{
    atomic_fetch_add_explicit(&e->n_dropped, 1, memory_order_relaxed);
    e->is_resending = true;
    e->cursor = 0;
}

/* True: resending has not reached the entry yet. Its change need not be sent, because resending
 * will send the entry or find that it has left. */
static bool is_ahead(const struct kv_events *e, struct prefix_id entry)
{
    return e->is_resending && entry.n >= e->cursor;
}

static uint32_t adapter_of(struct kv_events *e, const char *name)
{
    if (name == NULL)
        return 0;
    for (uint32_t i = 1; i <= e->n_adapters; i++)
        if (strcmp(e->adapters[i], name) == 0)
            return i;
    if (e->n_adapters == KV_EVENTS_MAX_ADAPTERS)
        return KV_EVENTS_MAX_ADAPTERS;
    if (++e->n_adapters == KV_EVENTS_MAX_ADAPTERS ||
        name_copy(e->adapters[e->n_adapters], KV_EVENTS_ADAPTER_NAME, name) < 0)
        (void)name_copy(e->adapters[e->n_adapters], KV_EVENTS_ADAPTER_NAME, "?");
    return e->n_adapters;
}

void kv_events_stored(struct kv_events *e, const struct prefix_index *x, struct prefix_id entry,
                      const struct kv_origin *origin)
{
    if (e == NULL)
        return;
    e->origins[entry.n] = (struct known_origin){origin->salt, adapter_of(e, origin->adapter)};
    if (!is_ahead(e, entry) && !push_entry(e, x, entry))
        lose(e);
}

void kv_events_removed(struct kv_events *e, const struct prefix_index *x, struct prefix_id entry)
{
    struct prefix_entry what;

    if (e == NULL || is_ahead(e, entry) || !prefix_index_get(x, entry, &what))
        return;
    if (push(e, KV_EVENT_REMOVED))
        e->slots[(e->next - 1) % e->n_slots].hash = what.hash;
    else
        lose(e);
}

/* Continue to send the whole index again. It begins only when half the ring is free: a reader that
 * is just catching up would otherwise get entries that fill the ring, and changes would be dropped
 * again. */
static void resend(struct kv_events *e, const struct prefix_index *x)
{
    if (e->cursor == 0) {
        if (n_free(e) < e->n_slots / 2 || !push(e, KV_EVENT_ALL_BEGIN))
            return;
        e->cursor = 1;
        atomic_fetch_add_explicit(&e->n_resent, 1, memory_order_relaxed);
    }
    for (uint32_t n = 0; n < RESEND_QUANTUM && e->cursor <= e->n_blocks; e->cursor++) {
        const uint64_t before = e->next;

        if (!push_entry(e, x, prefix_id_of(e->cursor)))
            return;
        n += e->next > before;
    }
    if (e->cursor > e->n_blocks && push(e, KV_EVENT_ALL_END))
        e->is_resending = false;
}

void kv_events_flush(struct kv_events *e, const struct prefix_index *x)
{
    if (e == NULL)
        return;
    if (e->is_resending) {
        /* Set the flag, then look at `taken`: the reader does it the other way round. */
        atomic_store(&e->wants_room, true);
        resend(e, x);
        atomic_store(&e->wants_room, e->is_resending);
    }
    if (e->next == atomic_load_explicit(&e->filled, memory_order_relaxed))
        return;
    atomic_store(&e->filled, e->next);
    if (atomic_exchange(&e->is_asleep, false) && e->wake != NULL)
        e->wake(e->wake_ud);
}

bool kv_events_is_behind(const struct kv_events *e)
{
    return e->is_resending;
}

/* ---- the reader's thread ---- */

size_t kv_events_take(struct kv_events *e, struct kv_event *out, size_t n)
{
    const uint64_t from = atomic_load_explicit(&e->taken, memory_order_relaxed);
    const uint64_t there = atomic_load(&e->filled) - from;

    n = n < there ? n : (size_t)there;
    for (size_t i = 0; i < n; i++)
        out[i] = e->slots[(from + i) % e->n_slots];
    atomic_store(&e->taken, from + n);
    if (n > 0 && atomic_load(&e->wants_room) && e->room != NULL)
        e->room(e->room_ud);
    return n;
}

bool kv_events_sleep(struct kv_events *e)
{
    atomic_store(&e->is_asleep, true);
    if (atomic_load(&e->filled) == atomic_load_explicit(&e->taken, memory_order_relaxed))
        return true;
    atomic_store(&e->is_asleep, false);
    return false;
}

const char *kv_events_adapter(const struct kv_events *e, uint32_t adapter)
{
    return adapter > 0 ? e->adapters[adapter] : NULL;
}

struct kv_events_stats kv_events_stats(const struct kv_events *e)
{
    return (struct kv_events_stats){
        .n_dropped = atomic_load_explicit(&e->n_dropped, memory_order_relaxed),
        .n_resent = atomic_load_explicit(&e->n_resent, memory_order_relaxed),
    };
}
