/* core/tokenizer/split_compile.c - compiles a pattern's notation into steps and sets; see
 * split_pattern.h.
 *
 * A recursive-descent reader over the notation; an error is stored once in the reader and every
 * later step is harmless, so the parser has no error paths. Equal sets get one number. At the end
 * the sets of each ASCII character, and of each category for those sets that are the same for a
 * whole category, are tabulated; only other sets are evaluated while matching.
 */
#include "core/tokenizer/split_pattern_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <unictype.h>

struct reader {
    struct split_pattern *p;
    const char *s; /* the part of the pattern that is not read yet */
    int rc;
    struct split_step spare; /* takes the step for which there is no room */
};

static void refuse_pattern(struct reader *r, int rc)
{
    if (r->rc == 0)
        r->rc = rc;
}

static bool take_pattern_text(struct reader *r, const char *text)
{
    const size_t n = strlen(text);

    if (r->rc != 0 || strncmp(r->s, text, n) != 0)
        return false;
    r->s += n;
    return true;
}

/* ---- sets */

static void add_class_range(struct reader *r, struct split_set *set, uint32_t from, uint32_t to)
{
    if (r->p->n_ranges == SPLIT_MAX_RANGES || to < from)
        refuse_pattern(r, to < from ? ERR_FORMAT : ERR_LIMIT);
    else
        r->p->ranges[r->p->n_ranges++] = (struct split_range){from, to};
    set->n = r->p->n_ranges - set->first;
}

static uint32_t category_bits(uc_general_category_t category)
{
    return category.bitmask;
}

static void add_spaces(struct reader *r, struct split_set *set)
{
    set->categories |= category_bits(UC_CATEGORY_Z) | 1u << SPLIT_NEXT_LINE;
    add_class_range(r, set, '\t', '\r');
}

/* Read the rest of \p{...}, after the p. */
static void add_class_property(struct reader *r, struct split_set *set)
{
    char name[3] = {0};
    uc_general_category_t category;

    if (take_pattern_text(r, "{Han}")) {
        set->with_han = true;
        return;
    }
    for (size_t i = 0; r->s[0] == '{' && i < 2 && r->s[1 + i] != '}' && r->s[1 + i] != '\0'; i++)
        name[i] = r->s[1 + i];
    category = uc_general_category_byname(name);
    if (category_bits(category) == 0 || r->s[1 + strlen(name)] != '}') {
        refuse_pattern(r, ERR_FORMAT);
        return;
    }
    r->s += strlen(name) + 2;
    set->categories |= category_bits(category);
    if ((set->categories & category_bits(UC_CATEGORY_Cc)) != 0)
        set->categories |= 1u << SPLIT_NEXT_LINE;
}

static uint32_t read_pattern_hex(struct reader *r)
{
    char *end;
    const unsigned long value = strtoul(r->s + 1, &end, 16);

    if (r->s[0] != '{' || *end != '}' || value > 0x10FFFF) {
        refuse_pattern(r, ERR_FORMAT);
        return 0;
    }
    r->s = end + 1;
    return (uint32_t)value;
}

/* Read one character; class escapes have been taken before. */
static uint32_t read_character(struct reader *r)
{
    size_t len;
    uint32_t c;

    if (take_pattern_text(r, "\\x"))
        return read_pattern_hex(r);
    if (take_pattern_text(r, "\\r"))
        return '\r';
    if (take_pattern_text(r, "\\n"))
        return '\n';
    if (take_pattern_text(r, "\\t"))
        return '\t';
    take_pattern_text(r, "\\");
    if (r->s[0] == '\0') {
        refuse_pattern(r, ERR_FORMAT);
        return 0;
    }
    c = unicode_at(r->s, strlen(r->s), &len);
    r->s += len;
    return c;
}

/* Read a class escape, if there is one. */
static bool take_class(struct reader *r, struct split_set *set)
{
    if (take_pattern_text(r, "\\s"))
        add_spaces(r, set);
    else if (take_pattern_text(r, "\\d"))
        set->categories |= category_bits(UC_CATEGORY_Nd);
    else if (take_pattern_text(r, "\\p"))
        add_class_property(r, set);
    else
        return false;
    return true;
}

