/* scheduler/replay/simulate.h - runs the scheduler in virtual time, to try other options on a
 * trace.
 *
 * The simulation replaces the engine loop and the machine: the real scheduler.c and kv_manager run,
 * steps take the time that a given cost model predicts, transfers their modelled time, and these
 * times are fed back through cost_model.c as the loop does. No bytes are moved and nothing is
 * computed. The same options and arrivals give the same results.
 *
 * Thread: any, one at a time.
 * Memory: grows with the number of arrivals; prompts exist only while their request does.
 */
#ifndef SCHEDULER_REPLAY_SIMULATE_H
#define SCHEDULER_REPLAY_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/scheduler.h"

struct journal;
struct quantiles;
struct simulate;

struct simulate_arrival {
    uint64_t at_us;
    uint32_t n_prompt;
    uint32_t max_tokens;
    uint32_t max_known, n_keep, n_discard; /* as in struct request; 0 as in struct request_size */
    uint32_t n_output;     /* tokens generated; fewer than max_tokens: it stops by itself */
    const int32_t *prompt; /* [n_prompt], or NULL: made up from `seed`; borrowed */
    uint32_t n_given;      /* if not 0: tokens taken from `prompt`; the others are made up */
    const int32_t *output; /* [n_output], or NULL; borrowed */
    uint64_t seed;
    uint64_t shared_seed;  /* the first n_shared made-up tokens come from this one */
    uint32_t n_shared;
    enum priority priority;
    uint32_t tenant, weight; /* weight 0 counts as 1 */
    uint64_t salt;
    uint64_t deadline_us, first_by_us, queue_until_us; /* as in struct request */
    uint64_t leave_us;     /* time at which the client disconnects; 0 = never */
    uint64_t prefix_owner; /* 1 + the number of an earlier arrival with the same prompt, or 0 */
    bool score_prompt;
    uint32_t n_pins; /* as in struct request */
    struct request_pin pins[REQUEST_MAX_PINS];
    uint32_t rows_from; /* as in struct request */
};

struct simulate_result {
    uint32_t n_ends;      /* 1 once it has ended, never more */
    enum finish finish;   /* FINISH_ERROR also when the scheduler refused it */
    uint64_t arrival_us;
    uint64_t start_us, first_us, finish_us; /* since arrival; 0 = never, start and first */
    uint64_t last_us;     /* time of the latest token */
    uint64_t itl_max_us;
    uint32_t n_tokens, n_preempted, n_cached;
};

struct simulate_options {
    struct sched_options sched;   /* its kv is set by simulate_create() */
    struct kv_manager_options kv;
    struct step_costs truth;      /* the costs by which steps take their time */
    uint64_t target_us;
    uint32_t noise_percent;       /* steps take up to so many percent more or less */
    /* Instead of noise: times of recorded steps, in thousandths of their time by `truth`, used over
     * and over, beginning at an index that depends on the seed: [0] for steps without, [1] with
     * prompt rows. */
    struct simulate_paces {
        const uint32_t *v; /* [n], borrowed */
        size_t n;
    } paces[2];
    uint64_t seed;                /* seed of the noise */
    uint32_t check_every;         /* steps between two sched_check(); 0 = never */
    struct journal *journal;      /* gets the lines that the engine loop writes; may be NULL */
    /* Called before the scheduler gets an arrival, and after a request has ended; may be NULL, and
     * may add arrivals. */
    void (*on_arrive)(void *ud, struct simulate *s, size_t i);
    void (*on_end)(void *ud, struct simulate *s, size_t i);
    /* Called when a block enters or leaves the index (prefix_index.h); may be NULL. */
    void (*on_block)(void *ud, struct prefix_hash hash, bool is_in);
    void *ud;
};

int simulate_create(struct simulate **out, const struct simulate_options *options);
void simulate_destroy(struct simulate **s);

/* Add an arrival; one in the past arrives now. Returns its number, from 0, or ERR_NOMEM. */
int64_t simulate_add(struct simulate *s, const struct simulate_arrival *a);

/* Run until all requests have ended, or until the time until_us. ERR_INTERNAL: an invariant was
 * violated, or requests wait and nothing can happen; ERR_NOMEM. */
int simulate_run(struct simulate *s, uint64_t until_us);

/* Make the prompt of an arrival, ids[n_prompt]. */
void simulate_make_prompt(const struct simulate_arrival *a, int32_t *ids);

/* ---- event by event: for an owner of several simulations on one clock (cluster.h) ---- */

struct simulate_event {
    uint64_t at_us;
    bool ends_step; /* the event is the end of a step; else the next plan is made */
};

/* Look at the next event. False: there is none until an arrival is added. */
bool simulate_next(const struct simulate *s, struct simulate_event *out);
/* Process the next event; errors as in simulate_run(). */
int simulate_advance(struct simulate *s);

/* Return a time before which no request ends unless one is added: until then the owner need not
 * look at the simulation. */
uint64_t simulate_earliest_end(struct simulate *s);

/* ---- results ---- */

uint64_t simulate_now(const struct simulate *s);
uint64_t simulate_busy_us(const struct simulate *s); /* time spent in steps */
size_t simulate_n(const struct simulate *s);
const struct simulate_arrival *simulate_arrival(const struct simulate *s, size_t i);
const struct simulate_result *simulate_result(const struct simulate *s, size_t i);
/* Rows computed for a tenant so far. */
uint64_t simulate_tenant_rows(const struct simulate *s, uint32_t tenant);
/* The statistics that the engine loop would publish, without histograms. */
void simulate_stats(const struct simulate *s, struct engine_stats *out);

/* Times between two tokens of a request, in microseconds. */
const struct quantiles *simulate_itl(const struct simulate *s);

struct simulate_summary {
    size_t n_ended, n_timeout;
    uint64_t ttft_p50_us, ttft_p99_us; /* of requests that got a token */
    uint64_t itl_p50_us, itl_p99_us;
    uint64_t finish_us;                /* from the first arrival to the last end */
    uint64_t n_preempted, n_recomputed; /* number of preemptions; tokens computed again */
    /* Jain's fairness index over tenants: tokens that a tenant got, divided by the total time of
     * its requests and by its weight; in thousandths. */
    uint32_t jain_milli;
};

/* simulate_summary.c */
int simulate_summarise(const struct simulate *s, struct simulate_summary *out); /* ERR_NOMEM */

#endif
