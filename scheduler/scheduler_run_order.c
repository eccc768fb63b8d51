/* scheduler/scheduler_run_order.c - compares sequences; scheduler.h describes the policies. A
 * policy is only a key, computed once at arrival: ageing is built in as a time in the future at
 * which the request becomes due, so no key ever changes and the waiting orders need no resorting.
 * Within a tenant keys decide. Between tenants priority and service count, which do change, so
 * sched_next_waiting() compares the first sequences of all tenants anew each time.
 */
#include "scheduler/scheduler_impl.h"

#define TOKENS_PER_LEVEL 2048 /* adaptive: a length of so many tokens counts as much as a level of
                               * priority */

static bool has_levels(const struct sched *s)
{
    return s->opt.policy == SCHED_PRIORITY || s->opt.policy == SCHED_ADAPTIVE;
}

static uint64_t max_wait_us(const struct sched *s)
{
    return (uint64_t)s->opt.max_wait_ms * 1000;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Return the microseconds of waiting that are worth n_milli thousandths of a level, at most
 * max_wait. Requires ageing. */
static uint64_t worth_us(const struct sched *s, uint64_t n_milli)
{
    return min64(n_milli * 1000000 / s->opt.aging_milli, max_wait_us(s));
}

static uint64_t length_of(const struct request *r)
{
    return (uint64_t)r->n_prompt + r->max_tokens;
}

static struct order_key key_by_length(const struct sched *s, const struct request *r)
{
    const uint64_t n = length_of(r);

    if (s->opt.aging_milli == 0)
        return (struct order_key){.major = n};
    return (struct order_key){.major = r->arrival_us + worth_us(s, n), .minor = n};
}

static uint64_t due_of(const struct sched *s, const struct request *r)
{
    if (r->first_by_us != 0 && (r->deadline_us == 0 || r->first_by_us < r->deadline_us))
        return r->first_by_us;
    return r->deadline_us != 0 ? r->deadline_us : r->arrival_us + max_wait_us(s);
}

/* Return the key for policies with levels. A lower priority adds to the due time; a higher one
 * subtracts nothing, so that no key is negative. */
static struct order_key key_by_level(const struct sched *s, const struct request *r)
{
    const uint64_t levels = (uint64_t)(PRIORITY_CRITICAL - r->priority);
    uint64_t due = due_of(s, r);

    if (s->opt.aging_milli == 0) {
        if (s->opt.policy == SCHED_ADAPTIVE)
            due += length_of(r) * 1000;
        return (struct order_key){.major = levels, .minor = due};
    }
    if (s->opt.policy == SCHED_ADAPTIVE)
        due += worth_us(s, length_of(r) * 1000 / TOKENS_PER_LEVEL);
    return (struct order_key){.major = due + worth_us(s, levels * 1000)};
}

struct order_key sched_key(const struct sched *s, const struct request *r, uint64_t ticket)
{
    struct order_key key = {0};

    switch (s->opt.policy) {
    case SCHED_FCFS:
        break;
    case SCHED_SJF:
        key = key_by_length(s, r);
        break;
    case SCHED_PRIORITY:
    case SCHED_ADAPTIVE:
        key = key_by_level(s, r);
        break;
    }
    key.ticket = ticket;
    return key;
}

bool sched_runs_before(const struct sched *s, const struct seq *a, const struct seq *b)
{
    if (has_levels(s) && a->request->priority != b->request->priority)
        return a->request->priority > b->request->priority;
    return a->ticket < b->ticket;
}

bool sched_is_above(const struct sched *s, const struct seq *a, const struct seq *b)
{
    return has_levels(s) && a->request->priority > b->request->priority;
}

bool sched_can_preempt(const struct sched *s, const struct seq *a, const struct seq *b)
{
    return sched_is_above(s, a, b) && order_key_before(&a->node.key, &b->node.key);
}

/* True: `low` has waited so long that it counts as having the priority of `high`. */
static bool has_caught_up(const struct sched *s, const struct seq *low, const struct seq *high)
{
    const struct request *r = low->request;
    const uint64_t waited = s->now_us > r->arrival_us ? s->now_us - r->arrival_us : 0;
    const uint64_t n_levels = (uint64_t)(high->request->priority - r->priority);

    return s->opt.aging_milli > 0 && waited >= worth_us(s, n_levels * 1000);
}

bool sched_is_due_before(const struct sched *s, const struct seq *a, const struct seq *b)
{
    const struct tenant *ta = &s->tenants[a->request->tenant];
    const struct tenant *tb = &s->tenants[b->request->tenant];

    if (ta == tb)
        return order_key_before(&a->node.key, &b->node.key);
    if (sched_is_above(s, a, b) && !has_caught_up(s, b, a))
        return true;
    if (sched_is_above(s, b, a) && !has_caught_up(s, a, b))
        return false;
    if (ta->service != tb->service)
        return ta->service < tb->service;
    if (ta->n_running != tb->n_running) /* new tenants start with equal service */
        return ta->n_running < tb->n_running;
    return order_key_before(&a->node.key, &b->node.key);
}

struct seq *sched_next_waiting(const struct sched *s)
{
    struct seq *best = NULL;

    for (uint32_t i = 0; i < s->n_tenants; i++) {
        struct seq *first = seq_at(order_first(&s->tenants[i].waiting));

        if (first != NULL && (best == NULL || sched_is_due_before(s, first, best)))
            best = first;
    }
    return best;
}