/* Read the members of a set between [ and ]. */
static void read_members(struct reader *r, struct split_set *set)
{
    set->negated = take_pattern_text(r, "^");
    while (r->rc == 0 && !take_pattern_text(r, "]")) {
        uint32_t from, to;

        if (take_pattern_text(r, "&&[^\\p{Han}]")) {
            set->without_han = true;
            continue;
        }
        if (take_class(r, set))
            continue;
        from = to = read_character(r);
        if (r->s[0] == '-' && r->s[1] != ']' && take_pattern_text(r, "-"))
            to = read_character(r);
        add_class_range(r, set, from, to);
    }
}

static bool same_ranges(const struct split_pattern *p, const struct split_set *a,
                        const struct split_set *b)
{
    return a->n == b->n &&
           memcmp(&p->ranges[a->first], &p->ranges[b->first], a->n * sizeof(p->ranges[0])) == 0;
}

/* Return the bit of a set; equal sets share one. */
static uint32_t bit_of(struct reader *r, const struct split_set *set)
{
    struct split_pattern *p = r->p;

    for (uint32_t i = 0; i < p->n_sets; i++) {
        const struct split_set *old = &p->sets[i];

        if (old->categories == set->categories && old->negated == set->negated &&
            old->with_han == set->with_han && old->without_han == set->without_han &&
            same_ranges(p, old, set)) {
            p->n_ranges = set->first;
            return 1u << i;
        }
    }
    if (p->n_sets == SPLIT_MAX_SETS) {
        refuse_pattern(r, ERR_LIMIT);
        return 0;
    }
    p->sets[p->n_sets] = *set;
    return 1u << p->n_sets++;
}

static void set_single(struct reader *r, struct split_set *set)
{
    const uint32_t c = read_character(r);

    add_class_range(r, set, c, c);
}

static uint32_t read_set(struct reader *r)
{
    struct split_set set = {.first = r->p->n_ranges};

    if (take_pattern_text(r, "["))
        read_members(r, &set);
    else if (!take_class(r, &set)) {
        if (strchr("()[]{}?*+^.", r->s[0]) != NULL) /* the character has another meaning in Perl */
            refuse_pattern(r, ERR_FORMAT);
        set_single(r, &set);
    }
    return r->rc == 0 ? bit_of(r, &set) : 0;
}

/* ---- steps */

static struct split_step *add_split_step(struct reader *r, enum split_step_kind kind)
{
    if (r->p->n_steps == SPLIT_MAX_STEPS) {
        refuse_pattern(r, ERR_LIMIT);
        return &r->spare;
    }
    r->p->steps[r->p->n_steps] = (struct split_step){.kind = kind, .min = 1, .max = 1};
    return &r->p->steps[r->p->n_steps++];
}

static uint32_t read_number(struct reader *r)
{
    char *end;
    const unsigned long value = strtoul(r->s, &end, 10);

    if (end == r->s || value > 65536)
        refuse_pattern(r, ERR_FORMAT);
    r->s = end;
    return (uint32_t)value;
}

static void read_repeat(struct reader *r, struct split_step *step)
{
    if (take_pattern_text(r, "?")) {
        step->min = 0;
    } else if (take_pattern_text(r, "*")) {
        step->min = 0;
        step->max = UINT32_MAX;
    } else if (take_pattern_text(r, "+")) {
        step->max = UINT32_MAX;
    } else if (take_pattern_text(r, "{")) {
        step->min = step->max = read_number(r);
        if (take_pattern_text(r, ","))
            step->max = read_number(r);
        if (!take_pattern_text(r, "}"))
            refuse_pattern(r, ERR_FORMAT);
    }
}

static void read_ending(struct reader *r)
{
    struct split_ending *ending = &r->p->endings[r->p->n_endings];
    const size_t n = strcspn(r->s, "|)");

    if (n == 0 || n > sizeof(ending->text) || r->p->n_endings == SPLIT_MAX_ENDINGS) {
        refuse_pattern(r, ERR_LIMIT);
        return;
    }
    memcpy(ending->text, r->s, n);
    ending->len = (uint32_t)n;
    r->p->n_endings++;
    r->s += n;
}

