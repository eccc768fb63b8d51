/* server/api/formats/scores.h - how well a query and a document fit, for all wire formats of
 * scores.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_FORMATS_SCORES_H
#define SERVER_API_FORMATS_SCORES_H

#include <stdint.h>

struct prompt;
struct response_writer;

/* Scale the vectors of tokens; called once, before the scores. */
void scores_begin(struct response_writer *a);

/* The score of document i: a cross-encoder's label; for late interaction the sum, over the query's
 * tokens, of the largest product with a token of the document; else the cosine of its vector and
 * its query's.
 * Computed in double and in one order, so equal texts have equal scores, bit for bit. */
double scores_of(const struct response_writer *a, uint32_t i);

/* out[n_labels] = the probabilities of the classifier's labels; its outputs, if the body wants
 * these. */
void scores_of_labels(const struct response_writer *a, const struct prompt *prompt, float *out);

/* out[n] = the probabilities that n outputs x of a classifier stand for, or x itself, if the body
 * wants that; `out` may be x. */
void scores_of_outputs(const struct response_writer *a, const float *x, uint32_t n, float *out);

/* The text of document i, if the answer has it; else NULL. */
const char *scores_document(const struct response_writer *a, uint32_t i);

#endif
