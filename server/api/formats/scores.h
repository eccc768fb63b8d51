/* server/api/formats/scores.h - how well a query and a document fit, as each wire format has it.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_FORMATS_SCORES_H
#define SERVER_API_FORMATS_SCORES_H

#include <stdint.h>

struct prompt;
struct response_writer;

/* Of document i: what a cross-encoder says of it, else the cosine of its vector and its query's.
 * Taken in double and in one order, so equal texts have equal scores, bit for bit. */
double scores_of(const struct response_writer *a, uint32_t i);

/* out[n_labels] = the numbers of the classifier: shares, unless the body wants them as they are. */
void scores_of_labels(const struct response_writer *a, const struct prompt *prompt, float *out);

/* The text of document i, where the answer has it; NULL: it has not. */
const char *scores_document(const struct response_writer *a, uint32_t i);

#endif