/* Read the rest of (?i:...), after the colon. */
static void read_endings(struct reader *r)
{
    struct split_step *step = add_split_step(r, SPLIT_ENDINGS);

    step->first = r->p->n_endings;
    do
        read_ending(r);
    while (take_pattern_text(r, "|"));
    step->count = r->p->n_endings - step->first;
    if (!take_pattern_text(r, ")"))
        refuse_pattern(r, ERR_FORMAT);
    if (take_pattern_text(r, "?"))
        step->min = 0;
}

static void read_choice(struct reader *r)
{
    struct split_pattern *p = r->p;

    if (p->n_choices == SPLIT_MAX_CHOICES) {
        refuse_pattern(r, ERR_LIMIT);
        return;
    }
    p->choices[p->n_choices++] = p->n_steps;
    while (r->rc == 0 && r->s[0] != '\0' && r->s[0] != '|') {
        if (take_pattern_text(r, "(?i:")) {
            read_endings(r);
        } else if (take_pattern_text(r, "(?!\\S)")) {
            add_split_step(r, SPLIT_NO_LETTER);
        } else if (take_pattern_text(r, "$")) {
            add_split_step(r, SPLIT_AT_END);
        } else {
            struct split_step *step = add_split_step(r, SPLIT_SET);

            step->set = read_set(r);
            read_repeat(r, step);
        }
    }
    add_split_step(r, SPLIT_END);
}

/* ---- tables */

/* True: the set differs between two characters of the same category, beyond ASCII. */
static bool is_asked(const struct split_pattern *p, const struct split_set *set)
{
    for (uint32_t i = set->first; i < set->first + set->n; i++)
        if (p->ranges[i].to >= 0x80)
            return true;
    return set->with_han || set->without_han;
}

static void fill_sets(struct split_pattern *p)
{
    for (uint32_t i = 0; i < p->n_sets; i++) {
        const struct split_set *set = &p->sets[i];

        for (uint32_t c = 0; c < 128; c++)
            if (split_set_has(p, set, c))
                p->ascii[c] |= 1u << i;
        if (is_asked(p, set))
            p->asked |= 1u << i;
        for (uint32_t k = 0; !is_asked(p, set) && k < SPLIT_N_CATEGORIES; k++)
            if ((set->categories >> k & 1) != set->negated)
                p->by_category[k] |= 1u << i;
    }
}

static bool can_begin(const struct split_pattern *p, const struct split_step *step, uint32_t c)
{
    for (;; step++) {
        if (step->kind == SPLIT_SET && (p->ascii[c] & step->set) != 0)
            return true;
        for (uint32_t i = 0; step->kind == SPLIT_ENDINGS && i < step->count; i++)
            if ((uint8_t)p->endings[step->first + i].text[0] == c)
                return true;
        if ((step->kind != SPLIT_SET && step->kind != SPLIT_ENDINGS) || step->min > 0)
            return false;
    }
}

static void fill_starts(struct split_pattern *p)
{
    for (uint32_t i = 0; i < p->n_choices; i++) {
        p->all |= 1u << i;
        for (uint32_t c = 0; c < 128; c++)
            if (can_begin(p, &p->steps[p->choices[i]], c))
                p->starts[c] |= 1u << i;
    }
}

int split_pattern_create(struct split_pattern **out, const char *source)
{
    struct reader r = {.p = mem_calloc(1, sizeof(*r.p)), .s = source};
    struct split_set space = {0};

    *out = NULL;
    if (r.p == NULL)
        return ERR_NOMEM;
    add_spaces(&r, &space);
    r.p->space = bit_of(&r, &space);
    do
        read_choice(&r);
    while (take_pattern_text(&r, "|"));
    if (r.rc == 0 && r.s[0] != '\0')
        r.rc = ERR_FORMAT;
    if (r.rc != 0) {
        split_pattern_destroy(&r.p);
        return r.rc;
    }
    fill_sets(r.p);
    fill_starts(r.p);
    *out = r.p;
    return 0;
}

void split_pattern_destroy(struct split_pattern **p)
{
    if (p == NULL)
        return;
    mem_free(*p);
    *p = NULL;
}
