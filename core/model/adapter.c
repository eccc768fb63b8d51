/* core/model/adapter.c - reference counts of an adapter; see adapter.h.
 *
 * Requests hold an adapter from the moment they name it until they end, on several threads, so its
 * count is atomic and the last holder frees it, whichever thread that is. An adapter that an
 * operator removes or replaces while requests run therefore stays until these are done. The two
 * counters of requests are only for display.
 */
#include "core/model/adapter.h"

#include "core/base/mem.h"

#include <assert.h>
#include <stdatomic.h>

struct adapter *adapter_ref(struct adapter *a)
{
    /* relaxed: a caller that counts up holds the adapter already */
    atomic_fetch_add_explicit(&a->n_refs, 1, memory_order_relaxed);
    return a;
}

void adapter_unref(struct adapter **ap)
{
    struct adapter *a = *ap;

    *ap = NULL;
    /* acq_rel: the holder's reads are released, and the last one acquires all others' before it
     * frees */
    if (a == NULL || atomic_fetch_sub_explicit(&a->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    mem_free(a->layers);
    if (a->mapped > 0)
        mem_unmap(a->panels, a->mapped);
    else
        mem_free(a->panels);
    mem_free(a);
}

bool adapter_is_alone(const struct adapter *a)
{
    return atomic_load_explicit(&a->n_refs, memory_order_acquire) == 1;
}

/* Relaxed: the numbers are only displayed and order no other memory. */
void adapter_count(struct adapter *a, bool runs, int change)
{
    atomic_fetch_add_explicit(&a->n_requests[runs ? ADAPTER_RUNNING : ADAPTER_WAITING],
                              (uint32_t)change, memory_order_relaxed);
}

uint32_t adapter_n_requests(const struct adapter *a, enum adapter_use use)
{
    return atomic_load_explicit(&a->n_requests[use], memory_order_relaxed);
}

enum adapter_input adapter_input_of(enum adapter_target t)
{
    switch (t) {
    case ADAPTER_NONE:
    case ADAPTER_N_TARGET:
        assert(false);
        return ADAPTER_N_INPUT;
    case ADAPTER_Q:
    case ADAPTER_K:
    case ADAPTER_V:
        return ADAPTER_IN_ATTENTION;
    case ADAPTER_ATTN_OUT:
        return ADAPTER_IN_ATTN_OUT;
    case ADAPTER_GATE:
    case ADAPTER_UP:
        return ADAPTER_IN_FFN;
    case ADAPTER_DOWN:
        return ADAPTER_IN_DOWN;
    }
    return ADAPTER_N_INPUT;
}
