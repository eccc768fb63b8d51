/* server/api/chat/call_pattern.c - parses patterns, and matches text against them.
 *
 * A pattern is a flat list of items that is matched from left to right without backtracking. A name
 * or key is a hole that ends at the first text that may follow it (pattern_next), so the marks of a
 * family decide where it ends. If the text ends in the middle of an item, the verdict is
 * PATTERN_MORE and the caller matches again from the beginning with more text; PATTERN_MAX_HEAD
 * bounds that.
 */
#include "server/api/chat/call_pattern.h"

#include "server/api/chat/family.h"

#include <string.h>

/* ---- parsing ---- */

static const struct {
    const char *word;
    enum pattern_kind kind;
} words[] = {
    {"NAME", PATTERN_NAME},
    {"NAME_INDEX", PATTERN_NAME_INDEX},
    {"ID", PATTERN_ID},
    {"KEY", PATTERN_KEY},
    {"SKIP", PATTERN_SKIP},
    {"CALLS", PATTERN_CALLS},
    {"JSON", PATTERN_JSON},
    {"OBJECT", PATTERN_OBJECT},
    {"KEYED", PATTERN_KEYED},
    {"TEXT", PATTERN_VALUE_TEXT},
    {"TAGS", PATTERN_VALUE_TAGS},
    {"ARGUMENTS", PATTERN_ARGUMENTS},
    {"STRING", PATTERN_VALUE_STRING},
    {"VALUE", PATTERN_VALUE_JSON},
    {"PYTHON", PATTERN_VALUE_PYTHON},
    {"QUOTED", PATTERN_VALUE_QUOTED},
};

static struct pattern_item *pattern_add(struct call_pattern *p, enum pattern_kind kind)
{
    struct pattern_item *item = p->n < PATTERN_MAX_ITEMS ? &p->at[p->n++] : NULL;

    if (item != NULL)
        *item = (struct pattern_item){.kind = kind};
    return item;
}

/* Reads the item's text, whose opening quote stands at *line; moves *line past the closing one. */
static const char *parse_text(struct pattern_item *item, char **line)
{
    item->text = family_unquote(line, &item->n);
    if (item->text == NULL)
        return "a text has no closing quote";
    return item->n > 0 ? NULL : "a text is empty";
}

static const char *parse_word(struct call_pattern *p, char **line)
{
    const size_t n = strspn(*line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i].word) == n && memcmp(words[i].word, *line, n) == 0) {
            *line += n;
            return pattern_add(p, words[i].kind) != NULL ? NULL : "a pattern has too many parts";
        }
    return "a pattern has an unknown word";
}

/* Ends a group. `opened` is the index + 1 of the open group, 0: none. */
static const char *close_group(struct call_pattern *p, uint32_t *opened, char **line)
{
    struct pattern_item *group = &p->at[*opened - 1];

    if (*opened == 0 || p->n == *opened || p->at[*opened].kind != PATTERN_TEXT ||
        p->at[*opened].is_optional || (*line)[1] != '?')
        return "a group must be ( \"text\" … )?";
    group->n_items = (uint8_t)(p->n - *opened);
    *opened = 0;
    *line += 2;
    return NULL;
}

static const char *parse_item(struct call_pattern *p, uint32_t *opened, char **line)
{
    struct pattern_item *item;
    const char *why;

    switch (**line) {
    case '"':
        item = pattern_add(p, PATTERN_TEXT);
        why = item != NULL ? parse_text(item, line) : "a pattern has too many parts";
        if (why == NULL && **line == '?') {
            item->is_optional = true;
            ++*line;
        }
        return why;
    case '~':
        ++*line;
        return pattern_add(p, PATTERN_BLANKS) != NULL ? NULL : "a pattern has too many parts";
    case '(':
        ++*line;
        if (*opened != 0 || pattern_add(p, PATTERN_GROUP) == NULL)
            return "a group cannot contain another group";
        *opened = p->n;
        return NULL;
    case ')':
        return close_group(p, opened, line);
    default:
        return parse_word(p, line);
    }
}

const char *pattern_parse(struct call_pattern *out, char *line)
{
    const char *why = NULL;
    uint32_t opened = 0;

    *out = (struct call_pattern){0};
    for (line += strspn(line, " \t"); why == NULL && *line != '\0'; line += strspn(line, " \t"))
        why = parse_item(out, &opened, &line);
    if (why == NULL && opened != 0)
        why = "a group is not closed";
    return why;
}

