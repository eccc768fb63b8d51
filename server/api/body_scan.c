/* server/api/body_scan.c - see body_scan.h. */
#include "server/api/body_scan.h"

#include "core/base/json.h"

#include <string.h>

enum member { OTHER = 0, MODEL, NAME };

struct scan {
    const char *s;
    size_t n, i;    /* bytes, and the one that is looked at */
    int depth;      /* of brackets around it */
    bool at_name;   /* in the outermost object, the next string is a member's name */
    enum member member; /* the latest name was of this one */
    size_t value;       /* where the value of one begins; 0: not in any */
    enum member in;     /* then */
    struct body_scan out;
};

/* Is it a field that is compiled to a grammar, or that looks at every token of the vocabulary? */
static bool is_costly(const char *s, size_t n)
{
    static const char *const names[] = {"grammar",           "json_schema", "response_format",
                                        "structured_outputs", "tool_choice", "dry_multiplier",
                                        "format"};

    if (n > 8 && memcmp(s, "\"guided_", 8) == 0)
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (n == strlen(names[i]) + 2 && memcmp(s + 1, names[i], n - 2) == 0)
            return true;
    return false;
}

static void scan_string(struct scan *p)
{
    const size_t from = p->i++;

    while (p->i < p->n && p->s[p->i] != '"')
        p->i += p->s[p->i] == '\\' ? 2 : 1;
    p->i = p->i < p->n ? p->i + 1 : p->n;
    p->out.n_strings++;
    if (is_costly(p->s + from, p->i - from))
        p->out.may_be_constrained = true;
    if (!p->at_name)
        return;
    p->at_name = false;
    p->member = json_text_is(p->s + from, p->i - from, "model")  ? MODEL
                : json_text_is(p->s + from, p->i - from, "name") ? NAME
                                                                 : OTHER;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* A comma or the end of the outermost object. */
static void end_member(struct scan *p)
{
    size_t from = p->value, to = p->i;

    p->value = 0;
    if (from == 0)
        return;
    while (from < to && is_blank(p->s[from]))
        from++;
    while (to > from && is_blank(p->s[to - 1]))
        to--;
    *(p->in == MODEL ? &p->out.model : &p->out.name) = p->s + from;
    *(p->in == MODEL ? &p->out.n_model : &p->out.n_name) = to - from;
}

static void scan_mark(struct scan *p, char c)
{
    if (c == '{' || c == '[') {
        p->out.n_values++;
        p->depth++;
        p->at_name = p->depth == 1 && c == '{';
    } else if (c == '}' || c == ']') {
        if (p->depth-- == 1)
            end_member(p);
    } else if (c == ',') {
        p->out.n_values++;
        if (p->depth == 1) {
            end_member(p);
            p->at_name = true;
        }
    } else if (c == ':' && p->depth == 1 && p->member != OTHER) {
        p->value = p->i + 1;
        p->in = p->member;
        p->member = OTHER;
    }
    p->i++;
}

struct body_scan body_scan(const char *body, size_t n)
{
    struct scan p = {.s = body, .n = n, .out = {.n_bytes = n, .n_values = 1}};

    while (p.i < n) {
        if (body[p.i] == '"')
            scan_string(&p);
        else
            scan_mark(&p, body[p.i]);
    }
    return p.out;
}
