/* server/api/deadline.h - can it be done in time? Asked before a request with `deadline_ms` is
 * posted.
 *
 * The forecast is for all of max_tokens; for a chat that names no length, for its first token. How
 * much of a prompt is cached is known only to the engine: when that decides the matter, the verdict
 * is that it must be asked.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_API_DEADLINE_H
#define SERVER_API_DEADLINE_H

#include <stdint.h>

struct event_probe;
struct parse_job;

enum deadline_verdict {
    DEADLINE_FINE = 0, /* it can be met, or that is unknown */
    DEADLINE_UNCLEAR,  /* depends on what is cached */
    DEADLINE_HOPELESS,
};

struct deadline {
    enum deadline_verdict verdict;
    uint64_t predicted_ms; /* until the last token of the last prompt; HOPELESS only */
    uint64_t retry_ms;     /* until it could be met if no other request comes; 0: never */
};

/* `found` has an answer for each prompt, or is NULL when the engine was not asked: with it nothing
 * is unclear. */
struct deadline deadline_judge(const struct parse_job *in, const struct event_probe *found);

/* Answer 429, deadline_unreachable. */
void deadline_refuse(struct parse_job *in, const struct deadline *d);

#endif
