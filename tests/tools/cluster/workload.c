/* tests/tools/cluster/workload.c - see workload.h.
 *
 * Recorded arrivals are sorted by time in one array; `places` maps their numbers to it, for prefix
 * owners. For drawn requests, sorting the prompts by text puts those with a common beginning side
 * by side, so that comparing neighbours finds the longest part that a prompt shares with any other.
 * Random numbers need no libm (von Neumann's method), so a workload is the same on every machine.
 */
#include "tests/tools/cluster/workload.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/replay/simulate.h"

#include <stdlib.h>
#include <string.h>

struct recorded {
    const struct simulate_arrival *arrival;
    uint64_t offset_us;
    size_t first;      /* number of its run's first arrival */
    size_t number;     /* number in the order of adding */
    uint32_t n_shared; /* leading tokens shared with another prompt */
};

struct workload {
    struct workload_options opt;
    struct recorded *all; /* [n] sorted by time by workload_begin() */
    size_t n, cap;
    size_t *places; /* [n] index in `all` by number */
    size_t i;       /* index of the next arrival */
    uint64_t first_us, now_us, rng;
    double rate;
};

int workload_create(struct workload **out, const struct workload_options *options)
{
    *out = mem_calloc(1, sizeof(**out));
    if (*out == NULL)
        return ERR_NOMEM;
    (*out)->opt = *options;
    return 0;
}

void workload_destroy(struct workload **w)
{
    if (w == NULL || *w == NULL)
        return;
    mem_free((*w)->all);
    mem_free((*w)->places);
    mem_free(*w);
    *w = NULL;
}

int workload_add(struct workload *w, const struct simulate_arrival *arrivals, size_t n,
                 uint64_t offset_us)
{
    const size_t first = w->n;

    if (w->n + n > w->cap) {
        struct recorded *all = mem_realloc(w->all, (w->n + n) * sizeof(*all));

        if (all == NULL)
            return ERR_NOMEM;
        w->all = all;
        w->cap = w->n + n;
    }
    for (size_t i = 0; i < n; i++) {
        w->all[w->n] = (struct recorded){
            .arrival = &arrivals[i], .offset_us = offset_us, .first = first, .number = w->n};
        w->n++;
    }
    return 0;
}

/* ---- order ---- */

static uint64_t time_of(const struct recorded *r)
{
    return r->arrival->at_us + r->offset_us;
}

