/* core/tokenizer/thousands.c - see thousands.h.
 *
 * A run of digits is counted once, when the first group of it is asked for; `left` then says how
 * many digits remain, so the next group's size is left % 3, or 3. Positions inside the counted run
 * need no second look at its end.
 */
#include "core/tokenizer/thousands.h"

#include "core/base/unicode.h"
#include "core/tokenizer/split_pattern.h"

#include <stdbool.h>
#include <unictype.h>

#define OF_WORDS                                                                                   \
    (UC_CATEGORY_MASK_L | UC_CATEGORY_MASK_M | UC_CATEGORY_MASK_Nd | UC_CATEGORY_MASK_Pc)

static bool is_digit_of(const char *text, size_t n, size_t at, uint32_t categories, size_t *len)
{
    return uc_is_general_category_withtable(unicode_at(text + at, n - at, len), categories);
}

static uint32_t digits_of(enum thousands_kind kind)
{
    return kind == THOUSANDS_ALL ? UC_CATEGORY_MASK_N : UC_CATEGORY_MASK_Nd;
}

/* True: a digit is at `at`. Counts the digits when a new run begins there. */
static bool enter_run(struct thousands *t, enum thousands_kind kind, const char *text, size_t n,
                      size_t at)
{
    size_t len, left = 0, end = at;

    if (at >= t->first && at < t->last)
        return true;
    for (; end < n && is_digit_of(text, n, end, digits_of(kind), &len); left++)
        end += len;
    t->steps += left + 1;
    if (left == 0)
        return false;
    t->first = at;
    t->last = end;
    t->left = left;
    return true;
}

static size_t skip(struct thousands *t, const char *text, size_t n, size_t at, size_t digits)
{
    size_t len;

    for (; digits > 0; digits--, t->left--) {
        unicode_at(text + at, n - at, &len);
        at += len;
    }
    return at;
}

/* Return the next place after `from` that a multiple of three digits follows, else the text's
 * end. */
static size_t next_place(struct thousands *t, const char *text, size_t n, size_t from)
{
    bool inside = enter_run(t, THOUSANDS_BETWEEN, text, n, from);
    size_t at = from, len;

    while (at < n) {
        if (inside) {
            at = skip(t, text, n, at, 1);
        } else {
            unicode_at(text + at, n - at, &len);
            at += len;
        }
        inside = at < n && enter_run(t, THOUSANDS_BETWEEN, text, n, at);
        if (inside && t->left % 3 == 0)
            return at;
    }
    return n;
}

size_t thousands_match(struct thousands *t, enum thousands_kind kind, const char *text, size_t n,
                       size_t from)
{
    size_t len;

    if (kind == THOUSANDS_BETWEEN)
        return next_place(t, text, n, from);
    if (!enter_run(t, kind, text, n, from))
        return SPLIT_NONE;
    if (kind == THOUSANDS_ALONE && t->last < n && is_digit_of(text, n, t->last, OF_WORDS, &len))
        return SPLIT_NONE;
    return skip(t, text, n, from, t->left % 3 > 0 ? t->left % 3 : 3);
}
