/* server/pace.h - how fast requests end: a moving estimate for Retry-After.
 *
 * Each end counts 1 and fades with a time constant of PACE_TAU_S, so the estimate follows the load
 * of about the last half minute. Time comes in as an argument.
 *
 * Thread: one owner.
 * Memory: none.
 */
#ifndef SERVER_PACE_H
#define SERVER_PACE_H

#include <stdint.h>

#define PACE_TAU_S 15.0
#define PACE_MAX_WAIT_MS 60000u /* nobody is told to wait longer: by then the estimate is stale */
#define PACE_MIN_WAIT_MS 50u

struct pace {
    uint64_t start_us, last_us; /* start 0: nothing measured yet */
    double weight;              /* faded count of ends at last_us */
};

void pace_start(struct pace *p, uint64_t now_us);
void pace_end(struct pace *p, uint64_t now_us); /* a request ended now */

/* Ends per second. */
double pace_rate(const struct pace *p, uint64_t now_us);

/* Milliseconds until n more requests will have ended, within the two bounds. */
uint32_t pace_wait_ms(const struct pace *p, uint32_t n, uint64_t now_us);

#endif
