/* server/http/http_grammar.h - small rules of RFC 9110 and RFC 9112: tokens, lengths and
 * transfer codings.
 *
 * Thread: any. Memory: none.
 */
#ifndef SERVER_HTTP_HTTP_GRAMMAR_H
#define SERVER_HTTP_HTTP_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool http_is_token_char(char c);
bool http_is_token(const char *text, size_t n); /* false for the empty text */

/* Read 1 to 19 digits of a number below 2^63. */
bool http_read_length(const char *text, uint64_t *length);

/* True: a valid list of transfer codings ends with chunked, and the codings before it are neither
 * chunked nor identity. */
bool http_has_foreign_coding(const char *list);

#endif
