/* kvcache/block_offers.c - see block_offers.h.
 *
 * Order of memory. The ring: the engine stores `tail` with release after it has filled an offer,
 * the store's thread loads it with acquire before it reads one, and the other way round with
 * `head`. The ages: the engine adds to an age, then has a release fence, before it, or a thread
 * that it hands the block to, writes the block; the reader loads the ages with acquire, reads the
 * bytes, and after an acquire fence loads the ages again. The addition alone does not suffice,
 * whatever its memory order: on aarch64 another thread may see a later store first.
 */
#include "kvcache/block_offers.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/kv_store.h"

#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

struct block_offers {
    uint32_t n_blocks, record_blocks, cap;
    uint32_t *known_in;        /* [n_blocks + 1] the engine's: the era in which the record that ends
                                * with this block was offered */
    _Atomic uint32_t era;      /* relaxed; counts from 1 */
    _Atomic uint32_t *ages;    /* [n_blocks + 1] */
    struct block_offer *ring;  /* [cap] */
    _Atomic uint32_t head, tail; /* modulo 2^32; tail - head offers wait */
    _Atomic uint64_t n_dropped; /* relaxed: a statistic */
    sem_t wake;
};

/* The number of slots: a power of two, because head and tail wrap at 2^32. */
static uint32_t slots_for(uint32_t n_offers)
{
    uint32_t n = 1;

    while (n < n_offers)
        n *= 2;
    return n;
}

size_t block_offers_bytes(uint32_t n_blocks, uint32_t n_offers)
{
    const struct block_offers *o = NULL;

    return ((size_t)n_blocks + 1) * (sizeof(*o->known_in) + sizeof(*o->ages)) +
           slots_for(n_offers) * sizeof(*o->ring);
}

int block_offers_create(struct block_offers **out, uint32_t n_blocks, uint32_t record_blocks,
                        uint32_t n_offers)
{
    struct block_offers *o;

    *out = NULL;
    if (n_blocks == 0 || record_blocks == 0 || record_blocks > KV_RECORD_MOST || n_offers == 0)
        return ERR_INVAL;
    o = mem_calloc(1, sizeof(*o));
    if (o == NULL)
        return ERR_NOMEM;
    o->n_blocks = n_blocks;
    o->record_blocks = record_blocks;
    o->cap = slots_for(n_offers);
    sem_init(&o->wake, 0, 0);
    o->known_in = mem_calloc((size_t)n_blocks + 1, sizeof(*o->known_in));
    atomic_store(&o->era, 1);
    o->ages = mem_calloc((size_t)n_blocks + 1, sizeof(*o->ages));
    o->ring = mem_calloc(o->cap, sizeof(*o->ring));
    if (o->known_in == NULL || o->ages == NULL || o->ring == NULL)
        block_offers_destroy(&o);
    *out = o;
    return o != NULL ? 0 : ERR_NOMEM;
}

void block_offers_destroy(struct block_offers **offers)
{
    struct block_offers *o = offers != NULL ? *offers : NULL;

    if (o == NULL)
        return;
    sem_destroy(&o->wake);
    mem_free(o->known_in);
    mem_free(o->ages);
    mem_free(o->ring);
    mem_free(o);
    *offers = NULL;
}

/* ---- engine thread ---- */

uint32_t block_offers_record_blocks(const struct block_offers *o)
{
    return o->record_blocks;
}

bool block_offers_is_known(const struct block_offers *o, block_id last)
{
    return o->known_in[last] == atomic_load_explicit(&o->era, memory_order_relaxed);
}

void block_offers_set_known(struct block_offers *o, block_id last)
{
    o->known_in[last] = atomic_load_explicit(&o->era, memory_order_relaxed);
}

void block_offers_add(struct block_offers *o, const block_id *blocks, struct prefix_hash before,
                      struct prefix_hash last, const int32_t *ids)
{
    const uint32_t tail = atomic_load_explicit(&o->tail, memory_order_relaxed);
    struct block_offer *offer = &o->ring[tail % o->cap];

