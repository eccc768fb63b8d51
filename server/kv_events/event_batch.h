/* server/kv_events/event_batch.h - encodes KV events as vLLM's readers expect them.
 *
 * A batch is [seconds, [event, …], 0] in MessagePack, an event a map with its "type". Consecutive
 * blocks of a chain become one BlockStored with several hashes, blocks that are removed together
 * one BlockRemoved. A hash is 16 bytes, see prefix_hash_bytes(). Empty fields are nil, and fields
 * that have a default in vLLM are left out.
 *
 * Thread: any.
 * Memory: the buffer's.
 * Source: vLLM 0.32, distributed/kv_events.py; MessagePack's specification.
 */
#ifndef SERVER_KV_EVENTS_EVENT_BATCH_H
#define SERVER_KV_EVENTS_EVENT_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "kvcache/kv_events.h"

struct event_batch { /* zero, with `body` initialised, is empty */
    struct buf body;   /* the events */
    uint32_t n_events; /* in `body` */
    bool has_tokens;   /* BlockStored has token ids */
    const struct kv_events *names; /* gives the adapters' names; borrowed */
};

void event_batch_clear(struct event_batch *b);
/* Append events of the kinds STORED and REMOVED, in order. */
void event_batch_add(struct event_batch *b, const struct kv_event *const *events, uint32_t n);
/* Append AllBlocksCleared: all blocks stored before are gone. */
void event_batch_add_cleared(struct event_batch *b);
/* Write the whole batch to `out`, which is emptied first. out->err < 0: no memory, or too long. */
void event_batch_finish(const struct event_batch *b, double seconds, struct buf *out);

#endif