uint32_t pattern_hole(const struct call_pattern *p)
{
    uint32_t i = 0;

    while (i < p->n && p->at[i].kind < PATTERN_CALLS)
        i++;
    return i;
}

/* ---- the next texts ---- */

static void texts_add(struct pattern_texts *out, const char *text)
{
    if (out->n < PATTERN_MAX_TEXTS)
        out->at[out->n++] = text;
}

/* Adds the texts that an item may begin with. False: the item may be missing, or is white space. */
static bool item_next(const struct family *f, const struct pattern_item *item,
                      struct pattern_texts *out)
{
    switch (item->kind) {
    case PATTERN_TEXT:
        texts_add(out, item->text);
        return !item->is_optional;
    case PATTERN_GROUP:
        texts_add(out, item[1].text);
        return false;
    case PATTERN_ARGUMENTS:
        for (uint32_t i = 0; i < f->n_arguments; i++)
            if (f->arguments[i].at[0].kind == PATTERN_TEXT)
                texts_add(out, f->arguments[i].at[0].text);
        return false;
    case PATTERN_JSON:
    case PATTERN_OBJECT:
    case PATTERN_KEYED:
        texts_add(out, "{");
        return true;
    case PATTERN_BLANKS:
    case PATTERN_CALLS:
        return false;
    default:
        return true;
    }
}

void pattern_next(const struct family *f, const struct call_pattern *p, uint32_t i,
                  struct pattern_texts *out)
{
    *out = (struct pattern_texts){.is_open = true};
    for (; i < p->n && out->is_open; i++) {
        out->is_open = !item_next(f, &p->at[i], out);
        i += p->at[i].kind == PATTERN_GROUP ? p->at[i].n_items : 0;
    }
}

/* ---- matching ---- */

static size_t skip_pattern_blanks(const char *text, size_t at, size_t n)
{
    while (at < n && pattern_is_blank(text[at]))
        at++;
    return at;
}

/* Check that `what` stands at text[at..n). */
static enum pattern_verdict text_at(const char *what, const char *text, size_t at, size_t n)
{
    const size_t len = strlen(what), left = n - at;

    if (memcmp(text + at, what, left < len ? left : len) != 0)
        return PATTERN_FAILS;
    return left < len ? PATTERN_MORE : PATTERN_FITS;
}

enum pattern_verdict pattern_texts_at(const struct pattern_texts *texts, const char *text,
                                      size_t at, size_t n)
{
    const size_t behind = skip_pattern_blanks(text, at, n);
    enum pattern_verdict verdict = PATTERN_FAILS;

    for (uint32_t i = 0; i < texts->n; i++)
        switch (text_at(texts->at[i], text, pattern_is_blank(texts->at[i][0]) ? at : behind, n)) {
        case PATTERN_FITS:
            return PATTERN_FITS;
        case PATTERN_MORE:
            verdict = PATTERN_MORE;
            break;
        case PATTERN_FAILS:
            break;
        }
    return verdict;
}

/* Characters of function names: those that clients may use, and no others, so that prose is not a
 * call. */
static bool is_hole_char(char c)
{
    return (unsigned char)c > 0x20 && c != 0x7f && strchr("<>{}[]()\"'`,;=|\\", c) == NULL;
}

/* Characters of keys without quotes, as in f(key=1). */
static bool is_key_char(char c)
{
    return (unsigned char)c >= 0x20 && strchr("<>{}[]()\"'`,;|\\", c) == NULL;
}

/* True: the next text may begin with c. A hole then ends even if the text does not follow, so that
 * of several patterns the wrong one fails. */
static bool is_first(const struct pattern_texts *next, char c)
{
    for (uint32_t i = 0; i < next->n; i++)
        if (next->at[i][0] == c)
            return true;
    return false;
}

/* Matches a hole: the bytes up to the first text that may follow item i are *begin and *len. White
 * space before a name is skipped. */
