/* scheduler/journal.c - see journal.h. The mutex protects the ring; it is held for copying only. */
#include "scheduler/journal.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/sched.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct journal {
    char *line; /* engine's scratch, as large as the ring */
    size_t line_len;
    size_t cap;
    pthread_mutex_t lock;
    char *ring;
    size_t head, len;
    uint64_t n_dropped;
};

int journal_create(struct journal **out, size_t bytes)
{
    struct journal *j = mem_calloc(1, sizeof(*j));

    *out = NULL;
    if (j == NULL)
        return ERR_NOMEM;
    j->cap = bytes;
    j->ring = mem_alloc(bytes);
    j->line = mem_alloc(bytes);
    pthread_mutex_init(&j->lock, NULL);
    if (j->ring == NULL || j->line == NULL) {
        journal_destroy(&j);
        return ERR_NOMEM;
    }
    *out = j;
    return 0;
}

void journal_destroy(struct journal **j)
{
    if (j == NULL || *j == NULL)
        return;
    pthread_mutex_destroy(&(*j)->lock);
    mem_free((*j)->ring);
    mem_free((*j)->line);
    mem_free(*j);
    *j = NULL;
}

/* Numbers and punctuation only; what does not fit is noticed by the final length check. */
__attribute__((format(printf, 2, 3))) static void put(struct journal *j, const char *format, ...)
{
    va_list args;
    int n;

    if (j->line_len >= j->cap)
        return;
    va_start(args, format);
    n = vsnprintf(j->line + j->line_len, j->cap - j->line_len, format, args);
    va_end(args);
    j->line_len += n > 0 ? (size_t)n : 0;
}

static void put_ids(struct journal *j, const char *name, const uint64_t *ids, uint32_t n)
{
    put(j, ",\"%s\":[", name);
    for (uint32_t i = 0; i < n; i++)
        put(j, "%s%" PRIu64, i > 0 ? "," : "", ids[i]);
    put(j, "]");
}

static void compose(struct journal *j, const struct plan *p)
{
    j->line_len = 0;
    put(j, "{\"step\":%" PRIu64 ",\"tokens\":%u", p->step, p->n_tokens);
    put_ids(j, "admitted", p->admitted, p->n_admitted);
    put_ids(j, "preempted", p->preempted, p->n_preempted);
    put(j, ",\"items\":[");
    for (uint32_t i = 0; i < p->n_items; i++) {
        const struct plan_item *item = &p->items[i];

        put(j, "%s[%" PRIu64 ",%u,%u,%d]", i > 0 ? "," : "", item->request->id, item->first,
            item->n, item->wants_token);
    }
    put(j, "]}\n");
}

static void append_line(struct journal *j)
{
    const size_t tail = (j->head + j->len) % j->cap;
    const size_t first = j->line_len < j->cap - tail ? j->line_len : j->cap - tail;

    memcpy(j->ring + tail, j->line, first);
    memcpy(j->ring, j->line + first, j->line_len - first);
    j->len += j->line_len;
}

void journal_plan(struct journal *j, const struct plan *plan)
{
    compose(j, plan);
    pthread_mutex_lock(&j->lock);
    if (j->line_len < j->cap && j->line_len <= j->cap - j->len)
        append_line(j);
    else
        j->n_dropped++;
    pthread_mutex_unlock(&j->lock);
}

size_t journal_take(struct journal *j, char *out, size_t n)
{
    size_t first;

    pthread_mutex_lock(&j->lock);
    if (n > j->len)
        n = j->len;
    first = n < j->cap - j->head ? n : j->cap - j->head;
    memcpy(out, j->ring + j->head, first);
    memcpy(out + first, j->ring, n - first);
    j->head = (j->head + n) % j->cap;
    j->len -= n;
    pthread_mutex_unlock(&j->lock);
    return n;
}

uint64_t journal_n_dropped(struct journal *j)
{
    uint64_t n;

    pthread_mutex_lock(&j->lock);
    n = j->n_dropped;
    pthread_mutex_unlock(&j->lock);
    return n;
}
