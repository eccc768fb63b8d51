/* config/duration.c - see duration.h.
 *
 * A sum of parts, each a decimal number with a unit, added up in a double. "ms" and "us" come
 * before "m" and "s" in the table, because the first unit that matches is taken. strtod() reads the
 * digits, after exponents and hexadecimal numbers were refused.
 */
#include "config/duration.h"

#include "core/base/err.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SECOND 1e6
#define MOST (100 * 365.0 * 86400 * SECOND) /* longest duration: a hundred years */

static const struct {
    const char *name;
    double us;
} units[] = {{"ms", 1e3}, {"us", 1}, {"h", 3600 * SECOND}, {"m", 60 * SECOND}, {"s", SECOND}};

/* Return the microseconds of the unit at *text and move *text past it; 0: there is no unit. */
static double take_unit(const char **text)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        const size_t n = strlen(units[i].name);

        if (strncmp(*text, units[i].name, n) == 0) {
            *text += n;
            return units[i].us;
        }
    }
    return 0;
}

/* Read one number with its unit; only a single number may lack one (seconds). */
static int take_part(const char **text, bool is_first, double *sum)
{
    const char *from = *text;
    char *end;
    double number, unit;

    if (!isdigit((unsigned char)*from) && *from != '.')
        return ERR_INVAL;
    /* strtod() would take exponents and hexadecimal digits. */
    if (tolower((unsigned char)from[strspn(from, "0123456789.")]) == 'e' ||
        strncasecmp(from, "0x", 2) == 0)
        return ERR_INVAL;
    number = strtod(from, &end);
    if (end == from)
        return ERR_INVAL;
    *text = end;
    unit = take_unit(text);
    if (unit == 0 && (!is_first || *end != '\0'))
        return ERR_INVAL;
    *sum += number * (unit > 0 ? unit : SECOND);
    return 0;
}

int duration_parse(const char *text, uint64_t *us)
{
    const bool is_negative = *text == '-';
    const char *at = text + (is_negative ? 1 : 0);
    double sum = 0;

    do {
        if (take_part(&at, at == text + (is_negative ? 1 : 0), &sum) < 0)
            return ERR_INVAL;
    } while (*at != '\0');
    if (!is_negative && sum > MOST)
        return ERR_INVAL;
    *us = is_negative ? DURATION_NEVER : (uint64_t)sum;
    return 0;
}
