/* server/http/access_log.h - the access log: one line for each HTTP exchange.
 *
 * An exchange has two sides that end in either order: the connection, which knows the status, the
 * bytes and when the last one was sent, and, for completions, the engine's work, which knows tokens
 * and times. Each side holds a reference to the record; the line is written when both have dropped
 * theirs.
 *
 * The times of a line add up to its duration: receive (head to the end of the body), queue,
 * prefill, decode, preempted (without a swapped copy), swapped (with one), delivery (from the
 * engine's end to the whole answer being ready to send), write-blocked (from there until the
 * client's socket had taken the answer).
 *
 * Thread: the loop's.
 * Memory: one small allocation for each exchange; names are borrowed where a comment says so.
 */
#ifndef SERVER_HTTP_ACCESS_LOG_H
#define SERVER_HTTP_ACCESS_LOG_H

#include <stdint.h>

struct access_work { /* the engine's side: the sums of all choices */
    const char *priority, *finish; /* static */
    const char *model; /* borrowed; NULL: there is only one model */
    uint32_t n_choices, n_preempted;
    uint64_t prompt_tokens, cached_tokens, completion_tokens;
    uint64_t arrival_us, first_us; /* times at which the body was complete and the first token came;
                                    * 0 = no token */
    /* times of the choice that ended last; swapped_us is a part of preempted_us */
    uint64_t queue_us, prefill_us, decode_us, preempted_us, swapped_us;
    uint64_t ready_us;                                      /* time at which the answer was
                                                             * complete */
};

struct access;

/* Begin the connection's side. NULL when there is no memory: then no line is written, and all other
 * functions do nothing. */
struct access *access_begin(const char *id, const char *method);
void access_set_key(struct access *a, const char *name); /* copies */
/* Called when the exchange is over: drops the connection's reference. `route` is static. */
void access_end(struct access *a, const char *route, int status, uint64_t bytes);

struct access *access_ref(struct access *a);
/* Drop the engine's reference. work: the work that was done; NULL: none. */
void access_work_end(struct access *a, const struct access_work *work);

#endif
