/* server/kv_events/kv_event_publisher.h - publishes a model's KV events over ZeroMQ, as vLLM does.
 *
 * A PUB socket sends [topic, number (64 bits, big-endian), batch (event_batch.h)] for each batch of
 * events, and a ROUTER socket answers ["", number] with the batches from that one on, each as ["",
 * topic, number, batch], and finally ["", "", -1, ""]. A reader can always get the whole index. The
 * publisher keeps a copy of it, built from the same events, and sends all of it (a snapshot), in
 * batches of which the first begins with AllBlocksCleared: when the engine's ring has lost events,
 * when a reader subscribes (at most once a second), and when a reader asks for batches that are no
 * longer kept, unless the last snapshot is still kept.
 *
 * A subscriber that does not read loses the batches beyond `hwm`, which it notices by their
 * numbers. Neither socket is encrypted, and every client that can connect can read.
 *
 * Thread: the one that starts the program; kv_event_publisher_counts() any. A thread of its own and
 * ZeroMQ's two do the work.
 * Memory: the copy, some 140 bytes a block of the cache; batches within buffer_steps and 64 MiB;
 * for each subscriber up to hwm batches.
 */
#ifndef SERVER_KV_EVENTS_KV_EVENT_PUBLISHER_H
#define SERVER_KV_EVENTS_KV_EVENT_PUBLISHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_event_publisher;
struct kv_events;

#define KV_EVENT_MAX_ENDPOINT 300

struct kv_event_endpoint { /* tcp://HOST:PORT */
    const char *host;      /* a name or address, IPv6 without brackets; "*": all of IPv4 */
    uint16_t port;         /* 0: any free one */
};

struct kv_event_publisher_options {
    struct kv_event_endpoint publish;
    struct kv_event_endpoint replay; /* host NULL: no replay */
    const char *topic;               /* copied */
    uint32_t hwm;                    /* batches that may wait for a subscriber */
    uint32_t buffer_steps;           /* batches that are kept */
    bool has_tokens;                 /* BlockStored has token ids */
};

/* Bind the sockets; called before the sandbox is entered and before there are threads. ERR_IO,
 * ERR_NOMEM, or ERR_UNSUPPORTED (a build without ZeroMQ), with a sentence. */
int kv_event_publisher_open(struct kv_event_publisher **out,
                            const struct kv_event_publisher_options *options, char *err,
                            size_t err_len);
/* Publish the events of a cache of n_blocks, until kv_event_publisher_stop(). The events are
 * borrowed, and their `wake` is set. ERR_NOMEM, ERR_INTERNAL. */
int kv_event_publisher_start(struct kv_event_publisher *p, struct kv_events *events,
                             uint32_t n_blocks);
/* Called when the engine has ended: send AllBlocksCleared to the readers, and end the thread. The
 * events may be destroyed afterwards. p may be NULL. */
void kv_event_publisher_stop(struct kv_event_publisher *p);
void kv_event_publisher_close(struct kv_event_publisher **p);

/* Bytes of memory of a publisher for a cache of n_blocks; kept batches take at most
 * KV_EVENT_KEPT_BYTES more. */
size_t kv_event_publisher_bytes(uint32_t n_blocks);
#define KV_EVENT_KEPT_BYTES ((size_t)64 << 20)

struct kv_event_source { /* addresses for readers; the strings belong to the publisher */
    const char *endpoint, *replay_endpoint; /* with the real ports; or NULL */
    const char *topic;
    uint32_t hwm, buffer_steps;
};
struct kv_event_source kv_event_publisher_source(const struct kv_event_publisher *p);

struct kv_event_counts {
    uint64_t n_batches, n_events, n_bytes; /* sent, also if no reader has received them */
    uint64_t n_dropped;                    /* events for which the ring or a batch had no room */
    uint64_t n_pictures;                   /* snapshots sent */
    uint64_t n_replays;                    /* replay requests answered */
};
/* NULL is allowed: zeros. */
struct kv_event_counts kv_event_publisher_counts(const struct kv_event_publisher *p);

#endif
