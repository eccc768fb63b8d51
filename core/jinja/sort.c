/* core/jinja/sort.c - a merge sort, because it must be stable like Python's.
 *
 * Bottom-up, between the array and room of the same size in the pool, without recursion. An error
 * of a comparison (values without an order, no steps left) stops it. Reversed, equal items still
 * keep their order, as with Python's reverse=True.
 */
#include "core/jinja/template_impl.h"

#include <string.h>

static void merge_runs(struct render *r, const struct sort_item *from, struct sort_item *to,
                       size_t lo, size_t mid, size_t hi, bool reverse)
{
    size_t a = lo, b = mid;

    for (size_t i = lo; i < hi; i++) {
        bool right = a == mid;

        if (a < mid && b < hi && r->rc == 0)
            right = reverse ? template_less(r, from[a].key, from[b].key, TOKEN_LT)
                            : template_less(r, from[b].key, from[a].key, TOKEN_LT);
        to[i] = right ? from[b++] : from[a++];
    }
}

bool template_sort(struct render *r, struct sort_item *at, uint32_t n, bool reverse)
{
    struct sort_item *room = value_pool_alloc(r->pool, (size_t)n * sizeof(*at));

    if (room == NULL)
        return template_step(r, 0);
    for (size_t run = 1; run < n && r->rc == 0; run *= 2) {
        for (size_t lo = 0; lo < n && r->rc == 0; lo += 2 * run) {
            const size_t mid = lo + run < n ? lo + run : n;
            const size_t hi = lo + 2 * run < n ? lo + 2 * run : n;

            merge_runs(r, at, room, lo, mid, hi, reverse);
        }
        memcpy(at, room, n * sizeof(*at));
    }
    return r->rc == 0;
}
