/* server/http/http_grammar.h - the small rules of RFC 9110 and RFC 9112: tokens, lists, lengths,
 * codings, extensions.
 *
 * Thread: any. Memory: none.
 */
#ifndef SERVER_HTTP_HTTP_GRAMMAR_H
#define SERVER_HTTP_HTTP_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool http_is_token_char(char c);
bool http_is_token(const char *text, size_t n); /* not the empty text */

/* "HTTP/" DIGIT "." DIGIT */
bool http_is_version(const char *text);

/* 1 to 19 digits of a number below 2^63. */
bool http_read_length(const char *text, uint64_t *length);

/* Has a list with commas this member, in any case? */
bool http_list_has(const char *list, const char *member);

/* Does a valid list of transfer codings end with chunked, behind others that are neither chunked
 * nor identity? */
bool http_has_foreign_coding(const char *list);

/* Chunk extensions byte by byte: *( ";" name [ "=" ( token / quoted-string ) ] ), without the
 * blanks that RFC 9112 calls bad. State 0 is behind the first semicolon; the next state, or -1. */
int http_extension_step(int state, char c);
bool http_extension_may_end(int state);

#endif
