/* core/json/json_number.h - numbers of a JSON text as they were written.
 *
 * A cJSON number is a double, which cannot hold 9007199254740993 and does not tell 1.0 from 1. So
 * json_parse() leaves the text of a number, its literal, in the item's `valuestring`, which cJSON
 * does not use for numbers: it is copied by cJSON_Duplicate(), freed by cJSON_Delete() and borrowed
 * by json_put_reference(). A short whole number has no literal: its double is enough. A number that
 * the program makes (cJSON_CreateNumber) has none either.
 *
 * Thread: any.
 * Memory: none but the literals that json_number_keep() gives to the tree.
 */
#ifndef CORE_JSON_JSON_NUMBER_H
#define CORE_JSON_JSON_NUMBER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

#define JSON_MAX_INT_DIGITS 4300 /* most digits of a whole number, Python's own limit */

/* Return the index after the number at i, which begins with a sign or a digit; SIZE_MAX: it is not
 * a JSON number. */
size_t json_number_skip(const char *s, size_t n, size_t i);
/* json_number_is_whole_text() is true if the text has neither a point nor an exponent, so that
 * Python reads an int; json_number_is_short_text() if it is also so short that a double prints as
 * the same text. */
bool json_number_is_whole_text(const char *text, size_t n);
bool json_number_is_short_text(const char *text, size_t n);

/* True: a number of n bytes is longer than cJSON can read. json_number_blank_long() overwrites such
 * numbers by zeros in a text whose numbers json_number_skip() accepts. */
bool json_number_is_long_text(size_t n);
void json_number_blank_long(char *text, size_t n);

/* Give the numbers of `tree` their literals; text[0..n) is the text that it was parsed from, and
 * the tree has all its members in order. 0 or ERR_NOMEM. */
int json_number_keep(cJSON *tree, const char *text, size_t n);
/* Return the text of a number as the client wrote it; NULL: it is a short whole number, or the
 * program made it. */
const char *json_number_literal(const cJSON *v);
/* Return the literal or, in `room`, the shortest text that reads back as the same double. */
const char *json_number_text(const cJSON *v, char room[static 32]);
void json_add_number(struct buf *b, const cJSON *v);

/* The exact value of a number: 0.d1d2d3… * 10^scale, d1 and the last digit not being 0. Borrows the
 * item. */
struct json_decimal {
    const char *literal; /* NULL: the text is in `room` */
    char room[32];
    size_t from, to; /* text[from..to): the digits, one of which may be the point; from == to: the
                      * number is zero */
    int64_t n_digits, scale;
    bool is_negative;
};

void json_decimal_read(struct json_decimal *d, const cJSON *number);
/* Return digit i of the number as a character; '0' after the last digit. Costs at most a walk to
 * its place. */
char json_decimal_digit(const struct json_decimal *d, int64_t i);
/* Return < 0, 0 or > 0, the order of the exact values. */
int json_decimal_compare(const struct json_decimal *a, const struct json_decimal *b);
int json_number_compare(const cJSON *a, const cJSON *b);
bool json_number_is_whole(const cJSON *v); /* true also for 1.0 and 1e5 */

#endif
