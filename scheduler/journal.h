/* scheduler/journal.h - the calls of the scheduler and its answers, as lines to be written to a
 * file.
 *
 * The scheduler is pure: the same calls at the same times give the same plans. So `quire replay`
 * can repeat a run from the list of its calls. One line per call, in the order of the calls, each a
 * JSON object with its kind as first key:
 *
 *   {"start":1,"unix":..,"sched":{...},"kv":{...},"eog":[7]}     options; a new run begins
 *   {"post":9,"now":..,"arrival":..,"max_tokens":..,"prompt":[..],"pins":[[tokens,ttl]],...}
 *   {"cancel":9,"why":3,"now":..}   {"cancel_all":3,"now":..}
 *   {"plan":7,"now":..,"target":..,"costs":[known,a,b,c,d,e,swap,file,fetch,delay],
 *    "items":[[9,0,32,1]],"drafts":[[9,17,4]],"admitted":[9],"preempted":[],"swapped_out":[],
 *    "swapped_in":[],"moves":0}
 *   {"moves_done":1}   {"io_start":copy,"write":1,"n":8}   {"io_done":copy,"rc":0}
 *   {"commit":7,"now":..,"tokens":[..],"accepted":[1]}
 *   {"stored":9,"n":blocks}   {"fetch":9,"first":block,"n":blocks}
 *   {"fetched":9,"first":block,"n":blocks,"last":1}
 *   {"dropped":3}
 *
 * "unix" is the time, in microseconds since 1970, at which clock_us() was 0: with it the times of
 * several machines' journals can be compared. 0: unknown.
 *
 * An item is [request, first position, tokens, wants a token]; a commit has one token for each item
 * that wants one. Drafts are [request, guessed tokens], which count among the item's; a commit has
 * for each of these how many were right, and its token is the one after them; both are left out
 * where there are none; fetch and delay are left out of the costs where both are 0. Times are
 * clock_us().
 * Keys with the value 0, and empty lists of pins, are left out of posts; so are max_known, n_keep
 * and n_discard of requests whose context cannot be shifted.
 *
 * The engine appends, the I/O thread takes and writes, so the engine never waits for a disk. When
 * the ring is full whole lines are dropped and counted, and the next line that fits is preceded by
 * {"dropped":n}: the lines after it cannot be replayed, and the replay stops there with an error.
 *
 * {"dropped":n} also marks where blocks were copied past the scheduler (prefix_copy.h).
 *
 * The journal holds the token ids of prompts and answers: it is as confidential as the texts.
 *
 * Thread: journal_take() one other thread; the rest the engine thread.
 * Memory: taken in journal_create(): twice `bytes`.
 */
#ifndef SCHEDULER_JOURNAL_H
#define SCHEDULER_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/request/request.h"

#define JOURNAL_BYTES ((size_t)8 << 20) /* a prompt of a million tokens fits into one line */

struct kv_manager_options;
struct plan;
struct sched_fetch;
struct sched_limits;
struct sched_options;
struct swap_io;
struct journal;

int journal_create(struct journal **out, size_t bytes);
void journal_destroy(struct journal **j);

/* ---- engine thread: one call for each call of the scheduler; j may be NULL ---- */

/* Called after sched_create(), before any other line. */
void journal_start(struct journal *j, const struct sched_options *sched,
                   const struct kv_manager_options *kv, const int32_t *eog, size_t n_eog,
                   uint64_t unix_us);

/* Called before sched_add(), also if that refuses the request. Not for dry runs. */
void journal_post(struct journal *j, const struct request *r, uint64_t now_us);
void journal_cancel(struct journal *j, uint64_t id, enum finish why, uint64_t now_us);
void journal_cancel_all(struct journal *j, enum finish why, uint64_t now_us);

/* Called after every sched_plan(), also for plans without items. */
void journal_plan(struct journal *j, const struct plan *plan, uint64_t now_us,
                  const struct sched_limits *limits);
/* Called beside sched_moves_done(); for each sched_next_io() that returned true; beside
 * sched_io_done(). */
void journal_moves_done(struct journal *j);
void journal_io_start(struct journal *j, const struct swap_io *io);
void journal_io_done(struct journal *j, uint32_t copy, int rc);

/* Called beside sched_stored(); for each sched_next_fetch() that returned true; beside
 * sched_fetched(). */
void journal_stored(struct journal *j, uint64_t id, uint32_t n_blocks);
void journal_fetch(struct journal *j, const struct sched_fetch *fetch);
void journal_fetched(struct journal *j, uint64_t id, uint32_t first, uint32_t n, bool is_last);

/* Called before sched_commit(), with the same arguments. */
void journal_commit(struct journal *j, const struct plan *plan, const int32_t *tokens,
                    const uint32_t *n_accepted, uint64_t now_us);

/* Note that blocks were copied into the cache or out of it past the scheduler: counts as a dropped
 * line before the next one. */
void journal_gap(struct journal *j);

/* ---- the thread that writes the journal ---- */

/* Move up to n bytes out, in order; 0 when there is nothing. */
size_t journal_take(struct journal *j, char *out, size_t n);

/* Lines dropped since creation because the ring was full. */
uint64_t journal_n_dropped(struct journal *j);

#endif
