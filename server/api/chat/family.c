/* server/api/chat/family.c - parses the descriptions of families.
 *
 * A line's keyword selects a function that stores its values; texts are unquoted in place in the
 * family's own copy, so the family is one block of memory and all strings point into it. Each
 * reader of a line checks what the parser of answers relies on, e.g. that a call has a hole for its
 * arguments; check_family() checks what depends on several lines.
 */
#include "server/api/chat/family.h"

#include "core/base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- texts ---- */

static char escaped(char c)
{
    return c == 'n' ? '\n' : c == 't' ? '\t' : c;
}

const char *family_unquote(char **line, size_t *n)
{
    char *from = *line + 1, *to = from, *text = from;

    while (*from != '"' && *from != '\0') {
        if (from[0] == '\\' && from[1] != '\0') {
            *to++ = escaped(from[1]);
            from += 2;
        } else {
            *to++ = *from++;
        }
    }
    if (*from == '\0')
        return NULL;
    *line = from + 1;
    *n = (size_t)(to - text);
    *to = '\0';
    return text;
}

/* Reads up to `max` texts of a line. */
static const char *read_texts(char *line, const char **out, uint32_t max, uint32_t *n)
{
    size_t len;

    for (*n = 0; *line != '\0'; line += strspn(line, " \t")) {
        if (*line != '"' || *n == max)
            return *n == max ? "there are too many texts" : "a text must be in quotes";
        out[*n] = family_unquote(&line, &len);
        if (out[*n] == NULL || len == 0)
            return "a text has no closing quote, or is empty";
        ++*n;
    }
    return *n > 0 ? NULL : "a text is missing";
}

/* ---- lines ---- */

static const char *read_family_name(struct family *f, char *line)
{
    f->name = line;
    return line[0] != '\0' && strpbrk(line, " \t") == NULL ? NULL : "the name must be one word";
}

static const char *read_aliases(struct family *f, char *line)
{
    f->aliases = line;
    return NULL;
}

static const char *read_sign(struct family *f, char *line)
{
    uint32_t n;

    if (f->n_signs == FAMILY_MAX_LINES)
        return "there are too many lines with this keyword";
    return read_texts(line, f->signs[f->n_signs++], FAMILY_MAX_LINES, &n);
}

static const char *read_pair(char *line, const char **out)
{
    uint32_t n;
    const char *why = read_texts(line, out, 2, &n);

    return why != NULL ? why : n == 2 ? NULL : "it must be two texts";
}

static const char *read_thought(struct family *f, char *line)
{
    const char *marks[2] = {NULL, NULL}, *why;

    if (f->n_thoughts == FAMILY_MAX_LINES)
        return "there are too many lines with this keyword";
    why = read_pair(line, marks);
    f->thoughts[f->n_thoughts].open = marks[0];
    f->thoughts[f->n_thoughts++].close = marks[1];
    return why;
}

static const char *read_off(struct family *f, char *line)
{
    uint32_t n;
    const char *why = read_texts(line, f->off, 3, &n);

    return why != NULL ? why : n == 3 ? NULL : "it must be three texts";
}

static const char *read_wrap(struct family *f, char *line)
{
    return read_pair(line, f->wrap);
}

static const char *read_closing(struct family *f, char *line)
{
    return read_pair(line, f->closing);
}

static const char *read_hidden(struct family *f, char *line)
{
    return read_texts(line, f->hidden, FAMILY_MAX_HIDDEN, &f->n_hidden);
}

static const char *read_begin(struct family *f, char *line)
{
    uint32_t n;

    return read_texts(line, &f->begin, 1, &n);
}

static const char *read_section(struct family *f, char *line)
{
    const char *why = pattern_parse(&f->section, line);
    const uint32_t hole = pattern_hole(&f->section);

    if (why != NULL)
        return why;
    return hole < f->section.n && f->section.at[hole].kind == PATTERN_CALLS ? NULL
                                                                            : "it must have CALLS";
}

static const char *read_between(struct family *f, char *line)
{
    return pattern_parse(&f->between, line);
}

static const char *read_comma(struct family *f, char *line)
{
    return pattern_parse(&f->comma, line);
}

static const char *read_call_line(struct family *f, char *line)
{
    struct call_pattern *p = &f->calls[f->n_calls];
    uint32_t hole;
    const char *why;

    if (f->n_calls == FAMILY_MAX_LINES)
        return "there are too many lines with this keyword";
    f->n_calls++;
    why = pattern_parse(p, line);
    hole = pattern_hole(p);
    if (why != NULL)
        return why;
    return hole < p->n && p->at[hole].kind >= PATTERN_JSON && p->at[hole].kind <= PATTERN_ARGUMENTS
               ? NULL
               : "it must have JSON, OBJECT, KEYED or ARGUMENTS";
}

