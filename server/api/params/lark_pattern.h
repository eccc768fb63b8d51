/* server/api/params/lark_pattern.h - translates grammars in Lark's notation to regular expressions.
 *
 * Each name is replaced by its rule, from `start` on, so a rule cannot contain itself. The regular
 * expression matches whatever the rules derive. Lark's lexer, which always takes the longest
 * terminal, has no counterpart here, so a text may match that Lark would split in another way.
 *
 * Supported: rules and terminals (with ?, ! or a priority), "texts", regular expressions with the
 * flags s and u, groups, [optional parts], |, ? * + ~n ~n..m, aliases, comments, and the usual
 * names of `%import common`. Refused with an error that names it: recursion, %ignore, other
 * directives, templates, ranges of characters, texts and expressions with the flag i or others.
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

/* Append the expression to an empty buffer that takes LARK_MAX_PATTERN bytes; it leaves room for
 * one byte more. 0; ERR_INVAL with a sentence in `why`; ERR_NOMEM. */
int lark_pattern(const char *grammar, struct buf *out, char *why, size_t size);

#endif
