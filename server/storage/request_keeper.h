/* server/storage/request_keeper.h - requests that outlive the process: records their beginnings,
 * tokens and ends in a file, and returns those of an earlier process.
 *
 * Records are passed to the storage thread, which appends all waiting ones at once to the log
 * (request_log.h).
 * A request begins only after its first record was written, so that a kill loses no request that a
 * client knows. Tokens are written a few times a second: those that were not are computed again,
 * with the same bits. The file is synced within a second.
 *
 * While another process holds the file, no request is kept, and that process's requests are not
 * known; the file is tried again a few times a second.
 *
 * Thread: the loop's.
 * Memory: a struct for each kept request, and records that have not been written; requests of an
 *         earlier process, until they are continued. The file is bounded by max_bytes.
 */
#ifndef SERVER_STORAGE_REQUEST_KEEPER_H
#define SERVER_STORAGE_REQUEST_KEEPER_H

#include <uv.h>

#include "core/base/list.h"
#include "server/storage/saved_requests.h"

struct kept_request;
struct request_keeper; /* NULL: no requests are kept */
struct worker_pool;

struct request_keeper_options {
    uv_loop_t *loop;
    struct worker_pool *storage; /* the storage thread, which appends the records */
    const char *path;
    uint64_t max_bytes; /* most bytes of the file; when it is full, new requests are not kept */
};

/* Open the keeper. A negative ERR_*, with a sentence: the file cannot be used. */
int request_keeper_open(struct request_keeper **out, const struct request_keeper_options *options,
                        char *err, size_t err_len);
/* Wait for the file if another process has it; called when the loop will run. */
void request_keeper_start(struct request_keeper *k);
/* Call `saved` once with the requests of the file, when the file is open: perhaps immediately. */
void request_keeper_on_saved(struct request_keeper *k,
                             void (*saved)(void *ud, struct saved_requests *saved /* takes */),
                             void *ud);
/* Put off all running requests: the next process continues them. It can open the file when their
 * records were written. */
void request_keeper_put_off(struct request_keeper *k);
/* True: all records are written, or cannot be. k may be NULL, also below. */
bool request_keeper_is_idle(const struct request_keeper *k);
/* Close the loop's handles; the loop must run once more. */
void request_keeper_stop(struct request_keeper *k);
void request_keeper_close(struct request_keeper **k);

/* True: the keeper has the file. Before, the requests of an earlier process are not known. */
bool request_keeper_is_open(const struct request_keeper *k);

/* ---- one request ---- */

struct kept_request_tokens {
    const int32_t *ids; /* [n] ids of the answer, from its first token on */
    uint32_t n;
};

struct kept_request_runner { /* callbacks of a running request */
    /* Return the tokens that may be written; called a few times a second. */
    struct kept_request_tokens (*tokens)(void *ud);
    /* Stop the request without an end: the next process continues it. */
    void (*put_off)(void *ud);
    void *ud;
};

/* Append the first record. `written` is called later, exactly once: true: the request is kept.
 * NULL: it is not kept, and `written` is not called. */
struct kept_request *request_keeper_begin(struct request_keeper *k, const char *id,
                                          const struct request_begin *begin,
                                          void (*written)(void *ud, bool is_kept), void *ud);
/* Continue a request of the file; NULL: no memory. */
struct kept_request *request_keeper_take_up(struct request_keeper *k,
                                            const struct saved_request *saved);
/* Called when the request begins to run. */
void kept_request_run(struct kept_request *r, const struct kept_request_runner *runner);
/* Called when the request has stopped running; the runner is not called any more. The answer has
 * ended, or, with `finish` 0 (FINISH_NONE), the next process continues from its tokens. */
void kept_request_end(struct kept_request *r, uint32_t finish);
/* Called when the request has failed: no process continues it. */
void kept_request_give_up(struct kept_request *r);
/* Record that no client wants the request any more, and free it. */
void kept_request_drop(struct kept_request *r);
/* Free a request of request_keeper_take_up() that has not begun: it stays in the file as before. */
void kept_request_put_back(struct kept_request *r);
/* Record that a request of the file that was not taken up is not wanted any more. */
void request_keeper_forget(struct request_keeper *k, const struct saved_request *saved,
                           bool is_lost);

struct request_keeper_counts {
    uint32_t n;          /* kept requests, with those of the file that were not taken up */
    uint64_t bytes;      /* bytes of the file */
    uint64_t n_restored; /* requests taken up since the start */
    uint64_t n_lost;     /* requests of the file that were lost, since the start */
    uint64_t n_unkept;   /* requests that should have been kept and were not, since the start */
};
struct request_keeper_counts request_keeper_counts(const struct request_keeper *k);

#endif
