/* core/runtime/barrier_tree.h - a barrier whose threads meet group by group.
 *
 * The threads of a group change one word, and only the last one of them goes on to what stands
 * above: a word for each memory node, where there are several, and one for all. The way back is the
 * same, so a word is shared by a group's threads, or by one of each group, and its cache line stays
 * where they are. One group is one word.
 *
 * Thread: barrier_tree_wait() by each thread of the groups, once each time.
 * Memory: one allocation of create.
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
