/* config/option.c - see option.h.
 *
 * options[] is options.inc expanded to a table: type, range, default, help and the member's offset
 * in struct config. One switch on the type reads or writes a value at that offset, so no setting
 * has code of its own. Numbers are parsed strictly: the whole text must be the number.
 */
#include "config/option.h"

#include "config/config.h"
#include "core/base/err.h"
#include "core/base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option options[] = {
#define ROW(sc, n, t, h, ...)                                                                      \
    {.name = #n,                                                                                   \
     .type = t,                                                                                    \
     .scope = OPTION_##sc,                                                                         \
     .offset = offsetof(struct config, n),                                                         \
     .help = h,                                                                                    \
     __VA_ARGS__},
#define STR(sc, n, d, h) ROW(sc, n, OPTION_STR, h, .def = d)
#define INT(sc, n, d, lo, hi, h) ROW(sc, n, OPTION_INT, h, .num = d, .min = lo, .max = hi)
#define SIZE(sc, n, d, lo, hi, h) ROW(sc, n, OPTION_SIZE, h, .num = d, .min = lo, .max = hi)
#define ENUM(sc, n, d, l, h) ROW(sc, n, OPTION_ENUM, h, .def = d, .words = CONFIG_WORDS(l))
#define NUM(sc, n, k, min, max, h)                                                                 \
    ROW(sc, n, OPTION_NUM, h, .def = "auto", .kind = OPTION_##k, .lo = min, .hi = max)
#include "config/options.inc"
#undef ROW
#undef STR
#undef INT
#undef SIZE
#undef ENUM
#undef NUM
};
/* ENUM members are read and written as unsigned, the type that the compiler gives such an enum. */
_Static_assert(sizeof(enum config_switch) == sizeof(unsigned) && (enum config_switch)-1 > 0,
               "an enum without negative values is unsigned");
_Static_assert(sizeof(options) / sizeof(options[0]) == OPTION_N, "a row each");

const struct option *option_at(uint32_t id)
{
    return &options[id];
}

uint32_t option_find(const char *name)
{
    uint32_t id = 0;

    while (id < OPTION_N && strcmp(options[id].name, name) != 0)
        id++;
    return id;
}

/* ---- from text ---- */

int config_parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "kmgt";
    char *end;
    uint64_t n;

    if (!isdigit((unsigned char)*text))
        return ERR_INVAL;
    errno = 0;
    n = strtoull(text, &end, 10);
    if (errno == ERANGE)
        return ERR_RANGE;
    if (*end != '\0') {
        const char *unit = strchr(units, tolower((unsigned char)*end));

        if (unit == NULL || end[1] != '\0')
            return ERR_INVAL;
        for (const char *u = units; u <= unit; u++)
            if (__builtin_mul_overflow(n, 1024u, &n))
                return ERR_RANGE;
    }
    *out = n;
    return 0;
}

static int parse_int(const char *text, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || isspace((unsigned char)*text))
        return ERR_INVAL;
    return errno == ERANGE ? ERR_RANGE : 0;
}

/* Parse a number with decimal digits and an exponent, without hexadecimal digits or inf; NAN for
 * auto. */
static int parse_number(const struct option *o, const char *text, double *out)
{
    char *end;

    *out = NAN;
    if (strcmp(text, "auto") == 0)
        return 0;
    if (text[0] == '\0' || strspn(text, "0123456789.eE+-") != strlen(text))
        return ERR_INVAL;
    *out = strtod(text, &end);
    if (*end != '\0' || (o->kind == OPTION_WHOLE && *out != floor(*out)))
        return ERR_INVAL;
    if (!(*out >= o->lo && *out <= o->hi) || (o->kind == OPTION_ABOVE && *out == o->lo))
        return ERR_RANGE;
    return 0;
}

int config_word_find(const char *words, const char *word)
{
    const size_t n = strlen(word);
    int i = 0;

    for (const char *w = words; *w != '\0'; i++) {
        const size_t len = strcspn(w, "|");

        if (len == n && memcmp(w, word, n) == 0)
            return i;
        w += len + (w[len] == '|');
    }
    return -1;
}

/* Copy word i of the list into `buf`. */
static void copy_word(const char *words, unsigned i, char *buf, size_t size)
{
    for (; i > 0; i--)
        words += strcspn(words, "|") + 1;
    snprintf(buf, size, "%.*s", (int)strcspn(words, "|"), words);
}

static void *target(const struct option *o, struct config *c)
{
    return (char *)c + o->offset;
}

static const void *option_value(const struct option *o, const struct config *c)
{
    return (const char *)c + o->offset;
}

static int set_string(const struct option *o, struct config *c, const char *value)
{
    char **text = target(o, c);
    char *copy = mem_strdup(value);

    if (copy == NULL)
        return ERR_NOMEM;
    mem_free(*text);
    *text = copy;
    return 0;
}

