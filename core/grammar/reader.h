/* core/grammar/reader.h - the text of a grammar or a regular expression, read from left to right.
 *
 * The parsers of both notations share this reader. `at` never goes beyond the end, where
 * reader_peek() is NUL. Parsers continue after an error until they next ask reader_has_failed();
 * the first error counts.
 *
 * Thread: one owner.
 * Memory: none; text and builder are borrowed.
 * Errors: the builder's; the sentence begins with the line, or with the byte of a text of one line.
 */
#ifndef CORE_GRAMMAR_READER_H
#define CORE_GRAMMAR_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grammar_builder;
struct rule_names;

struct reader {
    struct grammar_builder *b;
    const char *text;
    size_t n, at;
    bool has_lines;           /* errors name the line, not the byte */
    uint32_t nesting;         /* open parentheses */
    struct rule_names *names; /* gbnf.c: the rules by name */
    unsigned flags;           /* regex.c: enum regex_flags */
};

/* Records an error at this place; returns false. */
bool reader_fail(struct reader *r, int code, const char *what);
bool reader_has_failed(const struct reader *r);

char reader_peek(const struct reader *r);
/* Passes one byte, unless the text has ended. */
void reader_pass(struct reader *r);
/* Passes `what` if it is next; returns whether it was. */
bool reader_take(struct reader *r, const char *what);

/* Reads a character; returns 0 with the error `what` at the end or if it is not UTF-8. */
uint32_t reader_char(struct reader *r, const char *what);
/* Reads a code point written as n hexadecimal digits; halves of surrogate pairs and numbers that
 * are too high are the error `code` with `what`. */
uint32_t reader_hex(struct reader *r, uint32_t n, int code, const char *what);
/* Reads a decimal number of at most GRAMMAR_MAX_REPEAT. False: there is none, or it is too large,
 * which is an error. */
bool reader_count(struct reader *r, uint32_t *n);

#endif
