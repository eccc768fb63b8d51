/* kvcache/kv_groups.h - which layers share a block, and how many blocks a number of tokens takes.
 *
 * A layer with sliding-window attention never reads the keys of tokens before its window again, so
 * their blocks can be freed; the other layers read all tokens. The layers are therefore assigned to
 * groups: the layers of a group all have the window, or none has it. A block holds 16 tokens of one
 * group, and a sequence has a list of blocks for each group. All blocks have the same size, so that
 * there is one pool: a group has at most n_layer layers, and a group with fewer wastes the rest of
 * its blocks. A model whose layers all have no window, or all have the window, has one group of all
 * its layers.
 *
 * In a group with the window a sequence that has computed n_done tokens keeps the blocks from
 * kv_groups_first() on: those that a query of the last token before the last block boundary sees,
 * so that another sequence can still continue from that boundary, or compute that token again to
 * choose a different one after it. These include everything that the next query sees.
 *
 * Pure arithmetic.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef KVCACHE_KV_GROUPS_H
#define KVCACHE_KV_GROUPS_H

#include <stdint.h>

struct kv_groups {
    uint32_t n;        /* groups; 0 counts as 1, so that {0} is one group without a window */
    uint32_t n_window; /* the last groups: those with the window; if all layers have it, n is 1 */
    uint32_t window;   /* tokens that a query sees in groups with the window, its own included; 0:
                        * n_window is 0 */
    uint32_t n_layer;  /* layers in a block */
};

struct kv_location { /* the place of a layer */
    uint32_t group;
    uint32_t at; /* index among the layers of its group */
};

/* Assign n_layer >= 1 layers to groups; windows[i] is the window of layer i, 0: none; all windows
 * are equal. Chooses the most layers a block with which neither kind of layer wastes more than a
 * sixteenth: fewer groups mean fewer blocks to manage. */
void kv_groups_assign(const uint32_t *windows, uint32_t n_layer, struct kv_groups *groups,
                      struct kv_location *places);

/* Number of groups, and of groups without the window. */
static inline uint32_t kv_groups_n(const struct kv_groups *l)
{
    return l->n > 0 ? l->n : 1;
}

static inline uint32_t kv_groups_n_full(const struct kv_groups *l)
{
    return kv_groups_n(l) - l->n_window;
}

/* The first block (in tokens / 16) that a query at a position sees in groups with the window; 0
 * where there is no window. At most pos / 16. */
uint32_t kv_groups_seen(const struct kv_groups *l, uint32_t pos);

/* The first block that groups with the window keep when n_done tokens are computed: the first block
 * that the last token before the last block boundary sees. At most kv_groups_seen(n_done). */
uint32_t kv_groups_first(const struct kv_groups *l, uint32_t n_done);

/* The most blocks that a sequence ever holds until it has n_tokens, if no step computes more than
 * `chunk` of them (0: no limit). */
uint64_t kv_groups_peak(const struct kv_groups *l, uint32_t n_tokens, uint32_t chunk);

/* The most tokens that a sequence can have in n_blocks, if necessary computed one a step. */
uint32_t kv_groups_most_tokens(const struct kv_groups *l, uint32_t n_blocks);

/* The most blocks of a group with the window when a step computes at most `chunk` tokens. */
uint32_t kv_groups_width(const struct kv_groups *l, uint32_t chunk);

#endif
