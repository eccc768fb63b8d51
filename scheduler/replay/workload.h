/* scheduler/replay/workload.h - the requests that a simulated cluster gets, in the order of their
 * coming: those of recorded runs, merged by time, or new ones that are like them.
 *
 * Recorded: a speed other than 1 divides the times between two arrivals; how long each may take
 * stays as it was.
 *
 * Drawn: n_requests come at random (Poisson) at a rate. Each is like one of the recorded ones,
 * drawn with equal chances: its lengths, priority, tenant, salt and patience. What that one's
 * prompt has in common with another recorded prompt of its salt at the beginning stays, the rest of
 * the prompt and the answer are new. So a shared beginning is as large a part of the traffic as it
 * was, and what nobody shared nobody shares. Choices of one call come as requests of their own.
 *
 * Thread: the owner's. The same arrivals and options make the same workload.
 * Memory: 40 bytes a recorded request; drawn ones exist one at a time.
 */
#ifndef SCHEDULER_REPLAY_WORKLOAD_H
#define SCHEDULER_REPLAY_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct simulate_arrival;

struct workload_options {
    double speed;      /* > 0 */
    size_t n_requests; /* drawn; 0: the recorded ones */
    double rate;       /* of the drawn, per second; 0: that of the recorded, times the speed */
    uint64_t seed;
};

struct workload;

int workload_create(struct workload **out, const struct workload_options *options);
void workload_destroy(struct workload **w);

/* Add a recorded run's arrivals (borrowed); `offset_us` takes its times to those of the other
 * runs. ERR_NOMEM. */
int workload_add(struct workload *w, const struct simulate_arrival *arrivals, size_t n,
                 uint64_t offset_us);
/* After the last one, and whenever it is to begin again. ERR_NOMEM. */
int workload_begin(struct workload *w);

/* The next arrival; a prefix_owner is the number of an earlier one here, plus 1. False: there are
 * no more. */
bool workload_next(struct workload *w, struct simulate_arrival *out);

size_t workload_n(const struct workload *w);
double workload_rate(const struct workload *w); /* requests per second, since workload_begin() */

#endif
