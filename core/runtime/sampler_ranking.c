/* core/runtime/sampler_ranking.c - see sampler_ranking.h.
 *
 * A band is gathered by one scan of the row, made a heap, and popped only as ranks are asked for.
 * Popped tokens are stored after the shrinking heap, worst first from its end, so that a finished
 * band is reversed in place and becomes the next part of the sorted prefix: one array of n_vocab
 * candidates holds everything.
 */
#include "core/runtime/sampler_ranking.h"

#include <float.h>
#include <math.h>

#define LOOK 64      /* tokens that one maximum can skip together */
#define DEEPEST 1024 /* a band at this many times the first depth is followed by one of all tokens
                      * that are left */

void ranking_init(struct ranking *r, const struct kern_table *kern, struct candidate *at,
                  const float *x, uint32_t n_vocab)
{
    *r = (struct ranking){.kern = kern, .x = x, .n_vocab = n_vocab, .at = at, .floor = INFINITY};
    r->max = kern->max(x, n_vocab);
}

void ranking_reach(struct ranking *r, float depth)
{
    r->depth = depth;
    r->deepest = DEEPEST * depth;
}

static bool is_before(struct candidate a, struct candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void sift_down(struct candidate *heap, uint32_t n, uint32_t i)
{
    const struct candidate c = heap[i];

    for (uint32_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && is_before(heap[child + 1], heap[child]))
            child++;
        if (!is_before(heap[child], c))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = c;
}

/* Gather the tokens with logits >= floor that are in no earlier band, as a heap with the best on
 * top. */
static void gather_band(struct ranking *r, float floor)
{
    struct candidate *const heap = r->at + r->base;

    for (uint32_t from = 0; from < r->n_vocab; from += LOOK) {
        const uint32_t end = r->n_vocab - from < LOOK ? r->n_vocab : from + LOOK;

        if (r->kern->max(r->x + from, end - from) < floor)
            continue;
        for (uint32_t id = from; id < end; id++)
            if (r->x[id] >= floor && r->x[id] < r->floor)
                heap[r->n++] = (struct candidate){r->x[id], (int32_t)id};
    }
    r->floor = floor;
    for (uint32_t i = r->n / 2; i-- > 0;)
        sift_down(heap, r->n, i);
}

/* Finish a band: all its tokens are popped and lie with the best last, so reverse them. */
static void close_band(struct ranking *r)
{
    struct candidate *const band = r->at + r->base;

    for (uint32_t i = 0; i < r->n / 2; i++) {
        const struct candidate c = band[i];

        band[i] = band[r->n - 1 - i];
        band[r->n - 1 - i] = c;
    }
    r->base += r->n;
    r->n = r->n_popped = 0;
}

/* Gather the next band that has a token. */
static bool next_band(struct ranking *r)
{
    close_band(r);
    while (r->n == 0 && r->floor > -FLT_MAX) {
        const float floor = r->depth <= r->deepest ? r->max - r->depth : -FLT_MAX;

        if (floor < r->floor)
            gather_band(r, floor < -FLT_MAX ? -FLT_MAX : floor);
        r->depth *= 2;
    }
    return r->n > 0;
}

/* Move the best token from the heap to the place after its new end. */
static void pop(struct ranking *r)
{
    struct candidate *const heap = r->at + r->base;
    const uint32_t last = r->n - ++r->n_popped;
    const struct candidate best = heap[0];

    heap[0] = heap[last];
    heap[last] = best;
    sift_down(heap, last, 0);
}

const struct candidate *ranking_at(struct ranking *r, uint32_t rank)
{
    if (rank < r->base)
        return &r->at[rank];
    while (rank >= r->base + r->n_popped) {
        if (r->n_popped == r->n && !next_band(r))
            return NULL;
        pop(r);
    }
    return &r->at[r->base + r->n - 1 - (rank - r->base)];
}

bool ranking_ends(const struct ranking *r, uint32_t rank, float logit)
{
    return rank >= r->base + r->n && r->floor <= logit;
}

uint32_t ranking_count(const struct ranking *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n_vocab; i++)
        n += r->x[i] > -INFINITY;
    return n;
}
