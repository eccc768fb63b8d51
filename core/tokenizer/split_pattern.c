/* core/tokenizer/split_pattern.c - matching of split patterns; see split_pattern.h.
 *
 * A small backtracking matcher: alternatives are tried in order, and a set step takes the longest
 * run and gives characters back until the following steps match. A character's sets are one word of
 * bits, so a test is a table look-up and an AND. dead[] stores for each alternative how far it is
 * known to fail, which makes cutting a whole text linear.
 */
#include "core/tokenizer/split_pattern_impl.h"

#include "core/base/unicode.h"

#include <string.h>
#include <unictype.h>

#define LONG_S 0x17F /* long s: equal to s without regard to case */

struct scan {
    const struct split_pattern *p;
    struct split_memo *memo;
    const char *text;
    size_t n;
};

/* ---- classes of a character */

static const struct {
    uint32_t from, to, category;
} newer[] = {
#define RANGE(from, to, category) {from, to, UC_CATEGORY_MASK_##category},
#include "core/tokenizer/newer_categories.inc"
};

/* Return the category of a character that libunistring does not know. */
static uint32_t newer_category(uint32_t character)
{
    size_t low = 0, high = sizeof(newer) / sizeof(newer[0]);

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (newer[middle].to < character)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < sizeof(newer) / sizeof(newer[0]) && newer[low].from <= character)
        return newer[low].category;
    return UC_CATEGORY_MASK_Cn;
}

uint32_t split_category(uint32_t character)
{
    uint32_t category;

    if (character == 0x85)
        return SPLIT_NEXT_LINE;
    category = uc_general_category(character).bitmask;
    if (category == UC_CATEGORY_MASK_Cn)
        category = newer_category(character);
    return (uint32_t)__builtin_ctz(category);
}

static bool is_han(uint32_t character)
{
    const uc_script_t *script = uc_script(character);

    return script != NULL && strcmp(script->name, "Han") == 0;
}

static bool in_ranges(const struct split_pattern *p, const struct split_set *set,
                      uint32_t character)
{
    for (uint32_t i = set->first; i < set->first + set->n; i++)
        if (p->ranges[i].from <= character && character <= p->ranges[i].to)
            return true;
    return false;
}

bool split_set_has(const struct split_pattern *p, const struct split_set *set, uint32_t character)
{
    const bool listed = (set->categories >> split_category(character) & 1) != 0 ||
                        in_ranges(p, set, character) || (set->with_han && is_han(character));

    return listed != set->negated && !(set->without_han && is_han(character));
}

static uint32_t sets_of(const struct split_pattern *p, uint32_t character)
{
    uint32_t sets = p->by_category[split_category(character)];

    for (uint32_t ask = p->asked; ask != 0; ask &= ask - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(ask);

        if (split_set_has(p, &p->sets[i], character))
            sets |= 1u << i;
    }
    return sets;
}

static bool is_of(const struct scan *c, size_t at, uint32_t set, size_t *len)
{
    const uint8_t byte = (uint8_t)c->text[at];

    if (byte < 0x80) {
        *len = 1;
        return (c->p->ascii[byte] & set) != 0;
    }
    return (sets_of(c->p, unicode_at(c->text + at, c->n - at, len)) & set) != 0;
}

/* ---- steps */

/* Return the end of the run of characters in the step's set; *count gets their number. */
static size_t run_end(const struct scan *c, const struct split_step *step, size_t from,
                      uint32_t *count)
{
    size_t at = from, len;
    uint32_t k = 0;

    for (; at < c->n && k < step->max && is_of(c, at, step->set, &len); k++)
        at += len;
    *count = k;
    c->memo->steps += k + 1;
    return at;
}

static bool is_letter(const struct scan *c, size_t at, char letter, size_t *len)
{
    const uint8_t byte = at < c->n ? (uint8_t)c->text[at] : 0;

    *len = 1;
    if (byte == (uint8_t)letter || (byte >= 'A' && byte <= 'Z' && byte + 32 == (uint8_t)letter))
        return true;
    return letter == 's' && byte >= 0x80 && unicode_at(c->text + at, c->n - at, len) == LONG_S;
}

