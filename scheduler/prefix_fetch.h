/* scheduler/prefix_fetch.h - passes prompts whose beginning may be in the block store between the
 * I/O thread, the store's reader thread and the engine thread.
 *
 *   I/O thread     prepare (tokens and hashes are copied), post the request, submit
 *   reader         probes how many leading blocks the store has           -> FETCH_FOUND
 *   engine thread  asks for some of them, or drops the request
 *   reader         reads them into one of two buffers, part by part       -> FETCH_PART
 *   engine thread  copies a part into the cache, and gives the buffer back
 *
 * An answer wakes the engine; each prompt has at most one answer that the engine has not taken. The
 * engine never waits here: it can drop a prompt even while the reader works on it. While the reader
 * has worked on one thing for longer than wait_ms, or there are max_prompts, no prompt is taken in:
 * new requests continue without the store.
 *
 * One mutex, a leaf, held for pointers and numbers only. Counters of the store live here too,
 * because engine, reader, writer and metrics all have access to it.
 *
 * Thread: the headings below say which thread may call a function.
 * Memory: two buffers, taken in prefix_fetch_create(); 80 bytes for 16 tokens of each prompt while
 *         it is looked up.
 */
#ifndef SCHEDULER_PREFIX_FETCH_H
#define SCHEDULER_PREFIX_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvcache/kv_record.h"

struct prefix_fetch;
struct fetch_prompt;
struct queue;
struct request;

enum store_count { /* counters of the block store, since the start */
    STORE_HIT_BLOCKS = 0, /* blocks looked up and found */
    STORE_MISS_BLOCKS,    /* blocks looked up and not found */
    STORE_READ_BYTES,
    STORE_WRITTEN_BYTES,
    STORE_READ_US,
    STORE_WRITE_US,
    STORE_KNOWN_RECORDS,   /* records not written: the store has them already */
    STORE_DROPPED_RECORDS, /* records not written: too many waited, or blocks left the cache */
    STORE_READ_ERRORS,
    STORE_WRITE_ERRORS,
    STORE_BAD_RECORDS,     /* records cut, damaged, of another model or misnamed: removed */
    STORE_EVICTED_RECORDS, /* records that this server removed to keep the byte budget */
    STORE_BYTES,           /* a gauge: bytes of the folder when it was last scanned */
    STORE_UP,              /* a gauge: 1 while the store answers */
    STORE_N_COUNTS,
};

struct prefix_fetch_options {
    uint32_t record_blocks;
    size_t record_bytes; /* bytes of a record's blocks */
    uint32_t max_prompts;
    uint32_t wait_ms;
};

int prefix_fetch_create(struct prefix_fetch **out, const struct prefix_fetch_options *options);
void prefix_fetch_destroy(struct prefix_fetch **f);
/* Bytes of the two buffers for records of record_bytes. */
size_t prefix_fetch_buffer_bytes(size_t record_bytes);
/* Set the queue whose engine an answer wakes; called before anything is submitted. */
void prefix_fetch_attach(struct prefix_fetch *f, struct queue *q);

/* ---- I/O thread ---- */

/* If the request's prompt is worth looking up, append a copy of its ids and hashes to *list and set
 * r->asks_store. Called after the request got its id and before it is posted; not for dry runs. */
void prefix_fetch_prepare(struct prefix_fetch *f, struct request *r, struct fetch_prompt **list);
/* Hand the prepared prompts to the reader, after their requests were posted. *list is NULL then. */
void prefix_fetch_submit(struct prefix_fetch *f, struct fetch_prompt **list /* takes */);

/* ---- the reader ---- */

struct fetch_work { /* valid until prefix_fetch_work_done() */
    struct fetch_prompt *prompt;
    bool is_probe;   /* true: count the leading records of the prompt that the store has; false:
                      * read records */
    uint32_t first, n; /* records */
    uint8_t *buffer; /* of a read: gets the blocks of n records */
};

/* Take the next piece of work, waiting for at most most_ms. False: there is none. */
bool prefix_fetch_take_work(struct prefix_fetch *f, struct fetch_work *out, uint32_t most_ms);
/* Return the key of the prompt's record number i. */
struct kv_record_key prefix_fetch_key(const struct prefix_fetch *f, const struct fetch_prompt *p,
                                      uint32_t i);
/* Report that work is done, after `us`: n records are in the store (probe), or were read. Fewer
 * than work->n: no more will be read. */
void prefix_fetch_work_done(struct prefix_fetch *f, const struct fetch_work *work, uint32_t n,
                            uint64_t us);

/* ---- engine thread ---- */

enum fetch_answer_kind { FETCH_FOUND = 0, FETCH_PART };

struct fetch_answer {
    enum fetch_answer_kind kind;
    uint64_t request;
    uint32_t first, n; /* FOUND: the store has the first n blocks; PART: blocks first .. first + n -
                        * 1 */
    bool is_last;      /* PART: the last part; the prompt is forgotten here */
    const uint8_t *bytes; /* PART: [n] blocks, until prefix_fetch_give() */
    uint64_t us;
};

bool prefix_fetch_take_answer(struct prefix_fetch *f, struct fetch_answer *out);
/* Ask for blocks first .. first + n - 1, whole records, of a prompt that was FOUND. */
void prefix_fetch_ask(struct prefix_fetch *f, uint64_t request, uint32_t first, uint32_t n);
/* Give the buffer of a copied part back; the reader continues with the next part. */
void prefix_fetch_give(struct prefix_fetch *f, const struct fetch_answer *part);
/* Drop a request's prompt. An unknown id is ignored. */
void prefix_fetch_drop(struct prefix_fetch *f, uint64_t request);

/* ---- any thread ---- */

void prefix_fetch_wake(struct prefix_fetch *f); /* wakes the reader from prefix_fetch_take_work() */
void prefix_fetch_add(struct prefix_fetch *f, enum store_count what, uint64_t n);
void prefix_fetch_set(struct prefix_fetch *f, enum store_count what, uint64_t value);
uint64_t prefix_fetch_count(const struct prefix_fetch *f, enum store_count what);
uint32_t prefix_fetch_n_prompts(struct prefix_fetch *f);

#endif