int option_set(const struct option *o, struct config *c, const char *text)
{
    int64_t n;
    uint64_t size;
    double number;
    int rc = 0, word;

    switch (o->type) {
    case OPTION_STR:
        return set_string(o, c, text);
    case OPTION_ENUM:
        word = config_word_find(o->words, text);
        if (word >= 0)
            *(unsigned *)target(o, c) = (unsigned)word;
        return word >= 0 ? 0 : ERR_INVAL;
    case OPTION_INT:
        rc = parse_int(text, &n);
        if (rc == 0 && (n < o->min || (n > 0 && (uint64_t)n > o->max)))
            rc = ERR_RANGE;
        if (rc == 0)
            *(int64_t *)target(o, c) = n;
        return rc;
    case OPTION_NUM:
        rc = parse_number(o, text, &number);
        if (rc == 0)
            *(double *)target(o, c) = number;
        return rc;
    case OPTION_SIZE:
        rc = config_parse_size(text, &size);
        if (rc == 0 && (size < (uint64_t)o->min || size > o->max))
            rc = ERR_RANGE;
        if (rc == 0)
            *(uint64_t *)target(o, c) = size;
        return rc;
    }
    return ERR_INTERNAL;
}

int option_set_default(const struct option *o, struct config *c)
{
    if (o->type == OPTION_STR || o->type == OPTION_ENUM || o->type == OPTION_NUM)
        return option_set(o, c, o->def);
    if (o->type == OPTION_INT)
        *(int64_t *)target(o, c) = o->num;
    else
        *(uint64_t *)target(o, c) = (uint64_t)o->num;
    return 0;
}

int option_copy(const struct option *o, struct config *c, const struct config *from)
{
    const void *value = option_value(o, from);

    if (o->type == OPTION_STR)
        return set_string(o, c, *(char *const *)value);
    memcpy(target(o, c), value, o->type == OPTION_ENUM ? sizeof(unsigned) : sizeof(uint64_t));
    return 0;
}

void option_release(const struct option *o, struct config *c)
{
    if (o->type != OPTION_STR)
        return;
    mem_free(*(char **)target(o, c));
    *(char **)target(o, c) = NULL;
}

/* ---- to text ---- */

/* Write a size as 512m for 536870912; plain digits if no unit divides it. */
static void format_size(char *buf, size_t size, uint64_t n)
{
    static const char units[] = "tgmk";

    for (int i = 0; i < 4; i++) {
        const int shift = 40 - 10 * i;

        if (n >= (uint64_t)1 << shift && (n & (((uint64_t)1 << shift) - 1)) == 0) {
            snprintf(buf, size, "%" PRIu64 "%c", n >> shift, units[i]);
            return;
        }
    }
    snprintf(buf, size, "%" PRIu64, n);
}

/* Write the shortest digits that are read as the same number. */
static void format_number(char *buf, size_t size, double v)
{
    if (isnan(v))
        snprintf(buf, size, "auto");
    for (int digits = 6; !isnan(v) && digits <= 17; digits++) {
        snprintf(buf, size, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            return;
    }
}

const char *option_show(const struct option *o, const struct config *c, char *buf, size_t size)
{
    const void *at = option_value(o, c);

    if (o->type == OPTION_STR)
        return *(char *const *)at;
    if (o->type == OPTION_ENUM)
        copy_word(o->words, *(const unsigned *)at, buf, size);
    else if (o->type == OPTION_INT)
        snprintf(buf, size, "%" PRId64, *(const int64_t *)at);
    else if (o->type == OPTION_NUM)
        format_number(buf, size, *(const double *)at);
    else
        format_size(buf, size, *(const uint64_t *)at);
    return buf;
}

void option_allowed(const struct option *o, char *buf, size_t size)
{
    char lo[32], hi[32];

    switch (o->type) {
    case OPTION_STR:
        snprintf(buf, size, "any text");
        break;
    case OPTION_ENUM:
        snprintf(buf, size, "one of %s", o->words);
        break;
    case OPTION_INT:
        snprintf(buf, size, "a whole number from %" PRId64 " to %" PRIu64, o->min, o->max);
        break;
    case OPTION_NUM:
        format_number(lo, sizeof(lo), o->lo);
        format_number(hi, sizeof(hi), o->hi);
        snprintf(buf, size, "%s %s %s to %s, or auto",
                 o->kind == OPTION_WHOLE ? "a whole number" : "a number",
                 o->kind == OPTION_ABOVE ? "above" : "from", lo, hi);
        break;
    case OPTION_SIZE:
        format_size(lo, sizeof(lo), (uint64_t)o->min);
        format_size(hi, sizeof(hi), o->max);
        snprintf(buf, size, "a size from %s to %s, such as 512m", lo, hi);
        break;
    }
}
