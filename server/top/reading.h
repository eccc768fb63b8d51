/* server/top/reading.h - what a server says at one time: the samples of /metrics, and the pages of
 * /debug.
 *
 * A reading is cleared, gets the pages of one round (/metrics first, because it names the models),
 * and is compared with the previous one. Rates are differences divided by the server's own times
 * (its uptime, a request's age), so they do not depend on when an answer arrived. Texts come from
 * the server and may contain any bytes: screen.h cleans what it shows.
 *
 * Thread: one owner.
 * Memory: of a fixed size, allocated with zeros: memory for items that do not exist is never
 *         touched. Items beyond a TOP_MAX_* are left out.
 */
#ifndef SERVER_TOP_READING_H
#define SERVER_TOP_READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOP_MAX_TEXT 128
#define TOP_MAX_MODELS 128
#define TOP_MAX_SAMPLES 65536 /* those that are not 0; a busy model has some hundred */
#define TOP_MAX_STEPS 256
#define TOP_MAX_REQUESTS 16384
#define TOP_UNKNOWN (-1.0) /* value of rates and quantiles */

struct top_sample {
    char name[64], label[TOP_MAX_TEXT]; /* value of its `le` or `state`; "": it has neither */
    uint32_t model;                     /* [n_models] */
    double value;
};

/* XX(name, key of /debug/requests, title, width, from): the columns of a request, first those of
 * text, last those of time; width as in %*s; from: columns of the screen from which on it is shown.
 */
#define TOP_COLUMNS(XX)                                                                            \
    XX(REQUEST, "request_id", "REQUEST", -22, 0)                                                   \
    XX(TENANT, "tenant", "TENANT", -12, 91)                                                        \
    XX(MODEL, "", "MODEL", -16, 78)                                                                \
    XX(STATE, "state", "STATE", -9, 32)                                                            \
    XX(PRIORITY, "priority", "PRIORITY", -8, 122)                                                  \
    XX(PROMPT, "prompt_tokens", "PROMPT", 6, 61)                                                   \
    XX(CACHED, "cached_tokens", "CACHED", 6, 105)                                                  \
    XX(GENERATED, "known_tokens", "GEN", 6, 39)                                                    \
    XX(MOST, "max_tokens", "OF", 6, 129)                                                           \
    XX(RATE, "", "TOK/S", 6, 46)                                                                   \
    XX(BLOCKS, "blocks", "BLOCKS", 6, 98)                                                          \
    XX(AGE, "age_ms", "AGE", 7, 54)                                                                \
    XX(QUEUED, "queue_ms", "QUEUED", 7, 113)
#define TOP_N_TEXTS TOP_PROMPT
#define XX(name, key, title, width, from) TOP_##name,
enum top_column { TOP_COLUMNS(XX) TOP_N_COLUMNS };
#undef XX

struct top_request {
    char text[TOP_N_TEXTS][TOP_MAX_TEXT];
    double number[TOP_N_COLUMNS]; /* times in seconds; at TOP_REQUEST the server's own number of the
                                   * request, at TOP_STATE 0, -1, -2, ... as listed */
};

enum top_page { TOP_METRICS, TOP_REQUESTS, TOP_STEP_TIMES, TOP_KV, TOP_N_PAGES };
extern const char *const top_paths[TOP_N_PAGES];

struct top_reading {
    bool has[TOP_N_PAGES];
    char wanted[TOP_MAX_TEXT]; /* the model to show; "": all */
    char version[TOP_MAX_TEXT], pressure[TOP_MAX_TEXT];
    uint32_t n_models, n_samples, n_steps, n_requests;
    char models[TOP_MAX_MODELS][TOP_MAX_TEXT];
    double uptime_s, step_s[TOP_MAX_STEPS], sequences; /* the newest step last; sequences of all */
    double block_tokens, n_swap_copies;                /* of the model whose /debug/kv was read */
    /* Of the same process: the previous reading (NULL: there is none), and the first one that shows
     * the same models, which may be this one. The comparison sets them; borrowed. */
    const struct top_reading *before, *first;
    struct top_sample samples[TOP_MAX_SAMPLES];
    struct top_request requests[TOP_MAX_REQUESTS];
};

void top_reading_clear(struct top_reading *r, const char *wanted);
/* Take a page, text[0..n) and a NUL, which is changed. False: it is not the page of a server. */
bool top_reading_take(struct top_reading *r, enum top_page page, const char *model, char *text,
                      size_t n);
/* Compare with the previous reading, when all pages were taken; this sets the rates of requests.
 * Both lists must be in the server's order. */
void top_reading_compare(struct top_reading *r, const struct top_reading *before);

/* Return the sum of a metric's samples. model: "": of all models; label: NULL: with any label. */
double top_number(const struct top_reading *r, const char *model, const char *name,
                  const char *label);
/* Return how much a counter grew per second since the previous reading. */
double top_rate(const struct top_reading *r, const char *model, const char *name);
/* Return the upper bound, in seconds, of the bucket with quantile q of the wanted model's values
 * since the first reading, or of all values if there are none since then; TOP_UNKNOWN: there are no
 * values. */
double top_quantile(const struct top_reading *r, const char *name, double q);

#endif
