/* core/base/clock.h - the monotonic clock in several units, and the current time.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_BASE_CLOCK_H
#define CORE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_us(void)
{
    return clock_ns() / 1000u;
}

static inline uint64_t clock_ms(void)
{
    return clock_us() / 1000u;
}

/* Seconds since 1970, for texts. */
static inline double clock_unix_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Microseconds as milliseconds, for texts. */
static inline double ms_of(uint64_t us)
{
    return (double)us / 1e3;
}

#endif
