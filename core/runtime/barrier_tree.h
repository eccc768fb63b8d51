/* core/runtime/barrier_tree.h - a barrier whose threads meet group by group.
 *
 * The threads of a group (topology.h) count on one word; the last to arrive counts on the word
 * above: one word for each memory node, if there are several, and one for all threads. Threads are
 * woken along the same path. So a cache line is shared only by a group's threads, or by one thread
 * of each group. With one group there is one word.
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
