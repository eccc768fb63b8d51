/* core/runtime/barrier_tree.c - see barrier_tree.h.
 *
 * Pairings: each arrival is acq_rel, so the last thread at a node has acquired what all the others
 * did before. It continues to the parent node and at the end announces the phase of each node it
 * passed, which the waiting threads acquire.
 */
#include "core/runtime/barrier_tree.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/runtime/spin_word.h"

#define NO_PARENT UINT32_MAX

struct node {
    _Alignas(64) atomic_uint arrived;
    uint32_t n; /* number of threads or child nodes that arrive here */
    uint32_t parent;
    struct spin_word phase;
};

struct barrier_tree {
    uint32_t n_pauses;
    struct node *nodes; /* one node for each group, then their parents */
};

/* Build the tree above the groups: one tree node for each memory node, and one root; a level that
 * would have one child is left out. Groups of a memory node are neighbours. */
static void connect(struct node *nodes, const struct topology_group *groups, uint32_t n_groups)
{
    uint32_t n = n_groups, n_memory = 1;

    for (uint32_t i = 1; i < n_groups; i++)
        n_memory += groups[i].node != groups[i - 1].node;
    if (n_groups == 1)
        return;
    for (uint32_t i = 0; i < n_groups && n_memory > 1 && n_memory < n_groups; i++) {
        n += i == 0 || groups[i].node != groups[i - 1].node;
        nodes[i].parent = n - 1;
        nodes[n - 1].n++;
    }
    for (uint32_t i = n > n_groups ? n_groups : 0; i < n; i++)
        nodes[i].parent = n;
    nodes[n].n = n > n_groups ? n - n_groups : n_groups;
    nodes[n].parent = NO_PARENT;
}

int barrier_tree_create(struct barrier_tree **out, const struct topology_group *groups,
                        uint32_t n_groups, uint32_t n_pauses)
{
    struct barrier_tree *b = mem_calloc(1, sizeof(*b));

    *out = NULL;
    if (b == NULL)
        return ERR_NOMEM;
    b->n_pauses = n_pauses;
    b->nodes = mem_aligned(2 * (size_t)n_groups + 1, sizeof(*b->nodes));
    if (b->nodes == NULL) {
        mem_free(b);
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < n_groups; i++) {
        b->nodes[i].n = groups[i].n;
        b->nodes[i].parent = NO_PARENT;
    }
    connect(b->nodes, groups, n_groups);
    *out = b;
    return 0;
}

void barrier_tree_destroy(struct barrier_tree **tree)
{
    struct barrier_tree *b = tree != NULL ? *tree : NULL;

    if (b == NULL)
        return;
    mem_free(b->nodes);
    mem_free(b);
    *tree = NULL;
}

void barrier_tree_wait(struct barrier_tree *b, uint32_t group)
{
    struct node *node = &b->nodes[group];
    const unsigned phase = atomic_load_explicit(&node->phase.count, memory_order_relaxed);

    if (atomic_fetch_add_explicit(&node->arrived, 1, memory_order_acq_rel) + 1 < node->n) {
        spin_word_wait(&node->phase, phase, b->n_pauses);
        return;
    }
    atomic_store_explicit(&node->arrived, 0, memory_order_relaxed);
    if (node->parent != NO_PARENT)
        barrier_tree_wait(b, node->parent);
    spin_word_announce(&node->phase);
}