    if (tail - atomic_load_explicit(&o->head, memory_order_acquire) >= o->cap) {
        atomic_fetch_add_explicit(&o->n_dropped, 1, memory_order_relaxed);
        return;
    }
    offer->before = before;
    offer->last = last;
    for (uint32_t i = 0; i < o->record_blocks; i++) {
        assert(blocks[i] != BLOCK_NONE && blocks[i] <= o->n_blocks);
        offer->blocks[i] = blocks[i];
        offer->ages[i] = atomic_load_explicit(&o->ages[blocks[i]], memory_order_relaxed);
    }
    memcpy(offer->ids, ids, o->record_blocks * BLOCK_TOKENS * sizeof(*ids));
    block_offers_set_known(o, blocks[o->record_blocks - 1]);
    atomic_store_explicit(&o->tail, tail + 1, memory_order_release);
    sem_post(&o->wake);
}

void block_offers_forget(struct block_offers *o, block_id block)
{
    o->known_in[block] = 0;
    atomic_fetch_add_explicit(&o->ages[block], 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

/* ---- the store's thread ---- */

void block_offers_wait(struct block_offers *o, uint32_t most_ms)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t); /* the clock of sem_timedwait() */
    t.tv_sec += most_ms / 1000;
    t.tv_nsec += (long)(most_ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    while (sem_timedwait(&o->wake, &t) < 0 && errno == EINTR)
        ;
    while (sem_trywait(&o->wake) == 0) /* one wake serves all offers that wait */
        ;
}

bool block_offers_take(struct block_offers *o, struct block_offer *out)
{
    const uint32_t head = atomic_load_explicit(&o->head, memory_order_relaxed);

    if (head == atomic_load_explicit(&o->tail, memory_order_acquire))
        return false;
    *out = o->ring[head % o->cap];
    atomic_store_explicit(&o->head, head + 1, memory_order_release);
    return true;
}

static bool has_left(const struct block_offers *o, const struct block_offer *offer)
{
    for (uint32_t i = 0; i < o->record_blocks; i++)
        if (atomic_load_explicit(&o->ages[offer->blocks[i]], memory_order_acquire) !=
            offer->ages[i])
            return true;
    return false;
}

/* Copy a block. The engine may be writing to it if it has left the index meanwhile; the copy is
 * thrown away then. The thread sanitizer cannot know that, and would intercept memcpy(). */
__attribute__((no_sanitize_thread)) static void copy_racy(uint8_t *to, const uint8_t *from,
                                                          size_t n)
{
    size_t i = 0;

    for (; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t)) {
        const uint64_t v = *(const volatile uint64_t *)(const volatile void *)(from + i);

        __builtin_memcpy(to + i, &v, sizeof(v));
    }
    for (; i < n; i++)
        to[i] = *(const volatile uint8_t *)(from + i);
}

bool block_offers_copy(const struct block_offers *o, const struct block_offer *offer,
                       const struct kv_store *kv, uint8_t *out)
{
    const size_t bytes = kv_store_block_bytes(&kv->shape);

    if (has_left(o, offer))
        return false;
    for (uint32_t i = 0; i < o->record_blocks; i++)
        copy_racy(out + i * bytes, kv_store_block(kv, offer->blocks[i]), bytes);
    atomic_thread_fence(memory_order_acquire);
    return !has_left(o, offer);
}

/* ---- any thread ---- */

void block_offers_renew(struct block_offers *o)
{
    atomic_fetch_add_explicit(&o->era, 1, memory_order_relaxed);
}

void block_offers_wake(struct block_offers *o)
{
    sem_post(&o->wake);
}

uint32_t block_offers_n(const struct block_offers *o)
{
    return atomic_load_explicit(&o->tail, memory_order_acquire) -
           atomic_load_explicit(&o->head, memory_order_acquire);
}

uint64_t block_offers_n_dropped(const struct block_offers *o)
{
    return atomic_load_explicit(&o->n_dropped, memory_order_relaxed);
}
