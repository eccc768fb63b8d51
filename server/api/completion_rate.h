/* server/api/completion_rate.h - how fast requests end: a moving estimate for Retry-After.
 *
 * Each end counts 1 and fades with a time constant of TEMPO_TAU_S, so the estimate follows the load
 * of about the last half minute. Time comes in as an argument.
 *
 * Thread: one owner.
 * Memory: none.
 */
#ifndef SERVER_API_COMPLETION_RATE_H
#define SERVER_API_COMPLETION_RATE_H

#include <stdint.h>

#define TEMPO_TAU_S 15.0
#define TEMPO_MAX_WAIT_MS 60000u /* nobody is told to wait longer: by then the estimate is stale */
#define TEMPO_MIN_WAIT_MS 50u
#define TEMPO_GUESS_MS 1000u /* when nothing has ended lately: one who asks again learns more */

struct tempo {
    uint64_t start_us, last_us; /* start 0: nothing measured yet */
    double weight;              /* faded count of ends at last_us */
};

void tempo_start(struct tempo *p, uint64_t now_us);
void tempo_end(struct tempo *p, uint64_t now_us); /* a request ended now */

/* Ends per second. */
double tempo_rate(const struct tempo *p, uint64_t now_us);

/* Milliseconds until n more requests will have ended, within the two bounds. */
uint32_t tempo_wait_ms(const struct tempo *p, uint32_t n, uint64_t now_us);

#endif
