/* server/kv_events/sent_batches.c - see sent_batches.h.
 *
 * A ring of the last batches, indexed by their number modulo its size, so that a replay finds a
 * batch without a search. Two limits hold: the number of batches and the sum of their bytes. Copies
 * are owned by the ring; only the publisher's thread uses it.
 */
#include "server/kv_events/sent_batches.h"

#include "core/base/err.h"
#include "core/base/mem.h"

struct kept {
    void *bytes;
    size_t n;
};

struct sent_batches {
    uint32_t max;
    size_t max_bytes, n_bytes;
    uint64_t from, to;  /* batch i is at ring[i % max] */
    struct kept *ring;  /* [max] */
};

int sent_batches_create(struct sent_batches **out, uint32_t max_batches, size_t max_bytes)
{
    struct sent_batches *s;

    *out = NULL;
    if (max_batches == 0)
        return ERR_INVAL;
    s = mem_calloc(1, sizeof(*s));
    if (s == NULL)
        return ERR_NOMEM;
    s->max = max_batches;
    s->max_bytes = max_bytes;
    s->ring = mem_calloc(max_batches, sizeof(*s->ring));
    if (s->ring == NULL) {
        sent_batches_destroy(&s);
        return ERR_NOMEM;
    }
    *out = s;
    return 0;
}

void sent_batches_destroy(struct sent_batches **sent)
{
    struct sent_batches *s = sent != NULL ? *sent : NULL;

    if (s == NULL)
        return;
    if (s->ring != NULL)
        sent_batches_clear(s);
    mem_free(s->ring);
    mem_free(s);
    *sent = NULL;
}

static void drop_oldest(struct sent_batches *s)
{
    struct kept *k = &s->ring[s->from++ % s->max];

    s->n_bytes -= k->n;
    mem_free(k->bytes);
    *k = (struct kept){0};
}

void sent_batches_clear(struct sent_batches *s)
{
    while (s->from < s->to)
        drop_oldest(s);
}

void sent_batches_add(struct sent_batches *s, uint64_t number, const void *bytes, size_t n)
{
    void *copy = n <= s->max_bytes ? mem_dup(bytes, n) : NULL;

    if (copy == NULL || number != s->to)
        sent_batches_clear(s);
    if (copy == NULL) {
        s->from = s->to = number + 1;
        return;
    }
    while (s->from < s->to && (s->to - s->from == s->max || s->n_bytes + n > s->max_bytes))
        drop_oldest(s);
    if (s->from == s->to)
        s->from = number;
    s->ring[number % s->max] = (struct kept){copy, n};
    s->n_bytes += n;
    s->to = number + 1;
}

void sent_batches_range(const struct sent_batches *s, uint64_t *from, uint64_t *to)
{
    *from = s->from;
    *to = s->to;
}

const void *sent_batches_get(const struct sent_batches *s, uint64_t number, size_t *n)
{
    const struct kept *k = &s->ring[number % s->max];

    *n = k->n;
    return k->bytes;
}
