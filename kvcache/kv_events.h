/* kvcache/kv_events.h - what enters and leaves the prefix index, on its way to another thread.
 *
 * A bounded ring with one writer, the engine's thread, and one reader. The writer never waits: an
 * event that finds the ring full is dropped, and from then on the whole index is sent again as soon
 * as there is room, a part in each flush: ALL_BEGIN, every entry as STORED, ALL_END. Between these
 * two also come the changes of entries that have been sent again already, and entries may come
 * before those that they follow. Who begins with an empty set at ALL_BEGIN, and
 * applies what comes, has the index at ALL_END; before the first loss it has it all along.
 *
 * Of a model with groups of layers an entry stands for its block in the first group, which is one
 * without a window if there is one.
 *
 * Thread: functions say whose they are. No lock; each side stores its own end of the ring.
 * Memory: taken in kv_events_create(): 120 bytes a slot, 16 a block of the cache, 64 KiB.
 */
#ifndef KVCACHE_KV_EVENTS_H
#define KVCACHE_KV_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvcache/prefix_index.h"

/* Adapters whose names can be told; of others the entries are sent as those of "?". */
#define KV_EVENTS_MAX_ADAPTERS 255
#define KV_EVENTS_ADAPTER_NAME 256 /* bytes of a name; longer ones are "?" */

enum kv_event_kind { KV_EVENT_STORED = 0, KV_EVENT_REMOVED, KV_EVENT_ALL_BEGIN, KV_EVENT_ALL_END };

struct kv_event {
    enum kv_event_kind kind;
    uint32_t adapter;          /* STORED: kv_events_adapter(); 0: none */
    uint64_t salt;             /* STORED: of its tenant or its cache_salt; 0: it has none */
    struct prefix_hash hash;   /* STORED, REMOVED */
    struct prefix_hash before; /* STORED, unless is_first */
    bool is_first;
    int32_t tokens[BLOCK_TOKENS]; /* STORED */
};

struct kv_origin {       /* whose an entry is */
    uint64_t salt;       /* 0: everybody's */
    const char *adapter; /* or NULL; copied */
};

struct kv_events_options {
    uint32_t n_slots;  /* of the ring, >= 4 */
    uint32_t n_blocks; /* of the cache */
};

struct kv_events;

/* ERR_INVAL, ERR_NOMEM. */
int kv_events_create(struct kv_events **out, const struct kv_events_options *options);
void kv_events_destroy(struct kv_events **e);
size_t kv_events_bytes(const struct kv_events *e); /* taken when it was made; NULL: 0 */
/* Before either side begins; neither may wait. `wake`: the writer calls it when events wait for a
 * reader that sleeps. `room`: the reader calls it when the writer waits for room: it should flush.
 */
void kv_events_on_wake(struct kv_events *e, void (*wake)(void *ud), void *ud);
void kv_events_on_room(struct kv_events *e, void (*room)(void *ud), void *ud);

/* ---- the engine's thread; NULL is allowed: nobody wants to know ---- */

/* The entry has been inserted, or is about to be removed. */
void kv_events_stored(struct kv_events *e, const struct prefix_index *x, struct prefix_id entry,
                      const struct kv_origin *origin);
void kv_events_removed(struct kv_events *e, const struct prefix_index *x, struct prefix_id entry);
/* Let the reader see what there is, and go on with sending everything again. */
void kv_events_flush(struct kv_events *e, const struct prefix_index *x);
/* Is everything being sent again, and not all of it in the ring yet? */
bool kv_events_is_behind(const struct kv_events *e);

/* ---- the reader's ---- */

/* Up to n events into out[]; returns how many. */
size_t kv_events_take(struct kv_events *e, struct kv_event *out, size_t n);
/* Nothing waits: the next flush with events calls `wake`. False: something came meanwhile. */
bool kv_events_sleep(struct kv_events *e);
const char *kv_events_adapter(const struct kv_events *e, uint32_t adapter); /* NULL for 0 */

/* ---- any ---- */

struct kv_events_stats {
    uint64_t n_dropped; /* events */
    uint64_t n_resent;  /* times that everything was sent again */
};
struct kv_events_stats kv_events_stats(const struct kv_events *e);

#endif
