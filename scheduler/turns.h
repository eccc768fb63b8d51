/* scheduler/turns.h - whose step is next, when several engines share one machine.
 *
 * Engines compute in turns, and a step has all the compute threads: two steps at once would only
 * take each other's caches and bandwidth. An engine that has work takes a turn before it plans,
 * and ends it after the commit. Alone it never waits.
 *
 * Between engines that all have work the time of their steps is shared out by weights: start-time
 * fair queueing (Goyal, Vin, Cheng, "Start-time Fair Queuing", 1996) with a step for a packet and
 * its duration for the length. The next turn is that of the least start tag; a tag grows by
 * duration / share. Whoever had nothing to do begins at the present virtual time: idle time is not
 * saved up, and a turn comes after one step of each other engine at the latest when shares are
 * equal.
 *
 * Whoever ends a turn and wants another competes at once: the turn may be its own again before
 * it asks, and then it has to take it or leave it without waiting for anything else.
 *
 * Thread: each place belongs to one engine thread. One mutex, held for comparisons only; it is a
 * leaf, taken between steps.
 * Memory: taken in turns_create().
 */
#ifndef SCHEDULER_TURNS_H
#define SCHEDULER_TURNS_H

#include <stdbool.h>
#include <stdint.h>

struct turns;

/* n places with shares of 1 to 1000. */
int turns_create(struct turns **out, const uint32_t *shares, uint32_t n);
void turns_destroy(struct turns **t); /* nobody has or wants a turn */

/* With t NULL these do nothing: the engine is alone, and has no rivals. */

/* Wait for the turn of this place; true: there was a wait. */
bool turns_take(struct turns *t, uint32_t place);

/* How many others have work now. */
uint32_t turns_n_rivals(struct turns *t, uint32_t place);

/* The step of `us` microseconds is over. */
void turns_end(struct turns *t, uint32_t place, uint64_t us, bool wants_more);

/* There is nothing to do: whatever turn this place has or was promised is somebody else's. */
void turns_leave(struct turns *t, uint32_t place);

#endif
