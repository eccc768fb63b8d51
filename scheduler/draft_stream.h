/* scheduler/draft_stream.h - the guesses of a draft model for a stream, one token after the other:
 * what all kinds of draft models (drafts/draft_model.h) do with what they have chosen.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_DRAFT_STREAM_H
#define SCHEDULER_DRAFT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/runtime/batch.h"
#include "scheduler/drafts/draft_model.h"

/* The request's sampling, as far as it goes for a model that knows nothing of the answer's state
 * (constraints, mirostat); with the log-probability of what it chooses. */
struct sampling draft_stream_sampling(const struct request *r);

void draft_stream_begin(struct draft_stream *s, enum draft_source source);
/* Is it to have guess number n (from 1), and has all before that? */
bool draft_stream_wants(const struct draft_stream *s, uint32_t n);
/* Its next guess, or, where that would end the generation, the end of its guesses. */
void draft_stream_take(struct draft_stream *s, int32_t token, float logprob, const int32_t *eog,
                       size_t n_eog);
/* No more guesses. */
void draft_stream_end(struct draft_stream *s);

#endif
