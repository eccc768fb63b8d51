/* server/batches/batch_usage.h - the tokens that the answers of a batch say they took: what
 * `usage` of OpenAI's batch is made of.
 *
 * Source: https://platform.openai.com/docs/api-reference/batch/object
 *
 * Thread: any.
 * Memory: while an answer is looked at, a tree of its `usage`.
 */
#ifndef SERVER_BATCHES_BATCH_USAGE_H
#define SERVER_BATCHES_BATCH_USAGE_H

#include <stddef.h>
#include <stdint.h>

struct batch_usage { /* tokens */
    uint64_t n_input;
    uint64_t n_cached; /* of those of the input */
    uint64_t n_output;
    uint64_t n_reasoning; /* of those of the output */
};

/* Add those of answers[0..n), whole lines as batch_line_answer() writes them. An answer that names
 * none (an error) took none. */
void batch_usage_add(struct batch_usage *usage, const char *answers, size_t n);

#endif
