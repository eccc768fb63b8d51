/* server/top/reading.h - the numbers of a server at one time, from /metrics and the pages of
 * /debug.
 *
 * A reading is cleared, given the pages of one round (/metrics first, which names the models; the
 * others in any order), and then compared with the one before it. Rates are differences divided by
 * the server's own times (its uptime, a request's age), so that they do not depend on when an
 * answer arrived. Texts come from the server and may contain any bytes: screen.h cleans what it
 * shows.
 *
 * Thread: one owner.
 * Memory: the list of requests grows; top_reading_release() frees it.
 * Errors: ERR_FORMAT: the page is not what it should be, and the reading is without it.
 */
#ifndef SERVER_TOP_READING_H
#define SERVER_TOP_READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOP_MAX_MODELS 128
#define TOP_MAX_NAME 128
#define TOP_MAX_STEPS 256
#define TOP_MAX_BOUNDS 64
#define TOP_ALL_MODELS UINT32_MAX
#define TOP_UNKNOWN (-1.0) /* for rates and quantiles */

/* Numbers of a model, from /metrics. */
enum top_number {
    TOP_RUNNING = 0,
    TOP_WAITING,
    TOP_PREEMPTED,
    TOP_KV_FREE,
    TOP_KV_CACHED,
    TOP_KV_HELD,
    TOP_PROMPT_TOKENS,
    TOP_GENERATION_TOKENS,
    TOP_CACHED_TOKENS,
    TOP_PREEMPTIONS,
    TOP_STEPS,
    TOP_STEP_SECONDS,
    TOP_PREFIX_QUERIES,
    TOP_PREFIX_HITS,
    TOP_N_NUMBERS,
};

struct top_model {
    char id[TOP_MAX_NAME];
    double number[TOP_N_NUMBERS];
};

struct top_request {
    uint64_t id;
    uint32_t model;            /* index in the reading */
    uint32_t place;            /* in the server's order */
    char name[64], tenant[64]; /* "": none */
    char state[16], priority[16];
    uint32_t n_prompt, n_cached, n_generated, max_tokens, n_blocks, n_preempted;
    double age_ms, queue_ms;
    double rate; /* tokens a second since the reading before, or TOP_UNKNOWN */
};

struct top_histogram {
    uint32_t n;
    double bound[TOP_MAX_BOUNDS], count[TOP_MAX_BOUNDS]; /* cumulative */
};

struct top_step {
    double took_ms;
    uint32_t n_sequences;
};

struct top_reading {
    bool has_metrics, has_requests, has_steps, has_kv;
    char version[64];
    double uptime_s;
    uint32_t n_models, n_more_models; /* how many had no room */
    struct top_model models[TOP_MAX_MODELS];
    char wanted[TOP_MAX_NAME]; /* the model to show; "": all. Set by the caller, before /metrics */
    uint32_t shown;            /* its index, or TOP_ALL_MODELS: the model or models of the
                                * histograms */
    struct top_histogram first_token, between_tokens;
    struct top_request *requests; /* [n_requests], in any order */
    uint32_t n_requests, n_room;
    struct top_step steps[TOP_MAX_STEPS]; /* [n_steps], the newest last */
    uint32_t n_steps;
    uint32_t block_tokens, n_swap_copies; /* of the model whose /debug/kv was read */
    char pressure[16];
};

/* Empty a reading; the memory of one that was used before is kept. A new one is all zero. */
void top_reading_clear(struct top_reading *r, const char *wanted);
void top_reading_release(struct top_reading *r);

void top_reading_take_metrics(struct top_reading *r, const char *text, size_t n);
int top_reading_take_requests(struct top_reading *r, uint32_t model, const char *text, size_t n);
int top_reading_take_steps(struct top_reading *r, const char *text, size_t n);
int top_reading_take_kv(struct top_reading *r, const char *text, size_t n);

/* Set the rates of the requests. */
void top_reading_compare(struct top_reading *r, const struct top_reading *before);

/* For a model (or all of them together, TOP_ALL_MODELS): the number, its growth since the reading
 * before, and the growth a second; TOP_UNKNOWN if there is no reading before, or it is of another
 * process. */
double top_reading_number(const struct top_reading *r, uint32_t model, enum top_number number);
double top_reading_growth(const struct top_reading *r, const struct top_reading *before,
                          uint32_t model, enum top_number number);
double top_reading_rate(const struct top_reading *r, const struct top_reading *before,
                        uint32_t model, enum top_number number);

/* The upper bound, in seconds, of the bucket that contains the quantile, of the values since
 * `before` (NULL: of all); TOP_UNKNOWN when there are none. */
double top_histogram_quantile(const struct top_histogram *h, const struct top_histogram *before,
                              double q);

#endif
