/* core/grammar/regex.h - regular expressions as grammars.
 *
 * The common part of ECMAScript's and Python's notation: characters and escapes, classes, \d \w \s
 * and their opposites, dots, groups (capturing or not, named or not), |, * + ? {n} {n,} {n,m}, and
 * ^ and $ at the two ends of an alternative. A lazy mark behind a repetition changes nothing in
 * what matches. Where the two languages differ, only texts that match in both are made: \d \w \D \W
 * mean ASCII, \S and a dot leave out all kinds of blanks and line ends.
 *
 * Refused by name: look-around, back-references, \b \B, \p, flags, atomic groups and possessive
 * repetition, and anchors anywhere else.
 *
 * Thread: any. Memory: the grammar's.
 * Errors: ERR_INVAL, ERR_LIMIT, ERR_UNSUPPORTED, ERR_NOMEM, ERR_CANCELED; the sentence names the
 * character.
 */
#ifndef CORE_GRAMMAR_REGEX_H
#define CORE_GRAMMAR_REGEX_H

#include <stddef.h>

#include "core/grammar/builder.h"

#define REGEX_MAX_NESTING 128

enum regex_flags {
    REGEX_SEARCH = 1u << 0, /* without anchors it may match anywhere in the text */
    REGEX_JSON = 1u << 1,   /* characters are spelled as inside a JSON string; U+0000 is none */
};

/* The expression as a piece; errors are the builder's. */
struct grammar_piece grammar_regex(struct grammar_builder *b, const char *text, size_t n,
                                   unsigned flags);

/* A grammar of texts that match as a whole. The budget may be NULL. */
int grammar_from_regex(struct grammar **out, const char *text, size_t n, struct budget *budget,
                       char *err, size_t err_len);

/* One character of the class, spelled as inside a JSON string. */
struct char_class;
struct grammar_piece grammar_json_char(struct grammar_builder *b, struct char_class *c);

#endif
