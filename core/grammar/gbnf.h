/* core/grammar/gbnf.h - grammars in GBNF, the notation of llama.cpp.
 *
 *     root  ::= "yes" | "no" | list     # a text begins with the rule `root`
 *     list  ::= "[" item ("," item)* "]"
 *     item  ::= [a-z]{1,8} | [^,\]\x00-\x1F]+ | .
 *
 * Literals and classes know \n \r \t \\ \" \[ \] \- \xNN \uNNNN \UNNNNNNNN (code points). A dot is
 * any character. * + ? {n} {n,} {,m} {n,m} repeat what is before them. A rule ends with its line,
 * unless a parenthesis is open, an alternative has just begun, or the next line begins with |.
 * Left recursion and references to single tokens (<...>) are refused.
 *
 * Thread: any. Memory: the grammar's.
 * Errors: ERR_INVAL, ERR_LIMIT, ERR_UNSUPPORTED, ERR_NOMEM, ERR_CANCELED with a sentence that names
 * the line.
 */
#ifndef CORE_GRAMMAR_GBNF_H
#define CORE_GRAMMAR_GBNF_H

#include <stddef.h>

#include "core/grammar/builder.h"

#define GBNF_MAX_NESTING 128 /* parentheses within each other */

/* Makes a grammar of the text. The budget may be NULL: no limit. */
int grammar_from_gbnf(struct grammar **out, const char *text, size_t n, struct budget *budget,
                      char *err, size_t err_len);

/* Reads the text's rules; its root is a piece of a larger grammar. Errors are the builder's. */
struct grammar_piece grammar_gbnf(struct grammar_builder *b, const char *text, size_t n);

#endif
