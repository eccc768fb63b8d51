/* scheduler/prefix_fetch.h - prompts whose beginning is looked up in the block store, and read from
 * it: what passes between the I/O thread, the store's reading thread and the engine thread.
 *
 *   I/O thread     prepare (tokens and hashes are copied), post the request, submit
 *   reader         probes how many leading blocks the store has           -> FETCH_FOUND
 *   engine thread  asks for some of them, or drops the request
 *   reader         reads them into one of two buffers, part by part       -> FETCH_PART
 *   engine thread  copies a part into the cache, and gives the buffer back
 *
 * An answer wakes the engine; each prompt has at most one that is not taken. The engine never waits
 * here: what it does not want any more it drops, also while the reader is at it. While the reader
 * has been at one thing for longer than wait_ms, or there are max_prompts, nothing new is taken in:
 * requests then go on without the store.
 *
 * One mutex, a leaf, held for pointers and numbers only. Counters of the store live here too,
 * because engine, reader, writer and metrics meet here.
 *
 * Thread: functions say whose they are.
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

enum store_count { /* of the block store, since the start */
    STORE_HIT_BLOCKS = 0, /* looked up and there */
    STORE_MISS_BLOCKS,    /* looked up, and not there */
    STORE_READ_BYTES,
    STORE_WRITTEN_BYTES,
    STORE_READ_US,
    STORE_WRITE_US,
    STORE_KNOWN_RECORDS,   /* were not written: they are there already */
    STORE_DROPPED_RECORDS, /* were not written: too many waited, or their blocks left the cache */
    STORE_READ_ERRORS,
    STORE_WRITE_ERRORS,
    STORE_BAD_RECORDS,     /* cut, damaged, of others, under a wrong name: removed */
    STORE_EVICTED_RECORDS, /* removed by this server for the byte budget */
    STORE_BYTES,           /* a gauge: of the folder, when it was last looked at */
    STORE_UP,              /* a gauge: 1: the store answers */
    STORE_N_COUNTS,
};

struct prefix_fetch_options {
    uint32_t record_blocks;
    size_t record_bytes; /* of the blocks of a record */
    uint32_t max_prompts;
    uint32_t wait_ms;
};

int prefix_fetch_create(struct prefix_fetch **out, const struct prefix_fetch_options *options);
void prefix_fetch_destroy(struct prefix_fetch **f);
/* The two buffers. */
size_t prefix_fetch_buffer_bytes(size_t record_bytes);
/* Whom an answer wakes; before anything is submitted. */
void prefix_fetch_attach(struct prefix_fetch *f, struct queue *q);

/* ---- I/O thread ---- */

/* Is the request's prompt worth looking up? Then what is needed for that is copied, and
 * r->asks_store set. Before it is posted; it has its id. Appended to *list; not for dry runs. */
void prefix_fetch_prepare(struct prefix_fetch *f, struct request *r, struct fetch_prompt **list);
/* After it was posted: the reader begins. *list is NULL then. */
void prefix_fetch_submit(struct prefix_fetch *f, struct fetch_prompt **list /* takes */);

/* ---- the reader ---- */

struct fetch_work { /* valid until it is done */
    struct fetch_prompt *prompt;
    bool is_probe;   /* how many of its records are there, from the first? */
    uint32_t first, n; /* records */
    uint8_t *buffer; /* of a read: for n records' blocks */
};

/* The next thing to do; waits most_ms for one. */
bool prefix_fetch_take_work(struct prefix_fetch *f, struct fetch_work *out, uint32_t most_ms);
/* Record i of the prompt. */
struct kv_record_key prefix_fetch_key(const struct prefix_fetch *f, const struct fetch_prompt *p,
                                      uint32_t i);
/* It is done: n records are there, or have been read (fewer than work->n: there will be no more);
 * it took us. */
void prefix_fetch_work_done(struct prefix_fetch *f, const struct fetch_work *work, uint32_t n,
                            uint64_t us);

/* ---- engine thread ---- */

enum fetch_answer_kind { FETCH_FOUND = 0, FETCH_PART };

struct fetch_answer {
    enum fetch_answer_kind kind;
    uint64_t request;
    uint32_t first, n; /* blocks; FOUND: the first n are there */
    bool is_last;      /* PART: there are no more; the prompt is forgotten here */
    const uint8_t *bytes; /* PART: [n] blocks, until prefix_fetch_give() */
    uint64_t us;
};

bool prefix_fetch_take_answer(struct prefix_fetch *f, struct fetch_answer *out);
/* Read blocks first .. first + n - 1, whole records, of a request that was FOUND. */
void prefix_fetch_ask(struct prefix_fetch *f, uint64_t request, uint32_t first, uint32_t n);
/* A part has been copied; the reader goes on with the next one. */
void prefix_fetch_give(struct prefix_fetch *f, const struct fetch_answer *part);
/* Nothing more is wanted for a request. Unknown: ignored. */
void prefix_fetch_drop(struct prefix_fetch *f, uint64_t request);

/* ---- any thread ---- */

void prefix_fetch_wake(struct prefix_fetch *f); /* the reader, from prefix_fetch_take_work() */
void prefix_fetch_add(struct prefix_fetch *f, enum store_count what, uint64_t n);
void prefix_fetch_set(struct prefix_fetch *f, enum store_count what, uint64_t value);
uint64_t prefix_fetch_count(const struct prefix_fetch *f, enum store_count what);
uint32_t prefix_fetch_n_prompts(struct prefix_fetch *f);

#endif