/* True: the pattern is "text" KEY "text" TAGS "text". */
static bool is_tag(const struct call_pattern *p, uint32_t hole)
{
    return hole == 3 && p->at[0].kind == PATTERN_TEXT && p->at[1].kind == PATTERN_KEY &&
           p->at[2].kind == PATTERN_TEXT && hole + 1 < p->n && p->at[4].kind == PATTERN_TEXT;
}

static const char *read_argument(struct family *f, char *line)
{
    struct call_pattern *p = &f->arguments[f->n_arguments];
    uint32_t hole;
    const char *why;

    if (f->n_arguments == FAMILY_MAX_LINES)
        return "there are too many lines with this keyword";
    f->n_arguments++;
    why = pattern_parse(p, line);
    hole = pattern_hole(p);
    if (why != NULL)
        return why;
    if (hole == p->n || p->at[hole].kind < PATTERN_VALUE_TEXT)
        return "it must have TEXT, TAGS, STRING, VALUE, PYTHON or QUOTED";
    if (p->at[hole].kind <= PATTERN_VALUE_STRING && hole + 1 == p->n)
        return "a text must follow TEXT, TAGS or STRING";
    if (p->at[hole].kind == PATTERN_VALUE_TAGS && !is_tag(p, hole))
        return "TAGS must be used in the form \"text\" KEY \"text\" TAGS \"text\"";
    return NULL;
}

static const char *read_quote(struct family *f, char *line)
{
    return read_pair(line, f->quotes);
}

static const char *read_members(struct family *f, char *line)
{
    uint32_t n;
    const char *why = read_texts(line, f->members, 3, &n);

    return why != NULL ? why : n >= 2 ? NULL : "it must be two texts or three";
}

static const char *read_family_flag(bool *flag, const char *line)
{
    *flag = true;
    return line[0] == '\0' ? NULL : "nothing may follow this keyword";
}

static const char *read_bare(struct family *f, char *line)
{
    return read_family_flag(&f->is_bare, line);
}

static const char *read_short_ids(struct family *f, char *line)
{
    return read_family_flag(&f->has_short_ids, line);
}

static const char *read_channels(struct family *f, char *line)
{
    f->has_channels = true;
    return read_pair(line, f->message);
}

/* Returns the index of the first NAME; p->n: there is none. */
static uint32_t name_of(const struct call_pattern *p)
{
    uint32_t i = 0;

    while (i < p->n && p->at[i].kind != PATTERN_NAME)
        i++;
    return i;
}

static const char *read_header(struct family *f, char *line)
{
    struct call_pattern *p = &f->headers[f->n_headers];
    const char *why;
    uint32_t name;

    if (f->n_headers == FAMILY_MAX_LINES)
        return "there are too many lines with this keyword";
    f->n_headers++;
    why = pattern_parse(p, line);
    if (why != NULL)
        return why;
    name = name_of(p);
    return name < p->n && name > 0 && p->at[name - 1].kind == PATTERN_TEXT
               ? NULL
               : "it must have NAME after a text";
}

static const struct {
    const char *word;
    const char *(*read)(struct family *f, char *line);
} keywords[] = {
    {"name", read_family_name}, {"aliases", read_aliases},     {"sign", read_sign},
    {"thought", read_thought},  {"hide", read_hidden},         {"section", read_section},
    {"between", read_between},  {"call", read_call_line},      {"argument", read_argument},
    {"comma", read_comma},      {"quote", read_quote},         {"members", read_members},
    {"bare", read_bare},        {"short_ids", read_short_ids}, {"channels", read_channels},
    {"off", read_off},          {"closing", read_closing},     {"header", read_header},
    {"begin", read_begin},      {"wrap", read_wrap},
};

static const char *read_family_line(struct family *f, char *line)
{
    const size_t n = strcspn(line, " \t");
    char *rest = line + n + strspn(line + n, " \t");

    if (line[0] == '\0' || line[0] == '#')
        return NULL;
    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++)
        if (strlen(keywords[i].word) == n && memcmp(keywords[i].word, line, n) == 0)
            return keywords[i].read(f, rest);
    return "the keyword is unknown";
}

/* ---- the whole ---- */

/* Checks the rules between lines that the parser of calls relies on. */
static const char *check_family(const struct family *f)
{
    bool has_object = false, has_arguments = false, has_quoted = false;

    for (uint32_t i = 0; i < f->n_calls; i++) {
        const struct call_pattern *p = &f->calls[i];

        has_object |= p->at[pattern_hole(p)].kind == PATTERN_OBJECT;
        has_arguments |= p->at[pattern_hole(p)].kind == PATTERN_ARGUMENTS;
    }
    for (uint32_t i = 0; i < f->n_arguments; i++)
        has_quoted |=
            f->arguments[i].at[pattern_hole(&f->arguments[i])].kind == PATTERN_VALUE_QUOTED;
    if (f->name == NULL)
        return "it has no 'name'";
    if (has_object && f->members[0] == NULL)
        return "OBJECT needs a line 'members'";
    if (has_arguments != (f->n_arguments > 0))
        return "ARGUMENTS and the lines 'argument' must be used together";
    if (has_quoted && f->quotes[0] == NULL)
        return "QUOTED needs a line 'quote'";
    if (f->has_channels != (f->n_headers > 0))
        return "'channels' and the lines 'header' must be used together";
    return NULL;
}

