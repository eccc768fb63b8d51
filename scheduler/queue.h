/* scheduler/queue.h - carries everything that passes between the I/O thread and the engine thread.
 *
 * In: requests, cancellations, ends of thoughts, stop, ends of transfers. Out: events, transfers
 * between the swap tiers, and a copy of the engine's statistics. All are bounded rings under one
 * mutex that is held for copying only. The two threads share nothing else.
 *
 * A request is outstanding from a successful post until its EVENT_END has been taken; at most
 * `max_outstanding` are. Every posted request yields exactly one EVENT_END (P2).
 *
 * Thread: the headings below say which thread may call a function. Lock order: the one mutex is a
 * leaf.
 * Memory: everything is taken in queue_create().
 */
#ifndef SCHEDULER_QUEUE_H
#define SCHEDULER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/hist.h"
#include "scheduler/drafts/drafter.h"
#include "scheduler/request/request.h"
#include "scheduler/snapshot.h"
#include "scheduler/usage.h"

enum event_kind {
    EVENT_TOKEN = 0, /* one generated token, in order */
    EVENT_SCORE,     /* log-probability of prompt token `pos` (score_prompt), in order */
    EVENT_PROGRESS,  /* the rows rank .. pos-1 of the prompt are computed (reports_progress); before
                      * the first step none: the rows before pos were cached */
    EVENT_END,       /* the last event of its request; no token */
};

struct event_times { /* microseconds; queue + prefill + decode + preempted = end - arrival */
    uint64_t queue_us;     /* from arrival to the first step */
    uint64_t prefill_us;   /* from the first step to the first token */
    uint64_t decode_us;    /* from the first token to the end, without preempted_us */
    uint64_t preempted_us; /* waiting after preemptions, until admitted again */
    uint64_t swapped_us;   /* part of preempted_us with a copy in a swap tier */
    uint32_t n_preempted;
    uint32_t n_cached;     /* prompt tokens that came from the prefix cache */
    uint32_t n_drafted, n_accepted; /* drafts computed, and drafts that were right */
};

struct event_pins { /* what became of the request's pins */
    uint32_t n_tokens[REQUEST_MAX_PINS]; /* tokens that pin i has pinned, 0 to its n_tokens */
};

struct event_probe { /* the answer to a dry run (FINISH_DRY_RUN) */
    uint32_t n_cached; /* prompt tokens that are in the prefix cache now */
    uint64_t n_blocks; /* most blocks that the request would hold at a time */
    uint32_t n_ahead;  /* waiting requests that would be admitted before it */
};

struct event {
    uint64_t request;
    enum event_kind kind;
    enum finish finish;  /* EVENT_END only */
    int32_t token;       /* TOKEN, SCORE: the token; an end-of-generation token is reported too */
    uint32_t pos;        /* TOKEN: index among the generated ones; SCORE: index in the prompt */
    bool is_eog;         /* TOKEN: it ends the generation and has no text */
    bool is_complete;    /* TOKEN: the request's constraint lets nothing follow */
    bool is_followed;    /* TOKEN: another token of the same step follows */
    uint32_t n_predicted; /* TOKEN: tokens of the request's prediction that came true so far */
    float logprob;       /* when sampling.n_top >= 0 */
    uint32_t rank;       /* SCORE: 1 = no token was likelier */
    uint32_t n_top;
    union {
        struct top_logprob top[SAMPLING_MAX_TOP]; /* TOKEN, SCORE */
        struct {                                  /* END */
            struct event_times times;
            struct usage usage;
            struct event_pins pins;
        };
        struct event_probe probe;                 /* END with FINISH_DRY_RUN */
    };
};

struct engine_stats { /* copied out by value */
    uint32_t n_running, n_preempted; /* n_preempted: waiting to be admitted again */
    uint32_t n_swapped;              /* preempted sequences with a copy in a swap tier */
    uint32_t n_waiting[PRIORITY_COUNT];
    uint32_t blocks_total, blocks_free, blocks_held, blocks_cached, blocks_pinned;
    struct kv_groups groups; /* layout of the blocks, for kv_groups_peak() */
    uint32_t max_chunk;    /* most tokens of a sequence that a step computes */
    enum kv_pressure pressure;
    uint64_t prompt_tokens, generation_tokens, recomputed_tokens;
    uint64_t cached_tokens; /* prompt tokens found in the prefix cache */
    struct usage usage;     /* sum over all requests */
    uint64_t preemptions_recompute, preemptions_swap, iterations;
    uint64_t prefix_queries, prefix_hits, prefix_evictions, blocks_copied; /* tokens, tokens,
                                                                            * blocks, blocks */
    uint64_t block_bytes;
    struct swap_stats swap;  /* in blocks */
    struct kv_states_stats states; /* zeros: the model has none */
    uint64_t context_shifts; /* context shifts of full sequences */
    struct draft_stats {
        uint64_t runs;               /* guesses of one token or more that were computed */
        uint64_t drafted, accepted;  /* tokens of these guesses, and those that were right */
    } drafts[DRAFT_SOURCES];
    uint64_t swap_fallbacks; /* swapped copies lost or refused; the tokens were computed again */
    uint64_t store_declined; /* prompts not read from the store: computing was cheaper */
    uint64_t store_timeouts; /* prompts that stopped waiting for the block store */
    uint64_t fetched_blocks; /* blocks that entered the cache from the block store */
    /* ---- the work ahead, for forecasts ---- */
    uint64_t waiting_tokens[PRIORITY_COUNT]; /* tokens that waiting requests have still to compute,
                                              * by priority */
    uint64_t running_prefill;  /* tokens that running sequences have to compute before the next one
                                * can be chosen, beyond one each */
    uint64_t running_left;     /* most tokens that running sequences may still generate, in all */
    struct step_work streams;  /* work of a step of the present streams alone */
    struct step_costs costs;
    uint64_t target_us;
    uint64_t last_step_us; /* clock_us() at the end of the last step, 0 before the first */
    uint64_t turn_wait_us; /* time waited for other models' steps since the start */
    bool busy;             /* a step is running: with last_step_us it shows an engine that hangs */
    struct hist iteration_tokens, iteration_seconds, batch_sequences, cost_error;
};

