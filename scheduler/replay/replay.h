/* scheduler/replay/replay.h - repeats a run from its journal, plan by plan.
 *
 * A fresh scheduler and a fresh manager of blocks get the same calls at the same times, and every
 * plan is compared with the one in the journal. The records are typed here;
 * server/cli/replay_line.c reads them from the file. A record is checked before it is used, because
 * a journal may have been edited or cut.
 *
 * The replay also collects the trace that a simulation needs: arrivals, prompts, generated tokens.
 *
 * Thread: any, one at a time.
 * Memory: grows with the number of requests and, when arrivals are collected, with their tokens.
 */
#ifndef SCHEDULER_REPLAY_REPLAY_H
#define SCHEDULER_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/replay/recorded_drafter.h"
#include "scheduler/replay/simulate.h"
#include "scheduler/scheduler.h"

enum replay_kind {
    REPLAY_START = 0,
    REPLAY_POST,
    REPLAY_CANCEL,
    REPLAY_CANCEL_ALL,
    REPLAY_PLAN,
    REPLAY_MOVES_DONE,
    REPLAY_IO_START,
    REPLAY_IO_DONE,
    REPLAY_COMMIT,
    REPLAY_STORED,
    REPLAY_FETCH,
    REPLAY_FETCHED,
    REPLAY_DROPPED,
};

enum replay_list { /* lists of request ids in a plan */
    REPLAY_ADMITTED = 0,
    REPLAY_PREEMPTED,
    REPLAY_SWAPPED_OUT,
    REPLAY_SWAPPED_IN,
};
#define REPLAY_LISTS 4

struct replay_item {
    uint64_t request;
    uint32_t first, n;
    bool wants_token;
};

struct replay_ids {
    uint64_t *ids;
    uint32_t n;
};

struct replay_record { /* the kind determines which fields are used; zero is the empty value */
    enum replay_kind kind;
    uint64_t id;     /* CANCEL, STORED, FETCH*: request; PLAN, COMMIT: step; IO_*: copy; DROPPED:
                      * how many */
    uint64_t now_us; /* POST, CANCEL*, PLAN, COMMIT */
    uint64_t unix_us; /* START: microseconds since 1970 at time 0; 0: unknown */
    struct sched_options sched;   /* START */
    struct kv_manager_options kv; /* START */
    struct request *request;      /* POST */
    enum finish why;              /* CANCEL* */
    struct sched_limits limits;   /* PLAN */
    struct replay_item *items;    /* PLAN */
    uint32_t n_items;
    struct recorded_draft *drafts; /* PLAN */
    uint32_t n_drafts;
    struct replay_ids lists[REPLAY_LISTS]; /* PLAN */
    uint32_t n_moves;             /* PLAN */
    bool is_write;                /* IO_START */
    uint32_t n_blocks;            /* IO_START, STORED, FETCH* */
    uint32_t first;               /* FETCH* */
    bool is_last;                 /* FETCHED */
    int rc;                       /* IO_DONE */
    int32_t *tokens;              /* START: ends of generation; COMMIT */
    uint32_t n_tokens;
    struct replay_ids accepted;   /* COMMIT: numbers of drafts that were right */
};

/* Free what the record holds, and make it empty. */
void replay_record_release(struct replay_record *r);

struct replay_stats {
    uint64_t n_runs, n_posts, n_cancels, n_plans, n_tokens, n_ends;
};

struct replay;

int replay_create(struct replay **out, bool collect);
void replay_destroy(struct replay **r);

/* Process the next record, which may lose its request and tokens to the replay. On failure `err`
 * gets a sentence: ERR_FORMAT: the record makes no sense here; ERR_INVAL: the plan differs;
 * ERR_NOMEM. After a failure the replay can only be destroyed. */
int replay_take(struct replay *r, struct replay_record *record, char *err, size_t err_len);

/* True: the scheduler is consistent (sched_check()), or no run has started yet. */
bool replay_check(const struct replay *r);

struct replay_stats replay_stats(const struct replay *r);

/* Return the time at the latest run's time 0, in microseconds since 1970; 0: unknown. */
uint64_t replay_unix_us(const struct replay *r);

/* Set the simulation's costs to their mean over the run instead of the latest, and its paces to
 * what the run's steps took, so that the simulation has the run's slow times too. The paces belong
 * to the replay. ERR_NOMEM. */
int replay_recorded_costs(struct replay *r, struct simulate_options *options);

/* The latest run as input of a simulation: its options (truth = the latest known costs) and its
 * arrivals (trace.h), which belong to the replay. False: no known costs or no arrivals yet. */
bool replay_trace(struct replay *r, struct simulate_options *options,
                  const struct simulate_arrival **arrivals, size_t *n);

#endif
