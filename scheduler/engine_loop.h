/* scheduler/engine_loop.h - the engine thread: drain the inbox, plan, move blocks, build and run
 * the batch, emit tokens, commit, emit ends.
 *
 * The thread makes steps until the queue is closed and no request is left. A step allocates nothing
 * and never waits for the network or a disk; without work the thread sleeps on the queue.
 *
 * Thread: engine_loop_start() makes the engine thread; engine_loop_join() waits for its end.
 * Memory: taken in engine_loop_create(); everything in the options is borrowed.
 */
#ifndef SCHEDULER_ENGINE_LOOP_H
#define SCHEDULER_ENGINE_LOOP_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/scheduler.h"

struct journal;
struct kv_store;
struct prefix_fetch;
struct engine_loop;
struct runner;
struct state_store;
struct swap_store;
struct engine_arbiter;

struct engine_loop_options {
    struct queue *queue;
    struct sched_options sched;
    const struct kv_manager_options *kv_options; /* options of sched.kv, for the journal */
    struct kv_store *kv;
    struct swap_store *swap; /* NULL without swap tiers */
    struct state_store *states; /* NULL: the model has none */
    struct prefix_fetch *fetch; /* NULL: no block store (sched.store_blocks 0) */
    struct runner *runner;
    uint32_t step_target_ms; /* prompt chunks shrink so that a step with running streams stays
                              * within this; where several engines have work, each gets an even part
                              * of it; 0 = no limit */
    bool makes_drafts;       /* guess tokens ahead (drafts/drafter.h) for requests that allow it;
                              * with recurrent states the runner must be able to undo */
    uint32_t draft_history;  /* tokens of earlier answers kept for guesses, <= HISTORY_MOST; 0:
                              * none */
    struct draft_model draft_model; /* a draft model; its `guess` NULL: none */
    struct draft_model_costs *draft_model_costs; /* costs of the draft model, which it updates;
                                                  * NULL: none */
    const int32_t *eog;      /* ids that end a generation; copied */
    size_t n_eog;
    struct engine_arbiter *arbiter; /* NULL: this engine is alone on the machine */
    uint32_t engine;         /* this engine's index in the arbiter */
    struct journal *journal; /* receives everything that a replay needs, or NULL */
};

int engine_loop_create(struct engine_loop **out, const struct engine_loop_options *options);
void engine_loop_destroy(struct engine_loop **l);

int engine_loop_start(struct engine_loop *l); /* ERR_INTERNAL when no thread can be made */
void engine_loop_join(struct engine_loop *l);

#endif
