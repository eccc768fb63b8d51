/* core/base/log_ring.h - a queue of log lines, from any thread to the thread that writes them.
 *
 * A bounded queue with many producers and one consumer (D. Vyukov's bounded queue with a sequence
 * number in each slot). A producer never waits: not for the disk, not for the consumer, and not for
 * another producer that was descheduled between taking its slot and filling it; a full ring refuses
 * the line. Lines come out in the order in which their slots were taken.
 *
 * Thread: log_ring_put() any, also in a signal handler; log_ring_take() one thread.
 * Memory: allocated once, n_slots * (LOG_LINE_MAX + 16) bytes; put and take allocate nothing.
 */
#ifndef CORE_BASE_LOG_RING_H
#define CORE_BASE_LOG_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log_ring;

/* Create a ring; n_slots is a power of two. ERR_NOMEM. */
int log_ring_create(struct log_ring **out, uint32_t n_slots);
void log_ring_destroy(struct log_ring **ring);

/* Copy a line of at most LOG_LINE_MAX bytes. False: the ring is full, the line is not in it. */
bool log_ring_put(struct log_ring *ring, const char *line, size_t n);

/* Return the number of lines put so far; any thread. */
uint64_t log_ring_n_put(const struct log_ring *ring);

/* Take the oldest line into `line` (LOG_LINE_MAX bytes). Returns its length; 0: no line is
 * complete. */
size_t log_ring_take(struct log_ring *ring, char *line);

#endif
