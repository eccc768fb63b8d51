/* server/api/formats/embedding.h - the vector of a text, as each wire format of embeddings has it.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_FORMATS_EMBEDDING_H
#define SERVER_API_FORMATS_EMBEDDING_H

#include <stdint.h>

struct buf;
struct response_writer;

/* The vector of choice i, cut and normalised as was asked for: a list of numbers or base64. Once
 * for each choice. */
void embedding_add(struct response_writer *a, uint32_t i, struct buf *out);

/* The same for choice i with a vector for each token: a list of lists, or base64 of all of them. */
void embedding_add_tokens(struct response_writer *a, uint32_t i, struct buf *out);
/* The same for llama-server: the vectors, and commas between. */
void embedding_add_rows(struct response_writer *a, uint32_t i, struct buf *out);

/* Numbers as the body wants them: a list or base64. */
void embedding_add_numbers(const struct response_writer *a, const float *x, uint32_t n,
                           struct buf *out);

#endif