static int by_time(const void *a, const void *b)
{
    const struct recorded *x = a, *y = b;

    if (time_of(x) != time_of(y))
        return time_of(x) < time_of(y) ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static uint32_t n_common(const struct simulate_arrival *a, const struct simulate_arrival *b)
{
    const uint32_t n = a->n_prompt < b->n_prompt ? a->n_prompt : b->n_prompt;
    uint32_t i = 0;

    if (a->prompt == NULL || b->prompt == NULL || a->salt != b->salt)
        return 0;
    while (i < n && a->prompt[i] == b->prompt[i])
        i++;
    return i;
}

static int by_prompt(const void *a, const void *b)
{
    const struct simulate_arrival *x = (*(struct recorded *const *)a)->arrival;
    const struct simulate_arrival *y = (*(struct recorded *const *)b)->arrival;
    const uint32_t i = n_common(x, y);

    if (x->salt != y->salt)
        return x->salt < y->salt ? -1 : 1;
    if (i < x->n_prompt && i < y->n_prompt && x->prompt != NULL && y->prompt != NULL)
        return x->prompt[i] < y->prompt[i] ? -1 : 1;
    return (x->n_prompt > y->n_prompt) - (x->n_prompt < y->n_prompt);
}

/* Find how many leading tokens each prompt shares with another one: sorted by text, it shares most
 * with a neighbour. */
static int find_shared(struct workload *w)
{
    struct recorded **sorted = mem_calloc(w->n + 1, sizeof(*sorted));

    if (sorted == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < w->n; i++) {
        w->all[i].n_shared = 0;
        sorted[i] = &w->all[i];
    }
    qsort(sorted, w->n, sizeof(*sorted), by_prompt);
    for (size_t i = 1; i < w->n; i++) {
        const uint32_t n = n_common(sorted[i - 1]->arrival, sorted[i]->arrival);

        sorted[i - 1]->n_shared = n > sorted[i - 1]->n_shared ? n : sorted[i - 1]->n_shared;
        sorted[i]->n_shared = n;
    }
    mem_free(sorted);
    return 0;
}

/* The rate of the recorded arrivals at this speed, per second; of a single one: 1. */
static double own_rate(const struct workload *w)
{
    const uint64_t span = w->n > 1 ? time_of(&w->all[w->n - 1]) - w->first_us : 0;

    return span > 0 ? (double)(w->n - 1) * 1e6 / (double)span * w->opt.speed : 1;
}

int workload_begin(struct workload *w)
{
    mem_free(w->places);
    w->places = mem_calloc(w->n + 1, sizeof(*w->places));
    if (w->places == NULL)
        return ERR_NOMEM;
    if (w->n > 0) {
        qsort(w->all, w->n, sizeof(*w->all), by_time);
        w->first_us = time_of(&w->all[0]);
    }
    for (size_t i = 0; i < w->n; i++)
        w->places[w->all[i].number] = i;
    w->i = 0;
    w->now_us = w->first_us;
    w->rng = w->opt.seed * 2 + 1;
    w->rate = w->opt.n_requests > 0 && w->opt.rate > 0 ? w->opt.rate : own_rate(w);
    return w->opt.n_requests > 0 ? find_shared(w) : 0;
}

/* ---- the next arrival ---- */

/* Move an arrival to a new time, with every limit that counts from it. */
static void move(struct simulate_arrival *a, uint64_t at_us)
{
    uint64_t *const times[] = {&a->deadline_us, &a->first_by_us, &a->queue_until_us, &a->leave_us};

    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
        if (*times[i] > 0)
            *times[i] = at_us + (*times[i] > a->at_us ? *times[i] - a->at_us : 0);
    a->at_us = at_us;
}

static void take_recorded(struct workload *w, struct simulate_arrival *out)
{
    const struct recorded *r = &w->all[w->i];
    const uint64_t at_us = time_of(r);

    *out = *r->arrival;
    if (out->prefix_owner > 0)
        out->prefix_owner = w->places[r->first + out->prefix_owner - 1] + 1;
    if (w->opt.speed == 1)
        move(out, at_us);
    else
        move(out, w->first_us + (uint64_t)((double)(at_us - w->first_us) / w->opt.speed));
}

static uint64_t rnd(struct workload *w)
{
    w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
    return w->rng >> 11;
}

static double even(struct workload *w) /* [0, 1) */
{
    return (double)rnd(w) / 9007199254740992.0; /* 2^53 */
}

/* Draw from the exponential distribution with mean 1, only by comparing uniform numbers (von
 * Neumann, 1951): the first number of a falling run, if the run's length is odd; every run of even
 * length before it adds 1. */
static double exponential(struct workload *w)
{
    double whole = 0;

    for (;; whole += 1) {
        const double first = even(w);
        double last = first, next;
        uint32_t n = 1;

        for (; (next = even(w)) < last; n++)
            last = next;
        if (n % 2 == 1)
            return whole + first;
    }
}

static void draw_request(struct workload *w, struct simulate_arrival *out)
{
    const struct recorded *r = &w->all[rnd(w) % w->n];

    w->now_us += (uint64_t)(exponential(w) / w->rate * 1e6);
    *out = *r->arrival;
    move(out, w->now_us);
    out->prefix_owner = 0;
    out->output = NULL;
    out->seed = w->opt.seed * 1000003 + w->i + 1;
    out->n_given = r->n_shared;
    if (r->n_shared == 0)
        out->prompt = NULL;
}

bool workload_next(struct workload *w, struct simulate_arrival *out)
{
    if (w->n == 0 || w->i == workload_n(w))
        return false;
    if (w->opt.n_requests > 0)
        draw_request(w, out);
    else
        take_recorded(w, out);
    w->i++;
    return true;
}

size_t workload_n(const struct workload *w)
{
    return w->opt.n_requests > 0 ? w->opt.n_requests : w->n;
}

double workload_rate(const struct workload *w)
{
    return w->rate;
}
