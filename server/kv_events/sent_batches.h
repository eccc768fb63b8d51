/* server/kv_events/sent_batches.h - keeps the last batches that were sent, for readers that have
 * missed some.
 *
 * Thread: one.
 * Memory: at most max_batches batches of together max_bytes.
 */
#ifndef SERVER_KV_EVENTS_SENT_BATCHES_H
#define SERVER_KV_EVENTS_SENT_BATCHES_H

#include <stddef.h>
#include <stdint.h>

struct sent_batches;

int sent_batches_create(struct sent_batches **out, uint32_t max_batches, size_t max_bytes);
void sent_batches_destroy(struct sent_batches **s);

/* Keep a copy of batch `number`, which follows the last one; the oldest are dropped. A batch that
 * cannot be kept empties the ring, so that it never has a gap. */
void sent_batches_add(struct sent_batches *s, uint64_t number, const void *bytes, size_t n);
/* Drop all batches, because readers cannot use them any more. */
void sent_batches_clear(struct sent_batches *s);

/* The numbers of the kept batches: from .. to-1; from == to: none. */
void sent_batches_range(const struct sent_batches *s, uint64_t *from, uint64_t *to);
const void *sent_batches_get(const struct sent_batches *s, uint64_t number, size_t *n);

#endif
