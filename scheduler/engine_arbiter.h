/* scheduler/engine_arbiter.h - whose step is next, when several engines share one machine.
 *
 * Engines compute in turns, and a step has all the compute threads: two steps at once would only
 * take each other's caches and bandwidth. An engine that has work asks for a turn before it plans,
 * and ends it after the commit. Nobody waits in here: who has to wait is told when the turn comes,
 * and reads its inbox meanwhile.
 *
 * Between engines that all have work the time of their steps is shared out by weights: start-time
 * fair queueing (Goyal, Vin, Cheng, "Start-time Fair Queuing", 1996) with a step for a packet and
 * its duration for the length. The next turn is that of the least start tag; a tag grows by
 * duration / share. So an engine with long steps waits for many short ones of another. Whoever
 * comes back from having nothing to do begins at the present virtual time: idle time is not saved
 * up, and a turn comes after one step of each other engine then.
 *
 * Whoever ends a turn and wants another competes at once: the turn may be its own again before
 * it asks, and then it has to ask or to end it without waiting for other engines.
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
void engine_arbiter_destroy(struct engine_arbiter **t); /* nobody has or wants a turn */

/* Who has the place: granted(ud) is called on another engine's thread when the turn that was asked
 * for has come. Before the first turn. */
void engine_arbiter_join(struct engine_arbiter *t, uint32_t place, void (*granted)(void *ud),
                         void *ud);

/* With t NULL these do nothing: the engine is alone, has every turn and no rivals. */

/* Is it this place's turn? If not, it will be told; asking again is harmless. */
bool engine_arbiter_ask(struct engine_arbiter *t, uint32_t place);

/* How many others have work now. */
uint32_t engine_arbiter_n_rivals(struct engine_arbiter *t, uint32_t place);

/* A step of `us` microseconds is over. Without one (0) and without wanting more: whatever turn this
 * place has or was promised is somebody else's. */
void engine_arbiter_end(struct engine_arbiter *t, uint32_t place, uint64_t us, bool wants_more);

#endif
