/* tests/tools/cluster/workload.h - the requests that a simulated cluster gets, in the order of
 * arrival: those of recorded runs, merged by time, or random ones drawn from them.
 *
 * Recorded: a speed other than 1 divides the times between two arrivals; time limits of requests
 * stay as they were.
 *
 * Drawn: n_requests arrive at random (Poisson) at a rate. Each copies a recorded request, drawn
 * with equal chances: its lengths, priority, tenant, salt and time limits. The leading tokens that
 * its prompt shares with another recorded prompt of its salt are kept; the rest of the prompt and
 * the answer are made up. So shared prefixes are as large a part of the traffic as they were, and
 * nothing else is shared. Parallel choices become requests of their own.
 *
 * Thread: the owner's. The same arrivals and options make the same workload.
 * Memory: 40 bytes a recorded request; drawn ones exist one at a time.
 */
#ifndef TESTS_TOOLS_CLUSTER_WORKLOAD_H
#define TESTS_TOOLS_CLUSTER_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct simulate_arrival;

struct workload_options {
    double speed;      /* > 0 */
    size_t n_requests; /* requests to draw; 0: replay the recorded ones */
    double rate;       /* drawn requests per second; 0: the recorded rate times the speed */
    uint64_t seed;
};

struct workload;

int workload_create(struct workload **out, const struct workload_options *options);
void workload_destroy(struct workload **w);

/* Add a recorded run's arrivals (borrowed); `offset_us` shifts its times to the clock of the other
 * runs. ERR_NOMEM. */
int workload_add(struct workload *w, const struct simulate_arrival *arrivals, size_t n,
                 uint64_t offset_us);
/* Start from the first arrival. Called after the last workload_add(), and again for each new run.
 * ERR_NOMEM. */
int workload_begin(struct workload *w);

/* The next arrival; its prefix_owner is 1 + the number of an earlier arrival of this workload.
 * False: there are no more. */
bool workload_next(struct workload *w, struct simulate_arrival *out);

size_t workload_n(const struct workload *w);
double workload_rate(const struct workload *w); /* requests per second, since workload_begin() */

#endif
