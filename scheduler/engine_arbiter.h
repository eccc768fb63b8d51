/* scheduler/engine_arbiter.h - whose step is next, when several engines share one machine.
 *
 * Engines compute in turns, and a step has all the compute threads: two steps at once would only
 * take each other's caches and bandwidth. An engine that has work asks for a turn before it plans,
 * and ends it after the commit. No call blocks: an engine that has to wait is woken when its turn
 * comes, and reads its inbox meanwhile.
 *
 * Between engines that all have work the time of their steps is shared out by weights: start-time
 * fair queueing (Goyal, Vin, Cheng, "Start-time Fair Queuing", 1996) with a step for a packet and
 * its duration for the length. The next turn is that of the least start tag; a tag grows by
 * duration / share. So an engine with long steps waits for many short ones of another. An
 * engine that was idle starts again at the present virtual time: idle time is not saved up, and its
 * turn comes after at most one step of each other engine.
 *
 * An engine that ends its turn with wants_more competes at once: the turn may be its own again
 * before it asks; then it has to ask for it, or end it, without waiting for other engines.
 *
 * Thread: each place belongs to one engine thread. One mutex, taken between steps and held for
 * comparisons and the call of `granted`, which takes no lock that is held while turns are called.
 * Memory: taken in engine_arbiter_create().
 */
#ifndef SCHEDULER_ENGINE_ARBITER_H
#define SCHEDULER_ENGINE_ARBITER_H

#include <stdbool.h>
#include <stdint.h>

struct engine_arbiter;

/* n places with shares of 1 to 1000. */
int engine_arbiter_create(struct engine_arbiter **out, const uint32_t *shares, uint32_t n);
void engine_arbiter_destroy(struct engine_arbiter **t); /* no engine has or wants a turn */

/* Set the engine's callback, before its first turn: granted(ud) is called on another engine's
 * thread when the turn that was asked for has come. */
void engine_arbiter_join(struct engine_arbiter *t, uint32_t place, void (*granted)(void *ud),
                         void *ud);

/* With t NULL these do nothing: the engine is alone, has every turn and no rivals. */

/* Is it this place's turn? If not, it will be told; asking again is harmless. */
bool engine_arbiter_ask(struct engine_arbiter *t, uint32_t place);

/* How many others have work now. */
uint32_t engine_arbiter_n_rivals(struct engine_arbiter *t, uint32_t place);

/* A step of `us` microseconds is over. Without one (0) and without wanting more: the turn that this
 * engine has, or was granted, goes to another one. */
void engine_arbiter_end(struct engine_arbiter *t, uint32_t place, uint64_t us, bool wants_more);

#endif