/* Cuts off the next line of the text, without white space at its end; *text moves to the line after
 * it; NULL: there is none. */
static char *next_line(char **text)
{
    char *line = *text;
    size_t n = strcspn(line, "\n");

    *text = line[n] == '\n' ? line + n + 1 : NULL;
    while (n > 0 && strchr(" \t\r", line[n - 1]) != NULL)
        n--;
    line[n] = '\0';
    return line;
}

struct family *family_create(const char *text, size_t n, char *err, size_t err_len)
{
    struct family *f = n <= FAMILY_MAX_TEXT ? mem_calloc(1, sizeof(*f) + 2 * (n + 1)) : NULL;
    const char *why = NULL;
    char *rest;
    uint32_t n_lines = 0;

    if (f == NULL) {
        snprintf(err, err_len, n > FAMILY_MAX_TEXT ? "it is longer than 8 KiB" : "out of memory");
        return NULL;
    }
    memcpy(f->text, text, n);
    memcpy(f->text + n + 1, text, n);
    f->source = f->text + n + 1;
    for (rest = f->text; rest != NULL && why == NULL; n_lines++)
        why = read_family_line(f, next_line(&rest));
    if (why != NULL)
        snprintf(err, err_len, "line %u: %s", n_lines, why);
    else if ((why = check_family(f)) != NULL)
        snprintf(err, err_len, "%s", why);
    if (why != NULL)
        family_destroy(&f);
    return f;
}

void family_destroy(struct family **f)
{
    if (f == NULL)
        return;
    mem_free(*f);
    *f = NULL;
}

/* ---- questions ---- */

const char *family_header_word(const struct call_pattern *header)
{
    const char *text = header->at[name_of(header) - 1].text, *blank = strrchr(text, ' ');

    return blank != NULL ? blank + 1 : text;
}

/* True: the words are equal. A dash equals an underscore, and the case of letters does not
 * matter. */
static bool is_family_word(const char *word, size_t n_word, const char *name, size_t n)
{
    if (n_word != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        const char a = word[i] == '-' ? '_' : word[i], b = name[i] == '-' ? '_' : name[i];

        if (tolower((unsigned char)a) != tolower((unsigned char)b))
            return false;
    }
    return true;
}

bool family_has_name(const struct family *f, const char *name, size_t n)
{
    if (is_family_word(f->name, strlen(f->name), name, n))
        return true;
    for (const char *at = f->aliases; at != NULL && *at != '\0'; at += strspn(at, " \t")) {
        const size_t len = strcspn(at, " \t");

        if (is_family_word(at, len, name, n))
            return true;
        at += len;
    }
    return false;
}

size_t family_signs_in(const struct family *f, const char *chat_template)
{
    size_t most = 0;

    for (uint32_t i = 0; i < f->n_signs; i++) {
        size_t n = 0;

        for (uint32_t k = 0; k < FAMILY_MAX_LINES && f->signs[i][k] != NULL; k++) {
            if (strstr(chat_template, f->signs[i][k]) == NULL) {
                n = 0;
                break;
            }
            n += strlen(f->signs[i][k]);
        }
        most = n > most ? n : most;
    }
    return most;
}

static bool has_text(const char *text, const char *name, size_t n)
{
    return text != NULL && memmem(text, strlen(text), name, n) != NULL;
}

static bool pattern_has_text(const struct call_pattern *p, const char *name, size_t n)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->at[i].kind == PATTERN_TEXT && has_text(p->at[i].text, name, n))
            return true;
    return false;
}

bool family_has_mark(const struct family *f, const char *name, size_t n)
{
    bool has = pattern_has_text(&f->section, name, n) || pattern_has_text(&f->between, name, n) ||
               pattern_has_text(&f->comma, name, n) || has_text(f->quotes[0], name, n) ||
               has_text(f->quotes[1], name, n);

    if (f->has_channels)
        has = has_text("<|start|><|channel|><|message|><|end|><|call|><|constrain|>", name, n);
    for (uint32_t i = 0; i < f->n_calls; i++)
        has = has || pattern_has_text(&f->calls[i], name, n);
    for (uint32_t i = 0; i < f->n_arguments; i++)
        has = has || pattern_has_text(&f->arguments[i], name, n);
    for (uint32_t i = 0; i < f->n_thoughts; i++)
        has = has || has_text(f->thoughts[i].open, name, n) ||
              has_text(f->thoughts[i].close, name, n);
    for (uint32_t i = 0; i < f->n_hidden; i++)
        has = has || has_text(f->hidden[i], name, n);
    for (uint32_t i = 0; i < 2 && f->wrap[0] != NULL; i++)
        has = has || has_text(f->wrap[i], name, n);
    return has;
}
