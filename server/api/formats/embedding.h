/* server/api/formats/embedding.h - writes the vector of a text for all wire formats of embeddings.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_FORMATS_EMBEDDING_H
#define SERVER_API_FORMATS_EMBEDDING_H

#include <stdint.h>

struct buf;
struct response_writer;

/* Append the vector of choice i, cut and normalised as the body asks: a list of numbers or base64.
 * Call it once for each choice, for it scales in place. */
void embedding_add(struct response_writer *a, uint32_t i, struct buf *out);

/* Append the vectors of choice i, one for each token, likewise: a list of lists, or base64 of
 * all. */
void embedding_add_tokens(struct response_writer *a, uint32_t i, struct buf *out);
/* Append the vectors of choice i, one for each token, with commas between them, for
 * llama-server. */
void embedding_add_rows(struct response_writer *a, uint32_t i, struct buf *out);

/* Append n numbers as the body wants them: a list or base64. */
void embedding_add_numbers(const struct response_writer *a, const float *x, uint32_t n,
                           struct buf *out);

#endif
