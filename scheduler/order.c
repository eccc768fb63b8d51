/* scheduler/order.c - see order.h. Split and merge do all the work. */
#include "scheduler/order.h"

#include "scheduler/sequence.h"

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

/* A fixed shuffle of the ticket (Steele et al., SplitMix64): the same plans on every run. */
static uint64_t weight(const struct seq *s)
{
    uint64_t z = s->node.key.ticket + 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t size(const struct seq *s)
{
    return s != NULL ? s->node.size : 0;
}

static void update(struct seq *s)
{
    s->node.size = 1 + size(s->node.left) + size(s->node.right);
}

static struct seq *merge(struct seq *a, struct seq *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    if (weight(a) > weight(b)) {
        a->node.right = merge(a->node.right, b);
        update(a);
        return a;
    }
    b->node.left = merge(a, b->node.left);
    update(b);
    return b;
}

/* Everything before the key to the left, the rest to the right. */
static void split(struct seq *s, const struct order_key *k, struct seq **left, struct seq **right)
{
    if (s == NULL) {
        *left = *right = NULL;
    } else if (order_key_before(&s->node.key, k)) {
        split(s->node.right, k, &s->node.right, right);
        *left = s;
        update(s);
    } else {
        split(s->node.left, k, left, &s->node.left);
        *right = s;
        update(s);
    }
}

void order_insert(struct order *o, struct seq *s)
{
    struct seq *left, *right;

    assert(s->node.size == 0);
    s->node.left = s->node.right = NULL;
    s->node.size = 1;
    split(o->root, &s->node.key, &left, &right);
    o->root = merge(merge(left, s), right);
}

void order_remove(struct order *o, struct seq *s)
{
    struct seq **link = &o->root;

    while (*link != s) {
        assert(*link != NULL);
        (*link)->node.size--;
        link = order_key_before(&s->node.key, &(*link)->node.key) ? &(*link)->node.left
                                                                  : &(*link)->node.right;
    }
    *link = merge(s->node.left, s->node.right);
    s->node.left = s->node.right = NULL;
    s->node.size = 0;
}

uint32_t order_n(const struct order *o)
{
    return size(o->root);
}

struct seq *order_first(const struct order *o)
{
    struct seq *s = o->root;

    while (s != NULL && s->node.left != NULL)
        s = s->node.left;
    return s;
}

struct seq *order_next(const struct order *o, const struct order_key *k)
{
    struct seq *s = o->root, *best = NULL;

    while (s != NULL) {
        if (order_key_before(k, &s->node.key)) {
            best = s;
            s = s->node.left;
        } else {
            s = s->node.right;
        }
    }
    return best;
}

uint32_t order_rank(const struct order *o, const struct order_key *k)
{
    const struct seq *s = o->root;
    uint32_t n = 0;

    while (s != NULL) {
        if (order_key_before(&s->node.key, k)) {
            n += 1 + size(s->node.left);
            s = s->node.right;
        } else {
            s = s->node.left;
        }
    }
    return n;
}

static bool check(const struct seq *s, const struct order_key *low, const struct order_key *high)
{
    if (s == NULL)
        return true;
    if ((low != NULL && !order_key_before(low, &s->node.key)) ||
        (high != NULL && !order_key_before(&s->node.key, high)))
        return false;
    if (s->node.size != 1 + size(s->node.left) + size(s->node.right))
        return false;
    return check(s->node.left, low, &s->node.key) && check(s->node.right, &s->node.key, high);
}

bool order_check(const struct order *o)
{
    return check(o->root, NULL, NULL);
}