static size_t ending_end(const struct scan *c, const struct split_ending *ending, size_t at)
{
    for (uint32_t i = 0; i < ending->len; i++) {
        size_t len;

        if (!is_letter(c, at, ending->text[i], &len))
            return SPLIT_NONE;
        at += len;
    }
    return at;
}

static size_t match_from(const struct scan *c, const struct split_step *step, size_t at);

static size_t match_endings(const struct scan *c, const struct split_step *step, size_t at)
{
    for (uint32_t i = step->first; i < step->first + step->count; i++) {
        const size_t end = ending_end(c, &c->p->endings[i], at);
        const size_t fits = end != SPLIT_NONE ? match_from(c, step + 1, end) : SPLIT_NONE;

        if (fits != SPLIT_NONE)
            return fits;
    }
    return step->min == 0 ? match_from(c, step + 1, at) : SPLIT_NONE;
}

/* Take as many characters as possible, then fewer, until the following steps match. */
static size_t match_set(const struct scan *c, const struct split_step *step, size_t at)
{
    uint32_t count;
    size_t end = run_end(c, step, at, &count);

    if (step[1].kind == SPLIT_END) /* no step follows that could need fewer */
        return count >= step->min ? end : SPLIT_NONE;
    for (; count >= step->min; count--) {
        const size_t fits = match_from(c, step + 1, end);

        if (fits != SPLIT_NONE || count == 0)
            return fits;
        end -= (uint8_t)c->text[end - 1] < 0x80 ? 1 : unicode_last(c->text, end);
    }
    return SPLIT_NONE;
}

/* Match from this step on. Recursion is as deep as the alternative has steps. */
static size_t match_from(const struct scan *c, const struct split_step *step, size_t at)
{
    size_t len;

    switch (step->kind) {
    case SPLIT_END:
        return at;
    case SPLIT_SET:
        return match_set(c, step, at);
    case SPLIT_ENDINGS:
        return match_endings(c, step, at);
    case SPLIT_NO_LETTER:
        if (at < c->n && !is_of(c, at, c->p->space, &len))
            return SPLIT_NONE;
        return match_from(c, step + 1, at);
    case SPLIT_AT_END:
        return at == c->n ? match_from(c, step + 1, at) : SPLIT_NONE;
    }
    return SPLIT_NONE;
}

/* Remember where an alternative fails. If it begins with a run without limit and does not match
 * here, it cannot match further on in the run: the steps after the run would have fewer places to
 * match. */
static void remember_failure(const struct scan *c, uint32_t choice, size_t from)
{
    const struct split_step *step = &c->p->steps[c->p->choices[choice]];
    uint32_t count;

    if (step->kind == SPLIT_SET && step->max == UINT32_MAX)
        c->memo->dead[choice] = run_end(c, step, from, &count);
}

size_t split_pattern_match(const struct split_pattern *p, struct split_memo *memo, const char *text,
                           size_t n, size_t from)
{
    const struct scan c = {.p = p, .memo = memo, .text = text, .n = n};
    const uint8_t lead = (uint8_t)text[from];

    memo->steps++;
    for (uint32_t left = lead < 0x80 ? p->starts[lead] : p->all; left != 0; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(left);
        size_t end;

        if (from < memo->dead[i])
            continue;
        end = match_from(&c, &p->steps[p->choices[i]], from);
        if (end != SPLIT_NONE && end > from)
            return end;
        remember_failure(&c, i, from);
    }
    return SPLIT_NONE;
}

size_t split_pattern_skip(const struct split_pattern *p, struct split_memo *memo, const char *text,
                          size_t n, size_t from)
{
    size_t at = from;

    while (at < n && (uint8_t)text[at] < 0x80 && p->starts[(uint8_t)text[at]] == 0)
        at++;
    memo->steps += at - from;
    return at;
}

void split_memo_forget(const struct split_pattern *p, struct split_memo *memo)
{
    for (uint32_t i = 0; i < p->n_choices; i++)
        memo->dead[i] = 0;
}
