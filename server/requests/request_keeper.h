/* server/requests/request_keeper.h - requests that outlive the process: who has been begun, how far
 * its answer has come, who is not wanted any more; and what an earlier process has left.
 *
 * Records are handed to a thread that appends them to the log (request_log.h), all that wait
 * together. A request may begin once its first record has been written: no client knows of one
 * that a kill could lose. Tokens are written a few times a second, since those that were not are
 * computed again with the same bits; the disk has all after a second.
 *
 * While another process has the file, nothing is kept, and what that one leaves is not known; it is
 * looked for a few times a second.
 *
 * Thread: the loop's.
 * Memory: a struct for each kept request, and records that have not been written; what was left by
 * an earlier process, until it is taken up. The file is bounded by max_bytes.
 */
#ifndef SERVER_REQUESTS_REQUEST_KEEPER_H
#define SERVER_REQUESTS_REQUEST_KEEPER_H

#include <uv.h>

#include "core/base/list.h"
#include "server/requests/saved_requests.h"

struct kept_request;
struct request_keeper; /* NULL: no requests are kept */

struct request_keeper_options {
    uv_loop_t *loop;
    const char *path;
    uint64_t max_bytes; /* of the file; when it is full, new requests are not kept */
};

/* A negative ERR_*, with a sentence: the file cannot be used. */
int request_keeper_open(struct request_keeper **out, const struct request_keeper_options *options,
                        char *err, size_t err_len);
/* Make its thread. */
int request_keeper_start(struct request_keeper *k);
/* What the file has is in `saved`; called once, as soon as the file is there: it may be at once. */
void request_keeper_on_saved(struct request_keeper *k,
                             void (*saved)(void *ud, struct saved_requests *saved /* takes */),
                             void *ud);
/* All requests that run are put off: they stay in the file for the next process, which can have it
 * as soon as they are written. */
void request_keeper_put_off(struct request_keeper *k);
/* Everything is written, or cannot be. NULL is allowed, as in the next ones. */
bool request_keeper_is_idle(const struct request_keeper *k);
/* Give back the loop's handles; the loop must run once more. */
void request_keeper_stop(struct request_keeper *k);
void request_keeper_close(struct request_keeper **k);

/* Does it have the file? Before it is not known what an earlier process has left. */
bool request_keeper_is_open(const struct request_keeper *k);

/* ---- one request ---- */

struct kept_request_tokens {
    const int32_t *ids; /* [n] of the answer, from its beginning on */
    uint32_t n;
};

struct kept_request_runner { /* of a request that runs */
    /* The tokens that may be written; called now and then. */
    struct kept_request_tokens (*tokens)(void *ud);
    /* It is to end, without an end: the next process goes on with it. */
    void (*put_off)(void *ud);
    void *ud;
};

/* Its first record is on its way, and `written` is called later, exactly once: with whether it is
 * kept. NULL: it is not. */
struct kept_request *request_keeper_begin(struct request_keeper *k, const char *id,
                                          const struct request_begin *begin,
                                          void (*written)(void *ud, bool is_kept), void *ud);
/* One that the file has; NULL: no memory. */
struct kept_request *request_keeper_take_up(struct request_keeper *k,
                                            const struct saved_request *saved);
/* It runs. */
void kept_request_run(struct kept_request *r, const struct kept_request_runner *runner);
/* It runs no longer, and the runner is not asked any more. The answer has an end, or (`finish`
 * 0, FINISH_NONE) the next process goes on from its tokens. */
void kept_request_end(struct kept_request *r, uint32_t finish);
/* The same, but no next process goes on with it: its end was an error. */
void kept_request_give_up(struct kept_request *r);
/* Nobody wants it any more. Frees. */
void kept_request_drop(struct kept_request *r);
/* One that was taken up has not begun: it is as before. Frees. */
void kept_request_put_back(struct kept_request *r);
/* One of the file that was not taken up is not wanted any more. */
void request_keeper_forget(struct request_keeper *k, const struct saved_request *saved,
                           bool is_lost);

struct request_keeper_counts {
    uint32_t n;          /* kept, those of the file that were not taken up among them */
    uint64_t bytes;      /* of the file */
    uint64_t n_restored; /* taken up, ever */
    uint64_t n_lost;     /* that were there and could not be, ever */
    uint64_t n_unkept;   /* that should have been kept, ever */
};
struct request_keeper_counts request_keeper_counts(const struct request_keeper *k);

#endif
