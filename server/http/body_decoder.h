/* server/http/body_decoder.h - decompresses the body of one request: gzip, deflate, zstd.
 *
 * The encodings are those of Content-Encoding: `gzip` (also called x-gzip; one or more members),
 * `deflate` (the zlib format of RFC 1950, not raw deflate) and `zstd` (one or more frames, with a
 * window of at most BODY_DECODER_MAX_WINDOW). zlib and libzstd may be missing at build time: then
 * their encodings are unknown here.
 *
 * A few compressed bytes may become very many: the caller says how many bytes one call may write,
 * and calls again.
 *
 * Thread: none of its own; one owner at a time.
 * Memory: gzip and deflate take 48 KiB. zstd takes 160 KiB and what the frame's header asks for:
 *         its window and 256 KiB, never more than 9 MiB. body_decoder_bytes() counts it.
 * Errors: ERR_FORMAT (the bytes are damaged, cut off, or continue after their end), ERR_LIMIT (the
 *         window is too large), ERR_NOMEM. After an error the decoder may only be explained and
 *         destroyed.
 */
#ifndef SERVER_HTTP_BODY_DECODER_H
#define SERVER_HTTP_BODY_DECODER_H

#include <stddef.h>
#include <stdint.h>

#define BODY_DECODER_MAX_WINDOW_LOG 23
#define BODY_DECODER_MAX_WINDOW ((size_t)1 << BODY_DECODER_MAX_WINDOW_LOG) /* bytes; RFC 9659 */

struct body_encoding; /* static */
struct body_decoder;

/* Return the encoding with that name (case-insensitive), or NULL: this build cannot decode it. */
const struct body_encoding *body_encoding_find(const char *name);
/* Return the names of this build's encodings, separated by ", "; "": there are none. */
const char *body_encoding_names(void);

/* NULL: no memory. */
struct body_decoder *body_decoder_create(const struct body_encoding *encoding);
void body_decoder_destroy(struct body_decoder *d); /* NULL is allowed */

/* Decode bytes of *in up to `end`: *in moves behind those that were taken, and out[0..*n_out) are
 * written, at most `max` (> 0). If *n_out is less than `max`, all input was taken and nothing is
 * left to write; otherwise the caller calls again, also without input. On errors *n_out counts
 * bytes before the damaged ones: with zlib all of them, with libzstd some. */
int body_decoder_read(struct body_decoder *d, const char **in, const char *end, char *out,
                      size_t max, size_t *n_out);

/* Called after the last byte was read: 0, or ERR_FORMAT: the bytes end too early. */
int body_decoder_end(struct body_decoder *d);

/* Write a sentence for the client about an error of body_decoder_read() or body_decoder_end(). */
void body_decoder_explain(const struct body_decoder *d, int err, char *text, size_t n);

/* Return the number of bytes that the decoder has allocated now. */
uint64_t body_decoder_bytes(const struct body_decoder *d);

#endif
