/* scheduler/engine_arbiter.h - which engine may run its next step, when several engines (one a
 * model) share one machine.
 *
 * One step runs at a time, on all compute threads: two at once would compete for CPU caches and
 * memory bandwidth. An engine with work asks before it plans a step, and calls end after the
 * commit. No call blocks: an engine that was refused is woken by `granted` when its turn comes, and
 * reads its inbox meanwhile.
 *
 * Between engines that all have work, step time is divided by weights: start-time fair queueing
 * (Goyal, Vin, Cheng, "Start-time Fair Queuing", 1996) with a step for a packet and its duration
 * for the length. The engine with the least start tag is next; its tag grows by duration / share.
 * An engine that was idle starts again at the present virtual time: idle time is not saved up, and
 * it waits for at most one step of each other engine.
 *
 * An engine that ends its turn with wants_more competes at once and may be granted the next turn
 * before it asks. It then has to ask for it, or end it, without waiting for other engines.
 *
 * Thread: the calls for an engine come from its engine thread. One mutex, taken between steps and
 *         held for comparisons and the call of `granted`, which takes no lock that is held around
 *         these calls.
 * Memory: taken in engine_arbiter_create().
 */
#ifndef SCHEDULER_ENGINE_ARBITER_H
#define SCHEDULER_ENGINE_ARBITER_H

#include <stdbool.h>
#include <stdint.h>

struct engine_arbiter;

/* Create an arbiter for n engines with shares of 1 to 1000. */
int engine_arbiter_create(struct engine_arbiter **out, const uint32_t *shares, uint32_t n);
/* Set an engine's share from now on. Any thread. */
void engine_arbiter_set_share(struct engine_arbiter *t, uint32_t engine, uint32_t share);
void engine_arbiter_destroy(struct engine_arbiter **t); /* no engine may have or want a turn */

/* Set the engine's callback, before its first turn: granted(ud) is called on another engine's
 * thread when the turn that was asked for has come. */
void engine_arbiter_join(struct engine_arbiter *t, uint32_t engine, void (*granted)(void *ud),
                         void *ud);

/* With t NULL these calls do nothing: the engine is alone: it has every turn and no rivals. */

/* Ask for the turn. True: the engine has it. False: `granted` is called when it has it; asking
 * again is harmless. */
bool engine_arbiter_ask(struct engine_arbiter *t, uint32_t engine);

/* Count the other engines that have work now. */
uint32_t engine_arbiter_n_rivals(struct engine_arbiter *t, uint32_t engine);

/* End a step of `us` microseconds. With us 0 and wants_more false the engine gives up the turn that
 * it has or was granted. */
void engine_arbiter_end(struct engine_arbiter *t, uint32_t engine, uint64_t us, bool wants_more);

#endif
