/* core/tokenizer/merge.c - see merge.h.
 *
 * Symbols are a doubly linked list in an array, so a join changes two links and leaves indices
 * valid. Heap entries are rank << 32 | left symbol: the smallest is the best pair and, of equal
 * ranks, the leftmost. Entries are never removed when a pair changes; a popped entry whose symbol
 * has another rank by now is stale and skipped. Runs of up to FEW symbols, nearly all words, use a
 * plain scan instead.
 */
#include "core/tokenizer/merge.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#define MIN_SYMBOLS 256 /* least room in symbols: nearly all words are shorter */
#define FEW 24

#define SPEND_OFTEN 1024 /* joins between two charges of the budget; a join takes some 50 ns */

struct run {
    struct merge *m;
    const char *text;
    merge_rank_fn rank_of;
    const void *model;
};

int merge_reserve(struct merge *m, size_t n)
{
    if (n <= m->cap)
        return 0;
    merge_release(m);
    n = n > MIN_SYMBOLS ? n : MIN_SYMBOLS;
    if (n > UINT32_MAX / 4)
        return ERR_NOMEM;
    m->symbols = mem_alloc(n * sizeof(*m->symbols));
    m->heap = mem_alloc(n * 2 * sizeof(*m->heap));
    if (m->symbols == NULL || m->heap == NULL) {
        merge_release(m);
        return ERR_NOMEM;
    }
    m->cap = n;
    return 0;
}

void merge_release(struct merge *m)
{
    mem_free(m->symbols);
    mem_free(m->heap);
    *m = (struct merge){.steps = m->steps, .budget = m->budget};
}

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    const uint64_t item = heap[i];

    for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (item <= heap[child])
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = item;
}

static void push(struct merge *m, uint64_t item)
{
    size_t i = m->n_heap++;

    while (i > 0 && item < m->heap[(i - 1) / 2]) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = item;
}

static uint64_t pop(struct merge *m)
{
    const uint64_t top = m->heap[0];

    m->heap[0] = m->heap[--m->n_heap];
    if (m->n_heap > 1)
        sift_down(m->heap, m->n_heap, 0);
    return top;
}

/* Look up the pair of symbol i and its right neighbour, and set the rank and the token of their
 * join. */
static uint32_t look_up_pair(const struct run *r, uint32_t i)
{
    struct symbol *s = &r->m->symbols[i];

    r->m->steps++;
    s->rank = RANK_NONE;
    if (s->next != SYMBOL_NONE)
        s->rank = r->rank_of(r->model, r->text, s, &r->m->symbols[s->next], &s->joined);
    return s->rank;
}

static void look_and_push(const struct run *r, uint32_t i)
{
    const uint32_t rank = look_up_pair(r, i);

    if (rank != RANK_NONE)
        push(r->m, (uint64_t)rank << 32 | i);
}

static void unite(const struct run *r, uint32_t i)
{
    struct symbol *left = &r->m->symbols[i];
    struct symbol *right = &r->m->symbols[left->next];

    left->len += right->len;
    left->id = left->joined;
    left->next = right->next;
    right->rank = RANK_NONE; /* makes its entry in the heap stale */
    if (left->next != SYMBOL_NONE)
        r->m->symbols[left->next].prev = i;
}

/* Join a short run: scanning it for the best pair is faster than keeping a heap. */
static void join_few(const struct run *r)
{
    const struct symbol *symbols = r->m->symbols;

    for (;;) {
        uint32_t best = 0;

        for (uint32_t i = symbols[0].next; i != SYMBOL_NONE; i = symbols[i].next)
            if (symbols[i].rank < symbols[best].rank)
                best = i;
        if (symbols[best].rank == RANK_NONE)
            return;
        unite(r, best);
        look_up_pair(r, best);
        if (symbols[best].prev != SYMBOL_NONE)
            look_up_pair(r, symbols[best].prev);
    }
}

static void join_pair(const struct run *r, uint32_t i)
{
    unite(r, i);
    look_and_push(r, i);
    if (r->m->symbols[i].prev != SYMBOL_NONE)
        look_and_push(r, r->m->symbols[i].prev);
}

/* Make a heap of all pairs. */
static void fill_heap(const struct run *r, uint32_t n)
{
    struct merge *m = r->m;

    m->n_heap = 0;
    for (uint32_t i = 0; i < n; i++)
        if (m->symbols[i].rank != RANK_NONE)
            m->heap[m->n_heap++] = (uint64_t)m->symbols[i].rank << 32 | i;
    for (size_t i = m->n_heap / 2; i-- > 0;)
        sift_down(m->heap, m->n_heap, i);
}

/* An entry of the heap is current if its symbol still has that rank: then joining it now is right
 * even if the entry was made for an earlier pair. Each join removes at least one entry and adds at
 * most two, so room for twice the symbols is enough. */
void merge_run(struct merge *m, size_t n, const char *text, merge_rank_fn rank_of,
               const void *model)
{
    const struct run r = {.m = m, .text = text, .rank_of = rank_of, .model = model};

    for (uint32_t i = 0; i < n; i++) {
        m->symbols[i].prev = i > 0 ? i - 1 : SYMBOL_NONE;
        m->symbols[i].next = i + 1 < n ? i + 1 : SYMBOL_NONE;
    }
    if (budget_spend(m->budget, n) < 0)
        return;
    for (uint32_t i = 0; i < n; i++)
        look_up_pair(&r, i);
    if (n <= FEW) {
        join_few(&r);
        return;
    }
    fill_heap(&r, (uint32_t)n);
    for (uint32_t k = 1; m->n_heap > 0; k++) {
        const uint64_t top = pop(m);
        const uint32_t i = (uint32_t)top;

        if (m->symbols[i].rank == (uint32_t)(top >> 32))
            join_pair(&r, i);
        if (k % SPEND_OFTEN == 0 && budget_spend(m->budget, 2 * SPEND_OFTEN) < 0)
            return;
    }
}
