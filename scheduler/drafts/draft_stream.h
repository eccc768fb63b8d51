/* scheduler/drafts/draft_stream.h - collects the guesses of a draft model for a stream, token by
 * token. Every kind of draft model (draft_model.h) passes the tokens that it chose to these
 * functions.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_DRAFTS_DRAFT_STREAM_H
#define SCHEDULER_DRAFTS_DRAFT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/runtime/batch.h"
#include "scheduler/drafts/draft_model.h"

/* Return the request's sampling for a draft model: without constraints and mirostat, whose state
 * belongs to the answer, and with the log-probability of the chosen token. */
struct sampling draft_stream_sampling(const struct request *r);

void draft_stream_begin(struct draft_stream *s, enum draft_source source);
/* True: the stream has n - 1 guesses and shall get guess number n (from 1). */
bool draft_stream_wants(const struct draft_stream *s, uint32_t n);
/* Append the stream's next guess; a token that would end the generation ends the guesses
 * instead. */
void draft_stream_take(struct draft_stream *s, int32_t token, float logprob, const int32_t *eog,
                       size_t n_eog);
/* End the stream's guesses. */
void draft_stream_end(struct draft_stream *s);

#endif