struct queue_options {
    uint32_t max_outstanding; /* most requests that are posted and have not ended */
    uint32_t max_tenants;     /* in a snapshot */
    uint32_t n_blocks;        /* in a snapshot */
    uint32_t max_events;      /* events waiting for the I/O thread */
    void (*wake)(void *ud);   /* called (engine thread) when events wait and none did before */
    void *wake_ud;
};

struct queue;

int queue_create(struct queue **out, const struct queue_options *options);
/* Destroys requests that were posted and never drained. */
void queue_destroy(struct queue **q);

/* ---- I/O thread ---- */

/* Post n requests; the engine gets them together. 0: the engine owns them now. ERR_AGAIN:
 * max_outstanding would be exceeded; ERR_CANCELED: queue_close() was called; with an error the
 * caller still owns all of them. */
int queue_post_all(struct queue *q, struct request *const *r, uint32_t n);
int queue_post(struct queue *q, struct request *r); /* one */

/* Ask for the end of a request. Never fails; an unknown or ended id is ignored. At most one
 * call per request. Its EVENT_END still comes. */
void queue_cancel(struct queue *q, uint64_t id);

/* Ask that a request's thought, if one is open, ends with its next token (core/runtime/thought.h).
 * An unknown id is ignored; at most one call per request. */
void queue_end_thought(struct queue *q, uint64_t id);

/* Refuse further posts; the engine finishes the requests it has, then its thread ends. With `now`,
 * everything outstanding is cancelled first. May be called again to add `now`. */
void queue_close(struct queue *q, bool now);

/* Move up to n events into `out`, in order; returns how many. */
size_t queue_take_events(struct queue *q, struct event *out, size_t n);

void queue_get_stats(struct queue *q, struct engine_stats *out);
uint32_t queue_n_outstanding(struct queue *q);

/* Ask for a snapshot; `wake` is called when it is ready. Returns the number of the first snapshot
 * that is begun after this call. A snapshot that is being filled or ready already is older; the new
 * one is begun when the old one has been released. */
uint64_t queue_ask_snapshot(struct queue *q);
/* Return the snapshot and its number, or NULL: none is ready. The caller owns it until it calls
 * queue_release_snapshot(), which it must do even if the client that asked has disconnected. */
const struct snapshot *queue_take_snapshot(struct queue *q, uint64_t *number);
void queue_release_snapshot(struct queue *q);

/* Take the next transfer between the swap tiers to carry out; false: there is none. Its arrays stay
 * valid until queue_io_done(), which gets the time that it took and 0 or an ERR_*. */
bool queue_take_io(struct queue *q, struct swap_io *out);
void queue_io_done(struct queue *q, uint32_t copy, int rc, uint32_t n_blocks, uint64_t us);

/* ---- any thread ---- */

/* Wake the engine thread from queue_wait_inbox(), to look at something outside the inbox. */
void queue_wake(struct queue *q);

/* ---- engine thread ---- */

struct queue_io_end {
    uint32_t copy;
    int rc;
    uint32_t n_blocks;
    uint64_t us;
};

struct queue_inbox { /* valid until the next queue_drain */
    struct request *const *posted;
    uint32_t n_posted;
    const uint64_t *cancelled;
    uint32_t n_cancelled;
    const uint64_t *thoughts; /* requests whose thoughts are to end */
    uint32_t n_thoughts;
    struct queue_io_end io[SWAP_MAX_IO];
    uint32_t n_io;
    bool closed; /* queue_close() was called: stop when nothing is left */
    bool cancel_all;
};

/* Take everything that was posted since the last call. The caller owns the requests now. */
void queue_drain(struct queue *q, struct queue_inbox *out);

/* queue_wait_inbox() sleeps until the inbox has something or queue_wake() was called since the last
 * time, at most most_ms (0: without limit). queue_wait_room() sleeps until the event ring has room
 * for n_events. */
void queue_wait_inbox(struct queue *q, uint32_t most_ms);
void queue_wait_room(struct queue *q, uint32_t n_events);

/* Append an event; the ring must have room (asserted), see queue_wait_room(). */
void queue_emit(struct queue *q, const struct event *e);

/* Hand a transfer to the I/O thread: at most SWAP_MAX_IO are under way (asserted). */
void queue_emit_io(struct queue *q, const struct swap_io *io);

/* Return the snapshot to fill if one was asked for, else NULL. queue_end_snapshot() passes it to
 * the I/O thread. */
struct snapshot *queue_begin_snapshot(struct queue *q);
void queue_end_snapshot(struct queue *q);

/* Publish statistics, and wake the I/O thread once if events, transfers or a snapshot were handed
 * over since the last call. */
void queue_publish(struct queue *q, const struct engine_stats *stats);

#endif
