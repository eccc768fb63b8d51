/* kvcache/kv_groups.c - see kv_groups.h.
 *
 * kv_groups_assign() runs once for each model: it tries block sizes (layers a block) from the
 * largest down and takes the first with which padding wastes at most a sixteenth for either kind of
 * layer. The other functions are the arithmetic of windows in blocks of 16 tokens; kv_manager and
 * the forecast ask them instead of computing it themselves, so that both always count alike.
 */
#include "kvcache/kv_groups.h"

#include "kvcache/block_table.h"

#include <assert.h>

/* ---- assigning layers ---- */

static uint32_t groups_for(uint32_t n, uint32_t size)
{
    return (n + size - 1) / size;
}

/* True: n layers in groups of `size` waste at most a sixteenth of their blocks. */
static int is_thrifty(uint32_t n, uint32_t size)
{
    return 16 * (uint64_t)(groups_for(n, size) * size - n) <= n;
}

/* Return the largest number of layers a block with which both kinds waste little. The loop ends at
 * 1, which wastes nothing. */
static uint32_t best_size(uint32_t n_full, uint32_t n_window)
{
    uint32_t size = n_full > n_window ? n_full : n_window;

    while (!is_thrifty(n_full, size) || !is_thrifty(n_window, size))
        size--;
    return size;
}

void kv_groups_assign(const uint32_t *windows, uint32_t n_layer, struct kv_groups *groups,
                      struct kv_location *places)
{
    uint32_t n_window = 0, next[2] = {0};
    uint32_t size, n_full_groups;

    assert(n_layer > 0);
    *groups = (struct kv_groups){0};
    for (uint32_t i = 0; i < n_layer; i++) {
        assert(windows[i] == 0 || groups->window == 0 || windows[i] == groups->window);
        n_window += windows[i] > 0;
        groups->window = windows[i] > 0 ? windows[i] : groups->window;
    }
    size = best_size(n_layer - n_window, n_window);
    n_full_groups = groups_for(n_layer - n_window, size);
    groups->n_layer = size;
    groups->n_window = groups_for(n_window, size);
    groups->n = n_full_groups + groups->n_window;
    for (uint32_t i = 0; i < n_layer; i++) {
        const uint32_t kind = windows[i] > 0, k = next[kind]++;

        places[i].group = (kind > 0 ? n_full_groups : 0) + k / size;
        places[i].at = k % size;
    }
}

/* ---- blocks ---- */

uint32_t kv_groups_seen(const struct kv_groups *l, uint32_t pos)
{
    return l->n_window > 0 && pos >= l->window ? (pos - l->window + 1) / BLOCK_TOKENS : 0;
}

uint32_t kv_groups_first(const struct kv_groups *l, uint32_t n_done)
{
    const uint32_t end = n_done / BLOCK_TOKENS * BLOCK_TOKENS;

    return end > 0 ? kv_groups_seen(l, end - 1) : 0;
}

/* Counts the blocks from the oldest one that the token before a block boundary sees up to the end
 * of a chunk that begins at the end of the block after the boundary. */
uint32_t kv_groups_width(const struct kv_groups *l, uint32_t chunk)
{
    const uint64_t width = (uint64_t)block_table_needed(l->window) +
                           ((uint64_t)chunk + 2 * BLOCK_TOKENS - 2) / BLOCK_TOKENS;

    assert(l->window > 0);
    return chunk == 0 || width > UINT32_MAX ? UINT32_MAX : (uint32_t)width;
}

uint64_t kv_groups_peak(const struct kv_groups *l, uint32_t n_tokens, uint32_t chunk)
{
    const uint64_t n = block_table_needed(n_tokens);
    uint64_t width = n;

    if (l->n_window > 0 && kv_groups_width(l, chunk) < n)
        width = kv_groups_width(l, chunk);
    return kv_groups_n_full(l) * n + l->n_window * width;
}

uint32_t kv_groups_most_tokens(const struct kv_groups *l, uint32_t n_blocks)
{
    uint64_t n = n_blocks / kv_groups_n(l);

    if (l->n_window > 0 && n >= kv_groups_width(l, 1)) {
        if (kv_groups_n_full(l) == 0)
            return UINT32_MAX;
        n = (n_blocks - (uint64_t)l->n_window * kv_groups_width(l, 1)) / kv_groups_n_full(l);
    }
    return n * BLOCK_TOKENS < UINT32_MAX ? (uint32_t)(n * BLOCK_TOKENS) : UINT32_MAX;
}
