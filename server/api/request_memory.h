/* server/api/request_memory.h - one budget for the memory of requests outside the KV cache: bodies
 * and their JSON, prompts, tokens, penalty counts, constraint states, and answers that are
 * unfinished or unread. Each request has a share, which is set before the memory is taken. A
 * request that does not fit beside the others is refused with 429, one that would never fit with
 * 413. A share may also grow without a check, for a request that has begun and cannot be refused
 * any more (the text of an answer): then new requests are refused until there is room. The sizes
 * are upper estimates of the memory that is touched, not reserved: pages of a request's arrays take
 * none before tokens come.
 *
 * Thread: the I/O thread's.
 * Memory: none.
 */
#ifndef SERVER_API_REQUEST_MEMORY_H
#define SERVER_API_REQUEST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_error;
struct api_request;
struct body_scan;
struct choice;
struct params;
struct prompt;

struct request_memory { /* bytes; the creator sets `max` */
    uint64_t max, used;
};

struct memory_share { /* zero holds nothing */
    struct request_memory *memory;
    uint64_t bytes;
};

/* Set the share to `bytes` of `m`. If that is more than before and does not fit, the share does not
 * change, and *e is a 429 (ERR_AGAIN) or 413 (ERR_LIMIT). */
int request_memory_set(struct request_memory *m, struct memory_share *s, uint64_t bytes,
                       struct api_error *e);
/* Grow the share by `bytes`, whether there is room or not; a share that was never set stays
 * empty. */
void request_memory_grow(struct memory_share *s, uint64_t bytes);
void request_memory_release(struct memory_share *s);

/* Count bytes that HTTP holds for calls; a negative number means fewer. False, only with
 * may_refuse: there is no room, and nothing was counted. */
bool request_memory_count(struct request_memory *m, int64_t bytes, bool may_refuse);

/* Bytes that a body takes while it is parsed: itself, its values, its strings. */
uint64_t request_memory_of_body(const struct body_scan *scan);
/* Bytes that a parsed request takes until its answer is complete, without the text that is
 * generated. */
uint64_t request_memory_of_parsed(const struct api_request *p);
/* Bytes of a prompt's vectors as text in an answer; 0: it has none. */
uint64_t request_memory_of_vectors(const struct params *p, const struct prompt *prompt);
/* Bytes of a choice's output that were not sent yet. */
uint64_t request_memory_of_choice(const struct choice *c);

#endif
