/* server/storage/request_record.h - the records of requests_db, as bytes of a file.
 *
 * A request has a number, which orders requests by their arrival and is never used again, and the
 * id of its answer. Each record holds both, and checksums of its head and of its payload: so the
 * request of a damaged payload is still known, and the next record is found after a damaged head. A
 * head contains zero bytes, which no JSON body has, and begins with four bytes that are not zero,
 * which no list of token ids has: so no client's data can be taken for a record.
 *
 * Thread: any.
 * Memory: records borrow the bytes that they were read from.
 */
#ifndef SERVER_STORAGE_REQUEST_RECORD_H
#define SERVER_STORAGE_REQUEST_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"

#define REQUEST_RECORD_ID 48 /* bytes of an id, with its NUL */

enum request_record_kind {
    REQUEST_BEGIN = 1, /* struct request_begin */
    REQUEST_TOKENS,    /* tokens of the answer: the index of the first one, then ids */
    REQUEST_END,       /* enum finish, and the number of the answer's tokens */
    REQUEST_GONE,      /* the request is not wanted any more */
};

struct request_record {
    enum request_record_kind kind;
    uint64_t number;
    char id[REQUEST_RECORD_ID];
    const char *payload; /* [n_payload] */
    uint32_t n_payload;
};

struct request_text { /* not terminated */
    const char *text;
    uint32_t n;
};

struct request_begin { /* everything, beside settings and weights, that the answer depends on */
    uint64_t seed;
    uint64_t origin_id;   /* id of the model, its settings, the prompt's ids and the adapter */
    int64_t created, now; /* Unix seconds: the answer's time, and the time that its chat template
                           * gets */
    uint32_t priority;    /* enum priority */
    uint32_t n_past;      /* number of tokens of `resume` in the body */
    bool tells_tokens;    /* X-Resume-Tokens */
    struct request_text tenant, key, path, conversation, body;
};

/* ---- writing ---- */

/* Append a record to `out`; out->err is set if there was no room. */
void request_record_begin(struct buf *out, uint64_t number, const char *id,
                          const struct request_begin *begin);
void request_record_tokens(struct buf *out, uint64_t number, const char *id, uint32_t from,
                           const int32_t *ids, uint32_t n);
void request_record_end(struct buf *out, uint64_t number, const char *id, uint32_t finish,
                        uint32_t n_tokens);
void request_record_gone(struct buf *out, uint64_t number, const char *id);

/* ---- reading: false when a payload is not of its kind ---- */

bool request_record_read_begin(const struct request_record *r, struct request_begin *out);
bool request_record_read_tokens(const struct request_record *r, uint32_t *from, uint32_t *n);
int32_t request_record_token(const struct request_record *r, uint32_t i);
bool request_record_read_end(const struct request_record *r, uint32_t *finish, uint32_t *n_tokens);

enum request_found {
    REQUEST_FOUND_NOTHING = 0, /* the end of the bytes */
    REQUEST_FOUND_RECORD,
    REQUEST_FOUND_HEAD,   /* its payload is damaged, or cut off; payload is NULL */
    REQUEST_FOUND_DAMAGE, /* bytes that are not a record */
};

struct request_scan { /* zero except data and n */
    const char *data;
    size_t n, at;
    size_t begin; /* start of the last result, which ends at `at` */
};

/* Find the next record or damage. */
enum request_found request_scan_next(struct request_scan *s, struct request_record *out);

#endif
