/* core/runtime/barrier_tree.h - a barrier whose threads meet group by group.
 *
 * The threads of a group change one word, and only the last of them continues to the word above:
 * one for each memory node, where there are several, and one for all. Waking goes the same way
 * back, so a word is shared by a group's threads, or by one thread of each group, and its cache
 * line stays near them. With one group there is one word.
 *
 * Thread: each thread of the groups calls barrier_tree_wait() once for each barrier.
 * Memory: one allocation, in barrier_tree_create().
 * Errors: ERR_NOMEM.
 */
#ifndef CORE_RUNTIME_BARRIER_TREE_H
#define CORE_RUNTIME_BARRIER_TREE_H

#include "core/runtime/topology.h"

struct barrier_tree;

int barrier_tree_create(struct barrier_tree **out, const struct topology_group *groups,
                        uint32_t n_groups, uint32_t n_pauses);
void barrier_tree_destroy(struct barrier_tree **b);

void barrier_tree_wait(struct barrier_tree *b, uint32_t group);

#endif
