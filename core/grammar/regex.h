/* core/grammar/regex.h - regular expressions as grammars.
 *
 * The common part of ECMAScript's and Python's notation: characters and escapes, classes, \d \w \s
 * and their opposites, \p{...} (categories, scripts and properties of Unicode), dots, groups
 * (capturing or not, named or not), |, * + ? {n} {n,} {n,m}, ^ and $, \b and \B, look-ahead of any
 * kind, and look-behind for one character ((?<=[a-z,]), (?<!^|-)). A lazy mark after a repetition
 * does not change the texts that match. Where the two languages differ, only texts that match in
 * both are made: \d \w \D \W mean ASCII, \S and a dot leave out all kinds of blanks and line ends,
 * only ASCII characters stand beside \b and \B, and \P leaves out characters that Unicode has not
 * assigned.
 *
 * Look-around, \b, and anchors inside make a deterministic automaton (expr.h); one that is too
 * large is ERR_LIMIT.
 *
 * Refused by name: back-references, flags, atomic groups and possessive repetition, look-behind for
 * more than a character, and endless repetition of an expression that may be empty and looks
 * around.
 *
 * Thread: any. Memory: the grammar's.
 * Errors: ERR_INVAL, ERR_LIMIT, ERR_UNSUPPORTED, ERR_NOMEM, ERR_CANCELED; the sentence names the
 * character.
 */
#ifndef CORE_GRAMMAR_REGEX_H
#define CORE_GRAMMAR_REGEX_H

#include <stddef.h>

#include "core/grammar/builder.h"

struct expr_set;

#define REGEX_MAX_NESTING 128

enum regex_flags {
    REGEX_SEARCH = 1u << 0, /* an expression without anchors may match anywhere in the text */
    REGEX_JSON = 1u << 1,   /* characters are spelled as inside a JSON string, U+0000 is refused */
};

/* Returns the expression as a piece; errors are the builder's. */
struct grammar_piece grammar_regex(struct grammar_builder *b, const char *text, size_t n,
                                   unsigned flags);

/* Returns the expression as a set of texts, to be combined with others; `e` must have been made
 * with regex_alphabet() or a part of it. */
uint32_t grammar_regex_expr(struct expr_set *e, struct grammar_builder *b, const char *text,
                            size_t n, unsigned flags);
/* Makes an expression set whose alphabet is all characters that may stand in a text. */
int regex_alphabet(struct expr_set **out, struct grammar_builder *b, unsigned flags);

/* Makes a grammar of the texts that match as a whole. The budget may be NULL. */
int grammar_from_regex(struct grammar **out, const char *text, size_t n, struct budget *budget,
                       char *err, size_t err_len);

/* Writes one character of the class, spelled as inside a JSON string. */
struct char_class;
struct grammar_piece grammar_json_char(struct grammar_builder *b, struct char_class *c);

#endif
