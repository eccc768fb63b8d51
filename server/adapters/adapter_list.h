/* server/adapters/adapter_list.h - the adapters of a set: their names, files, and memory.
 *
 * An entry is a name with its file, and the adapter while it is resident. An entry whose name was
 * forgotten while requests hold its adapter stays in the list, nameless, so that its bytes count
 * until they are freed. Invariant: bytes == sum over the resident adapters and those being read.
 *
 * Private to server/adapters.
 *
 * Thread: under the set's mutex.
 * Memory: the list and its adapters, within max_bytes.
 */
#ifndef SERVER_ADAPTERS_ADAPTER_LIST_H
#define SERVER_ADAPTERS_ADAPTER_LIST_H

#include "server/adapters/adapter_set.h"

struct adapter_read;

struct adapter_entry {
    uint32_t id;
    char name[ADAPTER_SET_MAX_NAME + 1]; /* "": no name yet, or forgotten */
    char *path;
    int64_t created;
    uint64_t last_used;      /* time of the latest use, by the list's clock */
    struct adapter *adapter; /* NULL: not resident */
    uint32_t rank;           /* rank of the adapter when it was last read */
    uint64_t bytes;
    struct adapter_read *read; /* the running read of its file; or NULL */
};

struct adapter_list { /* zero is empty */
    struct adapter_entry *entries; /* [n] in ascending order of ids */
    uint32_t n, cap, next_id;
    uint64_t clock, bytes, max_bytes, n_evicted;
};

void adapter_list_release(struct adapter_list *l);

struct adapter_entry *adapter_list_find(const struct adapter_list *l, const char *name);
struct adapter_entry *adapter_list_find_id(const struct adapter_list *l, uint32_t id);
uint32_t adapter_list_n_known(const struct adapter_list *l); /* entries with a name */

/* Append an entry; pointers to entries become invalid. ERR_NOMEM. */
int adapter_list_add(struct adapter_list *l, const char *name, const char *path, uint32_t *id);
/* Remove nameless entries whose adapter no request holds and whose file is not being read. */
void adapter_list_sweep(struct adapter_list *l);

/* Count that many bytes, and evict adapters that no request holds, the least recently used first,
 * until they fit. 0, or *e filled. */
int adapter_list_make_room(struct adapter_list *l, uint64_t bytes, struct api_error *e);

#endif
