/* server/top/reading.h - what a server said at one time: /metrics and the pages of /debug as
 * numbers.
 *
 * A reading is cleared, given the pages of one round in any order but /metrics first, which says
 * which models there are, and then compared with the one before it: rates are differences over the
 * server's own times (its uptime, a request's age), so that they do not depend on when an answer
 * came. Texts are the server's, bytes of others among them: screen.h cleans what it shows.
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
#define TOP_UNKNOWN (-1.0) /* of rates and quantiles */

/* Of a model, from /metrics. */
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
    double bound[TOP_MAX_BOUNDS], count[TOP_MAX_BOUNDS]; /* cumulated */
};

struct top_step {
    double took_ms;
    uint32_t n_sequences;
};

struct top_reading {
    bool has_metrics, has_requests, has_steps, has_kv;
    char version[64];
    double uptime_s;
    uint32_t n_models, n_more_models; /* those without room */
    struct top_model models[TOP_MAX_MODELS];
    char wanted[TOP_MAX_NAME]; /* the model to show; "": all. By the caller, before /metrics */
    uint32_t shown;            /* its index, or TOP_ALL_MODELS: it is what the histograms are of */
    struct top_histogram first_token, between_tokens;
    struct top_request *requests; /* [n_requests], in any order */
    uint32_t n_requests, n_room;
    struct top_step steps[TOP_MAX_STEPS]; /* [n_steps], the newest last */
    uint32_t n_steps;
    uint32_t block_tokens, n_swap_copies; /* of the model whose kv was read */
    char pressure[16];
};

/* Empty; of a reading that was used before the memory is kept, of a new one all is zero. */
void top_reading_clear(struct top_reading *r, const char *wanted);
void top_reading_release(struct top_reading *r);

void top_reading_take_metrics(struct top_reading *r, const char *text, size_t n);
int top_reading_take_requests(struct top_reading *r, uint32_t model, const char *text, size_t n);
int top_reading_take_steps(struct top_reading *r, const char *text, size_t n);
int top_reading_take_kv(struct top_reading *r, const char *text, size_t n);

/* Set the rates of the requests. */
void top_reading_compare(struct top_reading *r, const struct top_reading *before);

/* Of a model (or of TOP_ALL_MODELS together): what stands there, and how much it grew in a second
 * since the reading before; TOP_UNKNOWN when that is another process' or there is none. */
double top_reading_number(const struct top_reading *r, uint32_t model, enum top_number number);
double top_reading_growth(const struct top_reading *r, const struct top_reading *before,
                          uint32_t model, enum top_number number);
double top_reading_rate(const struct top_reading *r, const struct top_reading *before,
                        uint32_t model, enum top_number number);

/* The upper bound of the bucket that the quantile lies in, of what came since `before` (NULL: of
 * all), in seconds; TOP_UNKNOWN when nothing came. */
double top_histogram_quantile(const struct top_histogram *h, const struct top_histogram *before,
                              double q);

#endif
