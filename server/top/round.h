/* server/top/round.h - one round of questions: chooses the pages, reads their answers, and reports
 * failures.
 *
 * The pages are /metrics, and the requests of each model that the last reading knew (or of the one
 * that is shown); with only one model also its steps and its KV cache.
 *
 * Thread: one owner.
 * Memory: the caller's struct; questions borrow the last reading until the round has begun.
 * Errors: a sentence in `trouble`; a page that was refused leaves its part of the reading empty.
 */
#ifndef SERVER_TOP_ROUND_H
#define SERVER_TOP_ROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "server/top/reading.h"

#define TOP_MAX_TROUBLE 400

struct top_client;

struct top_round {
    char trouble[TOP_MAX_TROUBLE]; /* "": every page was answered */
    bool has_answer;               /* there is a reading, at least of /metrics */
    bool has_asked_models;
    uint32_t n_pages;
    struct {
        int kind;
        char model[TOP_MAX_NAME];
    } pages[TOP_MAX_MODELS + 3];
};

/* Ask for the pages of a round. wanted: the model, "": all of them. */
void top_round_begin(struct top_round *round, struct top_client *client,
                     const struct top_reading *last, const char *wanted);

/* When the round is over: fill the reading from its answers. False: there is none. */
bool top_round_take(struct top_round *round, const struct top_client *client,
                    struct top_reading *out, const char *wanted);

#endif
