/* server/api/completion_rate.h - estimates how many requests end per second, for Retry-After.
 *
 * Each end counts 1 and fades with a time constant of COMPLETION_RATE_TAU_S, so the estimate
 * follows the load of about the last half minute. Time comes in as an argument.
 *
 * Thread: one owner.
 * Memory: none.
 */
#ifndef SERVER_API_COMPLETION_RATE_H
#define SERVER_API_COMPLETION_RATE_H

#include <stdint.h>

#define COMPLETION_RATE_TAU_S 15.0
/* Assumed wait while no request has ended lately. */
#define COMPLETION_RATE_GUESS_MS 1000u

struct completion_rate {
    uint64_t start_us, last_us; /* start 0: nothing measured yet */
    double weight;              /* count of ends, faded up to last_us */
};

void completion_rate_start(struct completion_rate *p, uint64_t now_us);
void completion_rate_end(struct completion_rate *p, uint64_t now_us); /* a request ended now */

/* Ends per second. */
double completion_rate_per_s(const struct completion_rate *p, uint64_t now_us);

/* Return the milliseconds until n more requests will have ended, within the two bounds. */
uint32_t completion_rate_wait_ms(const struct completion_rate *p, uint32_t n, uint64_t now_us);

#endif
