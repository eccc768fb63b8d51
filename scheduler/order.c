/* scheduler/order.c - see order.h.
 *
 * A node's heap weight is a hash of its ticket, not a random number, so that a replay builds the
 * same tree. Insertion splits the tree at the key and merges the halves around the new node;
 * removal merges the node's two subtrees in its place. Each node counts its subtree, which gives
 * order_rank() in O(log n).
 */
#include "scheduler/order.h"

#include <assert.h>
#include <stddef.h>

bool order_key_before(const struct order_key *a, const struct order_key *b)
{
    if (a->major != b->major)
        return a->major < b->major;
    if (a->minor != b->minor)
        return a->minor < b->minor;
    return a->ticket < b->ticket;
}

/* Hash the ticket (Steele et al., SplitMix64): every run builds the same tree, and so makes the
 * same plans. */
static uint64_t weight(const struct order_node *s)
{
    uint64_t z = s->key.ticket + 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t size(const struct order_node *s)
{
    return s != NULL ? s->size : 0;
}

static void update(struct order_node *s)
{
    s->size = 1 + size(s->left) + size(s->right);
}

static struct order_node *merge_orders(struct order_node *a, struct order_node *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    if (weight(a) > weight(b)) {
        a->right = merge_orders(a->right, b);
        update(a);
        return a;
    }
    b->left = merge_orders(a, b->left);
    update(b);
    return b;
}

/* Split a subtree: nodes before the key go to *left, the others to *right. */
static void split(struct order_node *s, const struct order_key *k, struct order_node **left,
                  struct order_node **right)
{
    if (s == NULL) {
        *left = *right = NULL;
    } else if (order_key_before(&s->key, k)) {
        split(s->right, k, &s->right, right);
        *left = s;
        update(s);
    } else {
        split(s->left, k, left, &s->left);
        *right = s;
        update(s);
    }
}

void order_insert(struct order *o, struct order_node *s)
{
    struct order_node *left, *right;

    assert(s->size == 0);
    s->left = s->right = NULL;
    s->size = 1;
    split(o->root, &s->key, &left, &right);
    o->root = merge_orders(merge_orders(left, s), right);
}

void order_remove(struct order *o, struct order_node *s)
{
    struct order_node **link = &o->root;

    while (*link != s) {
        assert(*link != NULL);
        (*link)->size--;
        link = order_key_before(&s->key, &(*link)->key) ? &(*link)->left : &(*link)->right;
    }
    *link = merge_orders(s->left, s->right);
    s->left = s->right = NULL;
    s->size = 0;
}

uint32_t order_n(const struct order *o)
{
    return size(o->root);
}

struct order_node *order_first(const struct order *o)
{
    struct order_node *s = o->root;

    while (s != NULL && s->left != NULL)
        s = s->left;
    return s;
}

struct order_node *order_next(const struct order *o, const struct order_key *k)
{
    struct order_node *s = o->root, *best = NULL;

    while (s != NULL) {
        if (order_key_before(k, &s->key)) {
            best = s;
            s = s->left;
        } else {
            s = s->right;
        }
    }
    return best;
}

uint32_t order_rank(const struct order *o, const struct order_key *k)
{
    const struct order_node *s = o->root;
    uint32_t n = 0;

    while (s != NULL) {
        if (order_key_before(&s->key, k)) {
            n += 1 + size(s->left);
            s = s->right;
        } else {
            s = s->left;
        }
    }
    return n;
}

static bool check_node(const struct order_node *s, const struct order_key *low,
                       const struct order_key *high)
{
    if (s == NULL)
        return true;
    if ((low != NULL && !order_key_before(low, &s->key)) ||
        (high != NULL && !order_key_before(&s->key, high)))
        return false;
    if (s->size != 1 + size(s->left) + size(s->right))
        return false;
    return check_node(s->left, low, &s->key) && check_node(s->right, &s->key, high);
}

bool order_check(const struct order *o)
{
    return check_node(o->root, NULL, NULL);
}
