/* core/grammar/regex_class.c - classes of characters that have names: \d, \s, \w, \p{...}.
 *
 * ECMAScript and Python disagree about some characters. So each letter has two sets: the characters
 * that surely belong to the class, and those that may belong to it in one of the languages. A class
 * is made of the sure ones, a negated one leaves out all that may belong: a text that is made
 * matches in both languages. \p asks libunistring about every code point; regex_add_property()
 * charges the budget for that.
 */
#include "core/grammar/regex_impl.h"

#include "core/base/err.h"

#include <string.h>
#include <unictype.h>

struct letter_class {
    char letter;
    uint32_t n;
    struct char_range at[12];
};

/* Characters that ECMAScript or Python takes for blanks. */
#define BLANKS                                                                                     \
    {0x09, 0x0D}, {0x1C, 0x20}, {0x85, 0x85}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x180E, 0x180E},    \
        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},  \
    {                                                                                              \
        0xFEFF, 0xFEFF                                                                             \
    }

/* Characters that surely belong to the class. */
static const struct letter_class sure[] = {
    {'d', 1, {{'0', '9'}}},
    {'w', 4, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {'s', 2, {{0x09, 0x0D}, {0x20, 0x20}}},
};
/* Characters that may belong to the class. */
static const struct letter_class perhaps[] = {
    {'d', 2, {{'0', '9'}, {0x80, CHAR_LAST}}},
    {'w', 5, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {0x80, CHAR_LAST}}},
    {'s', 12, {BLANKS}},
};

static void add_letter(struct char_class *c, const struct letter_class *list, char letter)
{
    for (int i = 0; i < 3; i++)
        for (uint32_t k = 0; list[i].letter == letter && k < list[i].n; k++)
            char_class_add(c, list[i].at[k].from, list[i].at[k].to);
}

bool regex_add_letter(struct char_class *c, char letter, bool wide)
{
    const char lower = (char)(letter | 0x20);
    const bool negated = letter != lower;
    struct char_class one;

    if (lower != 'd' && lower != 'w' && lower != 's')
        return false;
    char_class_clear(&one);
    add_letter(&one, wide != negated ? perhaps : sure, lower);
    if (negated)
        char_class_negate(&one);
    char_class_merge(c, &one);
    return true;
}

void regex_word_class(struct char_class *c)
{
    add_letter(c, sure, 'w');
    char_class_sort(c);
}

void regex_dot(struct char_class *c)
{
    char_class_add(c, '\n', '\n');
    char_class_add(c, '\r', '\r');
    char_class_add(c, 0x2028, 0x2029);
    char_class_negate(c);
}

/* ---- Unicode ---- */

struct property { /* `kind` says which of the three is set */
    uc_general_category_t category;
    const uc_script_t *script;
    uc_property_t property;
    enum { NO_PROPERTY, BY_CATEGORY, BY_SCRIPT, BY_PROPERTY } kind;
};

/* Finds a category by its name; libunistring's categories are bit masks, 0 for none. */
static bool named_category(struct property *p, const char *name)
{
    p->category = uc_general_category_byname(name);
    p->kind = p->category.bitmask != 0 ? BY_CATEGORY : NO_PROPERTY;
    return p->kind != NO_PROPERTY;
}

static bool named_script(struct property *p, const char *name)
{
    p->script = uc_script_byname(name);
    p->kind = p->script != NULL ? BY_SCRIPT : NO_PROPERTY;
    return p->kind != NO_PROPERTY;
}

static bool named_property(struct property *p, const char *name)
{
    p->property = uc_property_byname(name);
    p->kind = uc_property_is_valid(p->property) ? BY_PROPERTY : NO_PROPERTY;
    return p->kind != NO_PROPERTY;
}

static bool named(struct property *p, char *name)
{
    char *value = strchr(name, '=');

    if (value == NULL)
        return named_category(p, name) || named_property(p, name);
    *value++ = '\0';
    if (strcmp(name, "Script") == 0 || strcmp(name, "sc") == 0)
        return named_script(p, value);
    if (strcmp(name, "General_Category") == 0 || strcmp(name, "gc") == 0)
        return named_category(p, value);
    return false;
}

static bool has_property(const struct property *p, uint32_t c)
{
    if (p->kind == BY_CATEGORY)
        return uc_is_general_category(c, p->category);
    if (p->kind == BY_SCRIPT)
        return uc_is_script(c, p->script);
    return uc_is_property(c, p->property);
}

/* Adds the characters with the property; `wide` adds unassigned ones, to which a newer Unicode may
 * give it. */
static void add_regex_property(struct char_class *c, const struct property *p, bool wide)
{
    uint32_t from = UINT32_MAX;

    for (uint32_t i = 0; i <= CHAR_LAST + 1; i++) {
        const bool in = i <= CHAR_LAST &&
                        (has_property(p, i) || (wide && uc_is_general_category(i, UC_CATEGORY_Cn)));

        if (in && from == UINT32_MAX)
            from = i;
        if (!in && from != UINT32_MAX) {
            char_class_add(c, from, i - 1);
            from = UINT32_MAX;
        }
    }
}

void regex_add_property(struct reader *r, struct char_class *c, bool negated, bool wide)
{
    struct property p = {.kind = NO_PROPERTY};
    struct char_class one;
    char name[64];
    size_t n = 0;

    if (reader_take(r, "{"))
        for (; n + 1 < sizeof(name) && r->at < r->n && reader_peek(r) != '}'; reader_pass(r))
            name[n++] = reader_peek(r);
    name[n] = '\0';
    if (n == 0 || !reader_take(r, "}") || !named(&p, name)) {
        reader_fail(r, ERR_UNSUPPORTED, "\\p must name a category, a script or a property");
        return;
    }
    if (grammar_builder_spend(r->b, (CHAR_LAST + 1) / 4) < 0)
        return;
    char_class_clear(&one);
    add_regex_property(&one, &p, wide != negated);
    if (negated)
        char_class_negate(&one);
    char_class_merge(c, &one);
}
