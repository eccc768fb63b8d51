/* scheduler/snapshot.c - see snapshot.h.
 *
 * The queue creates the one snapshot of an engine with room for the most requests, tenants and
 * blocks there can be, so the engine fills it without allocating.
 */
#include "scheduler/snapshot.h"

#include "core/base/err.h"
#include "core/base/mem.h"

/* Allocate an array, also for n = 0: readers of the snapshot do not check for NULL. */
static void *make_array(uint32_t n, size_t size)
{
    return mem_calloc(n > 0 ? n : 1, size);
}

int snapshot_create(struct snapshot **out, uint32_t max_seqs, uint32_t max_tenants,
                    uint32_t n_blocks)
{
    struct snapshot *s = mem_calloc(1, sizeof(*s));

    *out = NULL;
    if (s == NULL)
        return ERR_NOMEM;
    s->max_seqs = max_seqs;
    s->max_tenants = max_tenants;
    s->n_blocks = n_blocks;
    s->seqs = make_array(max_seqs, sizeof(*s->seqs));
    s->tenants = make_array(max_tenants, sizeof(*s->tenants));
    s->map = make_array(n_blocks, 1);
    s->hashes = make_array(n_blocks, sizeof(*s->hashes));
    if (s->seqs == NULL || s->tenants == NULL || s->map == NULL || s->hashes == NULL) {
        snapshot_destroy(&s);
        return ERR_NOMEM;
    }
    *out = s;
    return 0;
}

void snapshot_destroy(struct snapshot **snapshot)
{
    struct snapshot *s = snapshot != NULL ? *snapshot : NULL;

    if (s == NULL)
        return;
    mem_free(s->seqs);
    mem_free(s->tenants);
    mem_free(s->map);
    mem_free(s->hashes);
    mem_free(s);
    *snapshot = NULL;
}