static enum pattern_verdict match_hole(const struct family *f, const struct call_pattern *p,
                                       uint32_t i, const char *text, size_t *at, size_t n,
                                       size_t *begin, size_t *len)
{
    const bool is_key = p->at[i].kind == PATTERN_KEY || p->at[i].kind == PATTERN_SKIP;
    const bool is_bare = i == 0;
    struct pattern_texts next;

    pattern_next(f, p, i + 1, &next);
    *begin = *at = is_key ? *at : skip_pattern_blanks(text, *at, n);
    for (; *at < n; ++*at) {
        switch (pattern_texts_at(&next, text, *at, n)) {
        case PATTERN_FITS:
            *len = *at - *begin;
            return *len > 0 ? PATTERN_FITS : PATTERN_FAILS;
        case PATTERN_MORE:
            return PATTERN_MORE;
        case PATTERN_FAILS:
            break;
        }
        if (is_key ? is_bare ? !is_key_char(text[*at]) : is_first(&next, text[*at])
                   : !is_hole_char(text[*at]))
            return PATTERN_FAILS;
        if (*at - *begin > PATTERN_MAX_HEAD)
            return PATTERN_FAILS;
    }
    return PATTERN_MORE;
}

/* Splits functions.NAME:INDEX, or a part of it, into name and id. */
static void split_id(const char *text, struct pattern_found *out)
{
    static const char prefix[] = "functions.";
    const size_t n_prefix = sizeof(prefix) - 1;
    size_t n = out->n_name;

    out->id = out->name;
    out->n_id = out->n_name;
    if (out->n_name > n_prefix && memcmp(text + out->name, prefix, n_prefix) == 0) {
        out->name += n_prefix;
        out->n_name -= n_prefix;
    }
    n = out->n_name;
    while (n > 0 && text[out->name + n - 1] >= '0' && text[out->name + n - 1] <= '9')
        n--;
    if (n > 1 && n < out->n_name && text[out->name + n - 1] == ':')
        out->n_name = n - 1;
}

static enum pattern_verdict match_item(const struct family *f, const struct call_pattern *p,
                                       uint32_t *i, const char *text, size_t n,
                                       struct pattern_found *out)
{
    const struct pattern_item *item = &p->at[*i];
    enum pattern_verdict verdict;
    size_t begin, len;

    switch (item->kind) {
    case PATTERN_BLANKS:
        out->end = skip_pattern_blanks(text, out->end, n);
        return PATTERN_FITS;
    case PATTERN_TEXT:
        verdict = text_at(item->text, text, out->end, n);
        if (verdict == PATTERN_FAILS && item->is_optional)
            return PATTERN_FITS;
        if (verdict == PATTERN_FITS)
            out->end += item->n;
        return verdict;
    case PATTERN_GROUP:
        verdict = text_at(item[1].text, text, out->end, n);
        if (verdict == PATTERN_FAILS)
            *i += item->n_items;
        return verdict == PATTERN_MORE ? PATTERN_MORE : PATTERN_FITS;
    case PATTERN_KEY:
        return match_hole(f, p, *i, text, &out->end, n, &out->key, &out->n_key);
    case PATTERN_SKIP:
        return match_hole(f, p, *i, text, &out->end, n, &begin, &len);
    case PATTERN_ID:
        return match_hole(f, p, *i, text, &out->end, n, &out->id, &out->n_id);
    default:
        verdict = match_hole(f, p, *i, text, &out->end, n, &out->name, &out->n_name);
        if (verdict == PATTERN_FITS && item->kind == PATTERN_NAME_INDEX)
            split_id(text, out);
        return verdict;
    }
}

enum pattern_verdict pattern_match(const struct family *f, const struct call_pattern *p,
                                   uint32_t first, const char *text, size_t at, size_t n,
                                   struct pattern_found *out)
{
    enum pattern_verdict verdict = PATTERN_FITS;
    uint32_t i = first;

    *out = (struct pattern_found){.end = at};
    for (; verdict == PATTERN_FITS && i < p->n && p->at[i].kind < PATTERN_CALLS; i++)
        verdict = match_item(f, p, &i, text, n, out);
    out->item = i;
    /* White space before a value may continue. */
    if (verdict == PATTERN_FITS && out->end == n && i > first && i < p->n &&
        p->at[i].kind >= PATTERN_VALUE_TEXT && p->at[i - 1].kind == PATTERN_BLANKS)
        return PATTERN_MORE;
    return verdict;
}
