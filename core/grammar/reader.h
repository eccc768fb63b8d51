/* core/grammar/reader.h - the text of a grammar or a regular expression, read from left to right.
 *
 * What the parsers of both notations share. `at` never goes beyond the end, where reader_peek() is
 * NUL. Parsers go on after an error until they next ask reader_has_failed(): the first one counts.
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
    bool has_lines;           /* in sentences */
    uint32_t nesting;         /* parentheses that are open */
    struct rule_names *names; /* gbnf.c: the rules by name */
    unsigned flags;           /* regex.c: enum regex_flags */
};

/* Record the error; false. */
bool reader_fail(struct reader *r, int code, const char *what);
bool reader_has_failed(const struct reader *r);

char reader_peek(const struct reader *r);
/* Past one byte, if there is one. */
void reader_pass(struct reader *r);
/* Past `what`, if it stands here. */
bool reader_take(struct reader *r, const char *what);

/* The character here, or 0 and an error: `what`. */
uint32_t reader_char(struct reader *r, const char *what);
/* The character whose code point stands here as n digits; halves of surrogate pairs and numbers
 * that are too high are the error `code` with `what`. */
uint32_t reader_hex(struct reader *r, uint32_t n, int code, const char *what);
/* A number in decimal, at most GRAMMAR_MAX_REPEAT; false: none, or too large, which is an error. */
bool reader_count(struct reader *r, uint32_t *n);

#endif
