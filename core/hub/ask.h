/* core/hub/ask.h - sends requests to the Hub, repeats them where that helps, and writes refusals as
 * sentences.
 *
 * A cut or a failing server (408, 5xx) is tried again a few times, later each time; 429 waits for
 * as long as the Hub says. Other refusals are sentences that say what to do: which terms to accept,
 * which token to set.
 *
 * Thread: one owner.
 * Memory: the caller's buffer.
 * Errors: ERR_IO: the Hub cannot be reached, or fails; ERR_INVAL: it refuses; ERR_NOENT: there is
 * no such repository, revision or file; ERR_CANCELED; ERR_LIMIT: the answer is too long.
 */
#ifndef CORE_HUB_ASK_H
#define CORE_HUB_ASK_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct hub_answer;
struct hub_place;
struct hub_reference;
struct hub_transfer;

struct hub_asker {
    struct hub_transfer *transfer;
    const struct hub_place *place;
    const struct hub_reference *reference;
};

/* Send a GET and store the answer in `body`; body NULL: send a HEAD, whose answer may be a redirect
 * to another host. 0: the status is not an error. */
int hub_ask(const struct hub_asker *k, const char *url, struct buf *body, struct hub_answer *a,
            char *err, size_t err_len);

/* Write the sentence for a status that is an error; `what` names the thing that was requested.
 * Returns ERR_*. */
int hub_refused(const struct hub_asker *k, const struct hub_answer *a, const char *what, char *err,
                size_t err_len);

/* True: a request with this status may succeed if it is repeated. */
bool hub_status_passes(long status);

/* Return the wait in ms before the next try, after n_failed failed ones (1, 2, ...): the time that
 * the Hub asked for, else longer each time. UINT64_MAX: give up. */
unsigned long hub_wait_ms(const struct hub_answer *a, unsigned n_failed);

#endif
