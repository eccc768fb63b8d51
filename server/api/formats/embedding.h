/* server/api/formats/embedding.h - writes the vector of a text for all wire formats of embeddings.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_FORMATS_EMBEDDING_H
#define SERVER_API_FORMATS_EMBEDDING_H

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct response_writer;

/* Append the vector of choice i, cut and normalised as the body asks: a list of numbers or base64.
 * Call it once for each choice, for it scales in place. */
void embedding_add(struct response_writer *a, uint32_t i, struct buf *out);

/* Scale the vector of choice i in place, as embedding_add() does, and return its *n numbers. */
const float *embedding_scale(struct response_writer *a, uint32_t i, uint32_t *n);

/* Scale each of the vectors of choice i, one for each token, in place, and move them together. */
void embedding_scale_tokens(struct response_writer *a, uint32_t i);

/* True: the answer is still wanted, and `out` has no error. */
bool embedding_is_wanted(const struct response_writer *a, struct buf *out);

/* Append n numbers as base64 of float32 in little-endian order. */
void embedding_add_float32(const float *x, uint32_t n, struct buf *out);

/* Append the vectors of choice i, one for each token, likewise: a list of lists, or base64 of
 * all. */
void embedding_add_tokens(struct response_writer *a, uint32_t i, struct buf *out);
/* Append the vectors of choice i, one for each token, with commas between them, for
 * llama-server. */
void embedding_add_rows(struct response_writer *a, uint32_t i, struct buf *out);

/* Append rows of n numbers each as the body wants them: a list of lists, or base64 of all. */
void embedding_add_matrix(const struct response_writer *a, const float *x, uint32_t n_rows,
                          uint32_t n, struct buf *out);

/* Append n numbers as the body wants them: a list or base64. */
void embedding_add_numbers(const struct response_writer *a, const float *x, uint32_t n,
                           struct buf *out);

#endif
