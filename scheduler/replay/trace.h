/* scheduler/replay/trace.h - arrivals, prompts and generated tokens, collected from a replay as the
 * input of a simulation.
 *
 * A request that ended by itself generates the same tokens again. A request that timed out, or was
 * still running, is assumed to run to max_tokens. A cancelled request stops after the tokens it
 * had; if it had none, its client leaves at the same time.
 *
 * Thread: any, one at a time.
 * Memory: about 200 bytes a request; with `keep_tokens` prompts and answers too.
 */
#ifndef SCHEDULER_REPLAY_TRACE_H
#define SCHEDULER_REPLAY_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/replay/simulate.h"
#include "scheduler/request/request.h"

struct trace_entry;
struct trace_output;

struct trace { /* {0} with keep_tokens set is empty */
    bool keep_tokens;
    struct trace_entry *entries; /* hash table by id; n_slots a power of two */
    size_t n_slots;
    struct simulate_arrival *arrivals; /* [n] in the order of arrival */
    struct trace_output *outputs;      /* [n] */
    size_t n, cap;
};

void trace_release(struct trace *t);

bool trace_has(const struct trace *t, uint64_t id);
/* True: the request's prefix owner, if the trace has it, has the same prompt and salt, as the
 * scheduler requires. */
bool trace_follows_an_equal(const struct trace *t, const struct request *r);

/* Add a request that is not in the trace yet. ERR_NOMEM. */
int trace_add(struct trace *t, const struct request *r);
/* Note a token or the end of a request in the trace. ERR_NOMEM. */
int trace_add_token(struct trace *t, uint64_t id, int32_t token);
void trace_end(struct trace *t, uint64_t id, enum finish finish, uint64_t now_us);

/* Return the arrivals with their outputs, [t->n]; valid until the trace changes. */
const struct simulate_arrival *trace_arrivals(struct trace *t);

#endif
