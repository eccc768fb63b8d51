/* server/batches/batch_usage.h - sums up the `usage` of a batch's answers, for `usage` of OpenAI's
 * batch object.
 *
 * Source: https://platform.openai.com/docs/api-reference/batch/object
 *
 * Thread: any.
 * Memory: a tree of one answer's `usage` at a time.
 */
#ifndef SERVER_BATCHES_BATCH_USAGE_H
#define SERVER_BATCHES_BATCH_USAGE_H

#include <stddef.h>
#include <stdint.h>

struct batch_usage { /* tokens */
    uint64_t n_input;
    uint64_t n_cached; /* cached tokens of the input */
    uint64_t n_output;
    uint64_t n_reasoning; /* reasoning tokens of the output */
};

/* Add the usage of answers[0..n), whole lines as batch_line_answer() writes them. An answer without
 * usage (an error) adds nothing. */
void batch_usage_add(struct batch_usage *usage, const char *answers, size_t n);

#endif
