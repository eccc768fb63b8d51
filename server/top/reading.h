/* server/top/reading.h - the numbers of a server at one time, from /metrics and the pages of
 * /debug.
 *
 * A reading is cleared, gets the pages of one round (/metrics first, because it names the models),
 * and is compared with the previous one. Rates are differences divided by the server's own times
 * (its uptime, a request's age), so they do not depend on when an answer arrived. Texts come from
 * the server and may contain any bytes: screen.h cleans what it shows.
 *
 * Thread: one owner.
 * Memory: of a fixed size, allocated with zeros: memory for requests that do not exist is never
 *         touched. Items beyond a TOP_MAX_* are left out.
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
#define TOP_MAX_REQUESTS 16384
#define TOP_UNKNOWN (-1.0) /* value of rates and quantiles */

/* XX(name, sample of /metrics, its label `state`): the numbers of a model. */
#define TOP_NUMBERS(XX)                                                                            \
    XX(RUNNING, "quire_requests_running", "")                                                      \
    XX(WAITING, "quire_requests_waiting", "")                                                      \
    XX(PREEMPTED, "quire_requests_preempted", "")                                                  \
    XX(KV_FREE, "quire_kv_blocks", "free")                                                         \
    XX(KV_CACHED, "quire_kv_blocks", "cached")                                                     \
    XX(KV_HELD, "quire_kv_blocks", "held")                                                         \
    XX(PROMPT_TOKENS, "quire_prompt_tokens_total", "")                                             \
    XX(GENERATION_TOKENS, "quire_generation_tokens_total", "")                                     \
    XX(CACHED_TOKENS, "quire_cached_tokens_total", "")                                             \
    XX(PREEMPTIONS, "quire_preemptions_total", "")                                                 \
    XX(STEPS, "quire_iterations_total", "")                                                        \
    XX(STEP_SECONDS, "quire_compute_seconds_total", "")                                            \
    XX(PREFIX_QUERIES, "quire_prefix_cache_queries_tokens_total", "")                              \
    XX(PREFIX_HITS, "quire_prefix_cache_hits_tokens_total", "")
#define XX(name, sample, state) TOP_##name,
enum top_number { TOP_NUMBERS(XX) TOP_N_NUMBERS };
#undef XX

struct top_model {
    char id[TOP_MAX_NAME];
    double number[TOP_N_NUMBERS], rate[TOP_N_NUMBERS]; /* rate: per second, since the previous
                                                        * reading */
};

/* XX(name, key of /debug/requests, title, width as in top_screen_cell(), rank): the columns of a
 * request, first those of text. In a narrow terminal those of a lower rank are kept. */
#define TOP_COLUMNS(XX)                                                                            \
    XX(REQUEST, "request_id", "REQUEST", -22, 0)                                                   \
    XX(TENANT, "tenant", "TENANT", -12, 7)                                                         \
    XX(MODEL, "", "MODEL", -16, 6)                                                                 \
    XX(STATE, "state", "STATE", -9, 1)                                                             \
    XX(PRIORITY, "priority", "PRIORITY", -8, 11)                                                   \
    XX(PROMPT, "prompt_tokens", "PROMPT", 6, 5)                                                    \
    XX(CACHED, "cached_tokens", "CACHED", 6, 9)                                                    \
    XX(GENERATED, "known_tokens", "GEN", 6, 2)                                                     \
    XX(MOST, "max_tokens", "OF", 6, 12)                                                            \
    XX(RATE, "", "TOK/S", 6, 3)                                                                    \
    XX(BLOCKS, "blocks", "BLOCKS", 6, 8)                                                           \
    XX(AGE, "age_ms", "AGE", 7, 4)                                                                 \
    XX(QUEUED, "queue_ms", "QUEUED", 7, 10)
#define TOP_N_TEXTS TOP_PROMPT
#define XX(name, key, title, width, rank) TOP_##name,
enum top_column { TOP_COLUMNS(XX) TOP_N_COLUMNS, TOP_PLACE = TOP_N_COLUMNS, TOP_N_FIELDS };
#undef XX

struct top_request {
    double id;
    char text[TOP_N_TEXTS][64];
    double number[TOP_N_FIELDS]; /* times in seconds; TOP_PLACE: 0, -1, -2, ... as listed */
};

struct top_histogram {
    uint32_t n;
    double bound[TOP_MAX_BOUNDS], count[TOP_MAX_BOUNDS]; /* cumulative */
    double base[TOP_MAX_BOUNDS];                         /* the counts of the first reading */
};

enum top_page { TOP_METRICS, TOP_REQUESTS, TOP_STEP_TIMES, TOP_KV, TOP_N_PAGES };

struct top_reading {
    bool has[TOP_N_PAGES];
    char version[64];
    double uptime_s;
    uint32_t n_models, n_more_models; /* n_more_models: models for which there was no room */
    struct top_model models[TOP_MAX_MODELS];
    char wanted[TOP_MAX_NAME]; /* the model to show; "": all */
    struct top_model shown;    /* that model, or the sums of all (id "") */
    struct top_histogram first_token, between_tokens;
    double step_s[TOP_MAX_STEPS], step_sequences; /* [n_steps], the newest last; their mean */
    uint32_t n_steps;
    double block_tokens, n_swap_copies; /* of the model whose /debug/kv was read */
    char pressure[16];
    uint32_t n_requests;
    struct top_request requests[TOP_MAX_REQUESTS];
};

void top_reading_clear(struct top_reading *r, const char *wanted);

/* Take a page, text[0..n) and a NUL, which is changed. False: it is not the page of a server. */
bool top_reading_take(struct top_reading *r, enum top_page page, const char *model, char *text,
                      size_t n);

/* Set sums and rates; called when all pages were taken. Rates are TOP_UNKNOWN if there is no
 * previous reading, or one of another process. Both lists must be in the server's order. */
void top_reading_compare(struct top_reading *r, const struct top_reading *before);

/* Return the upper bound, in seconds, of the bucket with quantile q of the values since the first
 * reading, or of all values if there are none since then; TOP_UNKNOWN: there are no values. */
double top_quantile(const struct top_histogram *h, double q);

#endif
