/* server/kv_events/kv_event_publisher_none.c - kv_event_publisher.h in a build without ZeroMQ.
 *
 * The opening fails with a sentence, so that no publisher exists; of the other functions only
 * close, stop and counts are called, with NULL.
 */
#ifndef QUIRE_ZMQ
#include "server/kv_events/kv_event_publisher.h"

#include "core/base/err.h"

#include <stdio.h>

int kv_event_publisher_open(struct kv_event_publisher **out,
                            const struct kv_event_publisher_options *options, char *err,
                            size_t err_len)
{
    (void)options;
    *out = NULL;
    snprintf(err, err_len, "'kv_events' must be off: this build has no ZeroMQ");
    return ERR_UNSUPPORTED;
}

int kv_event_publisher_start(struct kv_event_publisher *p, struct kv_events *events,
                             uint32_t n_blocks)
{
    (void)p, (void)events, (void)n_blocks;
    return ERR_UNSUPPORTED;
}

void kv_event_publisher_stop(struct kv_event_publisher *p)
{
    (void)p;
}

void kv_event_publisher_close(struct kv_event_publisher **p)
{
    if (p != NULL)
        *p = NULL;
}

size_t kv_event_publisher_bytes(uint32_t n_blocks)
{
    (void)n_blocks;
    return 0;
}

struct kv_event_source kv_event_publisher_source(const struct kv_event_publisher *p)
{
    (void)p;
    return (struct kv_event_source){0};
}

struct kv_event_counts kv_event_publisher_counts(const struct kv_event_publisher *p)
{
    (void)p;
    return (struct kv_event_counts){0};
}
#endif
