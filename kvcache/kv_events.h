/* kvcache/kv_events.h - reports the entries that enter and leave the prefix index to another
 * thread.
 *
 * A bounded ring with one writer, the engine's thread, and one reader. The writer never waits: an
 * event that finds the ring full is dropped, and from then on the whole index is sent again as soon
 * as there is room, a part in each flush: ALL_BEGIN, every entry as STORED, ALL_END. Between these
 * two, changes of entries that were sent again already are sent too, and an entry may be sent
 * before its parent. A reader that begins with an empty set at ALL_BEGIN and applies every event
 * has the whole index at ALL_END; until the first dropped event its set always equals the index.
 *
 * In a model with several KV groups an entry stands for its block in the first group, which has no
 * window if any group has none.
 *
 * Thread: the headings below say which thread may call a function. No lock; each side stores its
 * own end of the ring.
 * Memory: taken in kv_events_create(): 120 bytes a slot, 16 a block of the cache, 64 KiB.
 */
#ifndef KVCACHE_KV_EVENTS_H
#define KVCACHE_KV_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvcache/prefix_index.h"

/* Adapters whose names are kept; entries of further adapters are sent with the name "?". */
#define KV_EVENTS_MAX_ADAPTERS 255
#define KV_EVENTS_ADAPTER_NAME 256 /* bytes of a name; longer ones are "?" */

enum kv_event_kind { KV_EVENT_STORED = 0, KV_EVENT_REMOVED, KV_EVENT_ALL_BEGIN, KV_EVENT_ALL_END };

struct kv_event {
    enum kv_event_kind kind;
    uint32_t adapter;          /* STORED: kv_events_adapter(); 0: none */
    uint64_t salt;             /* STORED: salt of the tenant or the request's cache_salt; 0: none */
    struct prefix_hash hash;   /* STORED, REMOVED */
    struct prefix_hash before; /* STORED, unless is_first */
    bool is_first;
    int32_t tokens[BLOCK_TOKENS]; /* STORED */
};

struct kv_origin {       /* the owner of an entry */
    uint64_t salt;       /* 0: shared by all */
    const char *adapter; /* or NULL; copied */
};

struct kv_events_options {
    uint32_t n_slots;  /* slots of the ring, >= 4 */
    uint32_t n_blocks; /* blocks of the cache */
};

struct kv_events;

/* ERR_INVAL, ERR_NOMEM. */
int kv_events_create(struct kv_events **out, const struct kv_events_options *options);
void kv_events_destroy(struct kv_events **e);
size_t kv_events_bytes(const struct kv_events *e); /* bytes taken at creation; NULL: 0 */
/* Set the callbacks, before reader and writer begin; a callback may not wait. The writer calls
 * `wake` when events wait for a reader that sleeps. The reader calls `room` when the writer waits
 * for room: the engine should flush. */
void kv_events_on_wake(struct kv_events *e, void (*wake)(void *ud), void *ud);
void kv_events_on_room(struct kv_events *e, void (*room)(void *ud), void *ud);

/* ---- engine thread; e may be NULL: events are off ---- */

/* An entry was inserted (stored), or is about to be removed (removed). */
void kv_events_stored(struct kv_events *e, const struct prefix_index *x, struct prefix_id entry,
                      const struct kv_origin *origin);
void kv_events_removed(struct kv_events *e, const struct prefix_index *x, struct prefix_id entry);
/* Publish the events written so far to the reader, and continue to send the index again. */
void kv_events_flush(struct kv_events *e, const struct prefix_index *x);
/* True: the index is being sent again, and the ring does not have all of it yet. */
bool kv_events_is_behind(const struct kv_events *e);

/* ---- the reader's thread ---- */

/* Move up to n events into out[]; returns how many. */
size_t kv_events_take(struct kv_events *e, struct kv_event *out, size_t n);
/* Called when the ring is empty: the next flush with events calls `wake`. False: events came
 * meanwhile. */
bool kv_events_sleep(struct kv_events *e);
const char *kv_events_adapter(const struct kv_events *e, uint32_t adapter); /* NULL for 0 */

/* ---- any thread ---- */

struct kv_events_stats {
    uint64_t n_dropped; /* dropped events */
    uint64_t n_resent;  /* times that the whole index was sent again */
};
struct kv_events_stats kv_events_stats(const struct kv_events *e);

#endif
