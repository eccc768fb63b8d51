/* kvcache/kv_groups.h - which layers lie together in a block, and how many blocks tokens take.
 *
 * A layer with sliding-window attention never reads the keys of tokens before its window again, so
 * their blocks can be freed; the other layers read all tokens. The layers are therefore assigned to
 * groups: the layers of a group all have the window, or none has it. A block holds 16 tokens of one
 * group, and a sequence has a list of blocks for each group. All blocks are of one size, so that
 * there is one pool: a group has at most n_layer layers, and the room of those that it lacks is
 * wasted. A model without windows has one group of all its layers, and so has one whose layers all
 * have the window.
 *
 * In a group with the window a sequence that has computed n_done tokens keeps the blocks from
 * kv_groups_first() on: what a query of the last token before the last block boundary sees, so that
 * another sequence can still go on from that boundary, or compute that token once more to choose
 * another one behind it; and hence all that the next query sees.
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
    uint32_t n_window; /* of them, the last ones: those with the window; if all have it n is 1 */
    uint32_t window;   /* tokens that a query sees there, its own included; 0: n_window is 0 */
    uint32_t n_layer;  /* layers in a block */
};

struct kv_location { /* of a layer */
    uint32_t group;
    uint32_t at; /* among those of the group's blocks */
};

/* Deal out n_layer >= 1 layers; windows[i] is what layer i sees, 0: everything; those that are not
 * 0 are equal. Of the sizes with which neither kind of layer wastes more than a sixteenth the
 * largest is taken: the fewer groups, the fewer blocks to keep account of. */
void kv_groups_assign(const uint32_t *windows, uint32_t n_layer, struct kv_groups *groups,
                      struct kv_location *places);

/* Groups, and those without the window. */
static inline uint32_t kv_groups_n(const struct kv_groups *l)
{
    return l->n > 0 ? l->n : 1;
}

static inline uint32_t kv_groups_n_full(const struct kv_groups *l)
{
    return kv_groups_n(l) - l->n_window;
}

/* The first block (in tokens / 16) that a query at a position sees in groups with the window; 0
 * where none has it. At most pos / 16. */
uint32_t kv_groups_seen(const struct kv_groups *l, uint32_t pos);

/* The first block that these groups keep when n_done tokens are done: what is seen from the last
 * token before the last block boundary. At most kv_groups_seen(n_done). */
uint32_t kv_groups_first(const struct kv_groups *l, uint32_t n_done);

/* The most blocks that a sequence ever holds until it has n_tokens, if no step computes more than
 * `chunk` of them (0: no limit). */
uint64_t kv_groups_peak(const struct kv_groups *l, uint32_t n_tokens, uint32_t chunk);

/* The most tokens that a sequence can have in n_blocks, one computed after the other if need be. */
uint32_t kv_groups_most_tokens(const struct kv_groups *l, uint32_t n_blocks);

/* The most blocks of a group with the window when a step computes at most `chunk` tokens. */
uint32_t kv_groups_width(const struct kv_groups *l, uint32_t chunk);

#endif
