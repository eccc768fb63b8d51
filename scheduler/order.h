/* scheduler/order.h - the waiting sequences of a tenant, in the order of their admission.
 *
 * A treap: a search tree by key that is a heap by a pseudo-random number drawn from the ticket, so
 * it stays balanced for any order of arrivals. The links are in the sequences themselves, so an
 * order needs no memory of its own. Everything is O(log n) expected.
 *
 * Private to scheduler/. Source: Seidel and Aragon, "Randomized Search Trees", 1996.
 *
 * Thread: engine thread only.
 * Memory: none.
 */
#ifndef SCHEDULER_ORDER_H
#define SCHEDULER_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct order_key { /* the smaller key is admitted first */
    uint64_t major, minor;
    uint64_t ticket; /* unique */
};

struct order_node { /* inside struct seq */
    struct order_key key;
    struct order_node *left, *right;
    uint32_t size; /* nodes of the subtree; 0 = in no order */
};

struct order { /* zero is empty */
    struct order_node *root;
};

bool order_key_before(const struct order_key *a, const struct order_key *b);

void order_insert(struct order *o, struct order_node *s); /* its key is set; it is in no order
                                                           * yet */
void order_remove(struct order *o, struct order_node *s); /* requires that it is in this order */
uint32_t order_n(const struct order *o);
struct order_node *order_first(const struct order *o); /* or NULL */
/* The first node after a key, or NULL. */
struct order_node *order_next(const struct order *o, const struct order_key *k);
uint32_t order_rank(const struct order *o, const struct order_key *k); /* nodes before the key */
bool order_check(const struct order *o);

#endif
