/* server/storage/saved_requests.h - collects the records of requests_db by request.
 *
 * Records come in the order of the file. Some records of a request may be missing: its tokens are
 * used up to the first gap (the others are computed again, with the same bits), and its end if it
 * belongs to these tokens. A request without its first record is lost.
 *
 * Thread: any, one at a time.
 * Memory: a copy of the records of all requests that are not gone.
 */
#ifndef SERVER_STORAGE_SAVED_REQUESTS_H
#define SERVER_STORAGE_SAVED_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/storage/request_record.h"

struct saved_request {
    uint64_t number;
    char id[REQUEST_RECORD_ID];
    bool has_begin, is_gone;
    bool is_damaged;            /* one of its records is damaged */
    struct request_begin begin; /* its texts are in `payload` */
    char *payload;
    int32_t *tokens; /* [n_tokens] from index begin.n_past on */
    uint32_t n_tokens, n_room;
    bool has_end;
    uint32_t finish, n_answer; /* the end: enum finish, and all tokens with those of n_past */
};

struct saved_requests {        /* zero is empty */
    struct saved_request *all; /* [n] by number, ascending */
    size_t n, n_room;
    uint64_t n_damaged; /* bytes that are not valid records */
};

/* Add all records in data[0..n). `damage` is called for each range that is not a valid record. 0,
 * or ERR_NOMEM. */
int saved_requests_read(struct saved_requests *s, const char *data, size_t n,
                        void (*damage)(void *ud, size_t offset, size_t n), void *ud);
void saved_requests_release(struct saved_requests *s);
void saved_request_release(struct saved_request *r);

/* True: the request can be continued. */
static inline bool saved_request_is_whole(const struct saved_request *r)
{
    return r->has_begin && !r->is_gone;
}
/* True: the request is lost, and that is to be reported. */
static inline bool saved_request_is_lost(const struct saved_request *r)
{
    return !r->has_begin && !r->is_gone;
}

/* Append the request's records, as few as possible. */
void saved_request_write(const struct saved_request *r, struct buf *out);

#endif
