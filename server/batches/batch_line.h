/* server/batches/batch_line.h - parses the lines of a batch's input and writes the lines of its
 * answers.
 *
 * A request is {"custom_id","method":"POST","url","body":{…}}, an answer
 * {"id":"batch_req_…","custom_id","response":{"status_code","request_id","body"},"error"}, both as
 * in OpenAI's API. The body is passed on byte for byte, except for a seed: a body without one gets
 * a seed that follows from the batch's and the line's number, so that the line has the same answer
 * when it is computed again. An answer's id is made from the batch's seed and the line's number
 * too, so that a file of answers shows which lines it has. Where any endpoint is allowed (`quire
 * batch`, `quire decide`), a line may also be the bare body of a call for decisions.
 *
 * Thread: any.
 * Memory: the caller's buffers.
 */
#ifndef SERVER_BATCHES_BATCH_LINE_H
#define SERVER_BATCHES_BATCH_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

#define BATCH_LINE_MAX_ID 512        /* most bytes of a custom_id as the client wrote it */
#define BATCH_LINE_MAX_URL 31        /* most bytes of an endpoint */
/* The endpoints that a batch may have, for errors. */
#define BATCH_LINE_ENDPOINTS                                                                       \
    "/v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings, /v1/decisions or "      \
    "/v1/systemone"
#define BATCH_LINE_ANSWER_ID 35      /* bytes of an answer's id, with its NUL */

struct batch_line {
    uint32_t index; /* number of the line in the batch, from 0 */
    char url[BATCH_LINE_MAX_URL + 1];
    struct buf custom_id; /* the JSON string */
    struct buf body;      /* the JSON object, with a seed */
};

struct batch_line_error {
    const char *code, *param; /* static texts; param NULL: the whole line is wrong */
    char message[160];
};

/* True: a batch may have this endpoint. */
bool batch_line_is_endpoint(const char *url);

/* Parse the line text[0..n), without its line end; `endpoint` NULL: any that a batch may have.
 * ERR_INVAL, with *e filled, or ERR_NOMEM. Also after an error the caller calls
 * batch_line_release(). */
int batch_line_parse(struct batch_line *out, const char *text, size_t n, const char *endpoint,
                     uint32_t index, uint64_t seed, struct batch_line_error *e);
void batch_line_release(struct batch_line *line);

/* Write an answer's id: "batch_req_" and 24 digits, of the batch's seed and the line's index. */
void batch_line_answer_id(uint64_t seed, uint32_t index, char out[BATCH_LINE_ANSWER_ID]);
/* Read the index of the line that the answer text[0..n) belongs to. False: the text is not an
 * answer of this batch. */
bool batch_line_is_answer(const char *text, size_t n, uint64_t seed, uint32_t *index);

/* True: text[0..n) may be the beginning of an answer of this batch. */
bool batch_line_begins_answer(const char *text, size_t n, uint64_t seed);

/* Append an answer with its line end. `body` is JSON, whose line ends become blanks. */
void batch_line_answer(const struct batch_line *line, uint64_t seed, int status,
                       const struct buf *body, struct buf *out);
/* Append the answer of a line without a response; `code` and `message` have the reason. */
void batch_line_no_answer(const struct batch_line *line, uint64_t seed, const char *code,
                          const char *message, struct buf *out);

#endif
