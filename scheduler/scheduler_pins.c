/* scheduler/scheduler_pins.c - pins the prefixes that a request asks to keep; see scheduler.h.
 *
 * A prefix is pinned once, by the first commit after which all of it is in the prefix index. The
 * block in which it ends is pinned whole, so that its first tokens can be copied, unless the prompt
 * ends before that block is full. A context shift comes after
 * the whole prompt is computed, so ids[] still has the prompt's tokens at their places.
 */
#include "scheduler/scheduler_impl.h"

/* The number of computed tokens from which on the pin can be made. */
static uint32_t pinnable_from(const struct request *r, const struct request_pin *pin)
{
    return sched_min(block_table_needed(pin->n_tokens) * BLOCK_TOKENS, r->n_prompt);
}

void sched_pin_prefixes(struct sched *s, struct seq *seq, uint64_t now_us)
{
    struct request *r = seq->request;

    if (seq->n_discarded > 0)
        return;
    for (; seq->n_pins < r->n_pins; seq->n_pins++) {
        const struct request_pin *pin = &r->pins[seq->n_pins];
        const uint32_t n = pinnable_from(r, pin);

        if (seq->n_done < n)
            return;
        seq->pins.n_tokens[seq->n_pins] = sched_min(
            kv_manager_pin(s->kv, &r->key, n, r->tenant, now_us + pin->ttl_us), pin->n_tokens);
    }
}
