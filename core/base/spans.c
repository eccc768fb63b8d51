/* core/base/spans.c - see spans.h.
 *
 * Spans are appended in ascending order and merged with the last one where they touch, so the array
 * is always sorted and a look-up is a binary search. Rendering a template
 * appends them; tokenizing asks whether a special token's name lies in one.
 */
#include "core/base/spans.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>

void spans_release(struct spans *s)
{
    mem_free(s->at);
    *s = (struct spans){0};
}

static int grow_spans(struct spans *s)
{
    const size_t cap = s->cap > 0 ? 2 * s->cap : 32;
    struct span *at;

    if (s->err == 0 && cap > SPANS_MAX)
        s->err = ERR_LIMIT;
    if (s->err < 0)
        return s->err;
    at = mem_realloc(s->at, cap * sizeof(*at));
    if (at == NULL)
        return s->err = ERR_NOMEM;
    s->at = at;
    s->cap = cap;
    return 0;
}

int spans_add(struct spans *s, size_t from, size_t to)
{
    assert(from <= to && (s->n == 0 || s->at[s->n - 1].to <= from));
    if (from == to)
        return s->err;
    if (s->n > 0 && s->at[s->n - 1].to == from) {
        s->at[s->n - 1].to = to;
        return s->err;
    }
    if (s->n == s->cap && grow_spans(s) < 0)
        return s->err;
    s->at[s->n++] = (struct span){from, to};
    return s->err;
}

void spans_cut(struct spans *s, size_t end)
{
    while (s->n > 0 && s->at[s->n - 1].from >= end)
        s->n--;
    if (s->n > 0 && s->at[s->n - 1].to > end)
        s->at[s->n - 1].to = end;
}

size_t spans_find(const struct spans *s, size_t pos)
{
    size_t first = 0, n = s->n;

    while (n > 0) {
        const size_t half = n / 2;

        if (s->at[first + half].to > pos) {
            n = half;
        } else {
            first += half + 1;
            n -= half + 1;
        }
    }
    return first;
}

bool spans_cover(const struct spans *s, size_t from, size_t to)
{
    const size_t i = spans_find(s, from);

    return i < s->n && s->at[i].from <= from && to <= s->at[i].to;
}
