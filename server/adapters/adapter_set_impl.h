/* server/adapters/adapter_set_impl.h - shared by the files of adapter_set.h: adapter_set.c has the
 * names, adapter_read.c reads files and serves the waits.
 *
 * Thread: see adapter_set.h.
 * Memory: the set's.
 */
#ifndef SERVER_ADAPTERS_ADAPTER_SET_IMPL_H
#define SERVER_ADAPTERS_ADAPTER_SET_IMPL_H

#include <pthread.h>

#include "server/adapters/adapter_list.h"

struct adapter_set {
    const struct model *model;
    const char *folder;
    struct worker_pool *pool; /* NULL: files are read on the calling thread */
    /* Protects all members below. No other mutex is taken while it is held. */
    pthread_mutex_t mutex;
    struct adapter_list list;
    struct adapter_choice chosen; /* adapter of requests that name none */
    uint64_t n_reads;
    bool is_closed;
};

static inline void adapter_set_lock(const struct adapter_set *s)
{
    pthread_mutex_lock((pthread_mutex_t *)&s->mutex);
}

static inline void adapter_set_unlock(const struct adapter_set *s)
{
    pthread_mutex_unlock((pthread_mutex_t *)&s->mutex);
}

#endif
