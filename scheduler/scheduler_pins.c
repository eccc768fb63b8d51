/* scheduler/scheduler_pins.c - pins the prefixes that a request asks to keep; see scheduler.h.
 *
 * A prefix is pinned once, by the first commit after which all of it is in the prefix index, in
 * whole blocks: the block in which it ends has tokens that other requests with the same prefix have
 * not, so a pin of it would be another one for each of them. A context shift comes after the whole
 * prompt is computed, so ids[] still has the prompt's tokens at their places.
 */
#include "scheduler/scheduler_impl.h"

/* Return the tokens of the pin's whole blocks. */
static uint32_t pinnable_tokens(const struct request_pin *pin)
{
    return pin->n_tokens / BLOCK_TOKENS * BLOCK_TOKENS;
}

void sched_pin_prefixes(struct sched *s, struct seq *seq, uint64_t now_us)
{
    struct request *r = seq->request;

    if (seq->n_discarded > 0)
        return;
    for (; seq->n_pins < r->n_pins; seq->n_pins++) {
        const struct request_pin *pin = &r->pins[seq->n_pins];
        const uint32_t n = pinnable_tokens(pin);

        if (seq->n_done < n)
            return;
        seq->pins.n_tokens[seq->n_pins] =
            kv_manager_pin(s->kv, &r->key, n, r->tenant, now_us + pin->ttl_us);
    }
}
