/* server/api/params/lark_pattern.h - grammars in the notation of Lark as regular expressions.
 *
 * Each rule stands in for its name, from `start` on. So a rule cannot contain itself. The regular
 * expression matches what the rules derive: Lark's lexer, which takes the longest terminal, has no
 * part in it, so that a text may match which Lark would have cut in another way.
 *
 * Taken: rules and terminals (with ?, ! or a priority), "texts", regular expressions with the flags
 * s and u, groups, [optional parts], |, ? * + ~n ~n..m, aliases, comments, and the usual names of
 * `%import common`. Refused by name: recursion, %ignore, other directives, templates, ranges of
 * characters, texts and expressions with the flag i or others.
 *
 * Source: https://lark-parser.readthedocs.io/en/stable/grammar.html
 *
 * Thread: any. Memory: LARK_MAX_PATTERN bytes at most.
 */
#ifndef SERVER_API_PARAMS_LARK_PATTERN_H
#define SERVER_API_PARAMS_LARK_PATTERN_H

#include <stddef.h>

#include "core/base/buf.h"

#define LARK_MAX_PATTERN ((size_t)1 << 16)

/* Append the expression to an empty buffer that takes LARK_MAX_PATTERN bytes: it has room for one
 * byte more. 0; ERR_INVAL with a sentence
 * in `why`; ERR_NOMEM. */
int lark_pattern(const char *grammar, struct buf *out, char *why, size_t size);

#endif
