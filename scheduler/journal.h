/* scheduler/journal.h - a bounded ring of lines, one per plan, on their way to a file.
 *
 * The engine appends, the I/O thread takes and writes, so the engine never waits for a disk. When
 * the ring is full whole lines are dropped and counted. A line is a JSON object:
 * {"step":7,"tokens":35,"admitted":[3],"preempted":[],"items":[[3,0,32,1],[1,40,1,1]]}, an
 * item being [request id, first position, tokens, wants a token].
 *
 * Thread: journal_plan() engine thread; journal_take() one other thread.
 * Memory: taken in journal_create().
 */
#ifndef SCHEDULER_JOURNAL_H
#define SCHEDULER_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

struct plan;
struct journal;

int journal_create(struct journal **out, size_t bytes);
void journal_destroy(struct journal **j);

void journal_plan(struct journal *j, const struct plan *plan);

/* Move up to n bytes out, in order; 0 when there is nothing. */
size_t journal_take(struct journal *j, char *out, size_t n);

/* Lines dropped for want of room since creation. */
uint64_t journal_n_dropped(struct journal *j);

#endif
