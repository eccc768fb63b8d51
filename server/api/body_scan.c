/* server/api/body_scan.c - see body_scan.h.
 *
 * One pass that allocates nothing: strings are skipped from quote to quote with memchr(), and of
 * all other structure only the depth of brackets is counted. A name in the outermost object is
 * looked up in members[]; its value ends at the next comma or bracket there. Counts are upper
 * bounds, since every bracket and comma may begin a value.
 */
#include "server/api/body_scan.h"

#include "core/json/json.h"
#include "core/json/json_number.h"

#include <string.h>

/* Members of the outermost object whose values are found. */
enum member { OTHER = 0, MODEL, NAME, DEADLINE_MS, MAX_QUEUE_MS, KEEP_ALIVE, N_MEMBERS };
static const char *const members[N_MEMBERS] = {[MODEL] = "model",
                                               [NAME] = "name",
                                               [DEADLINE_MS] = "deadline_ms",
                                               [MAX_QUEUE_MS] = "max_queue_ms",
                                               [KEEP_ALIVE] = "keep_alive"};

struct span {
    const char *text; /* NULL: the body does not have the member */
    size_t n;
};

struct scan {
    const char *s;
    size_t n, i;    /* number of bytes, and index of the current one */
    int depth;      /* brackets around the current byte */
    bool at_name;   /* the next string is a name in the outermost object */
    enum member member; /* the member whose name was read last */
    size_t value;       /* index at which the value of member `in` begins; 0: not within a value */
    enum member in;     /* the member whose value begins at `value` */
    struct span found[N_MEMBERS];
    struct body_scan out;
};

/* True: the string is the name of a field that is compiled to a grammar, or for which every token
 * of the vocabulary is read. */
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

/* Skip to the quote that ends a string, or to the end of the text: from one backslash to the
 * next. */
static void skip_to_quote(struct scan *p)
{
    const char *quote = NULL;

    while (p->i < p->n) {
        const char *at = p->s + p->i, *backslash;

        if (quote == NULL || quote < at)
            quote = memchr(at, '"', p->n - p->i);
        if (quote == NULL)
            break;
        backslash = memchr(at, '\\', (size_t)(quote - at));
        if (backslash == NULL) {
            p->i = (size_t)(quote - p->s);
            return;
        }
        p->i = (size_t)(backslash - p->s) + 2;
    }
    p->i = p->n;
}

static void scan_string(struct scan *p)
{
    const size_t from = p->i++;

    skip_to_quote(p);
    p->i = p->i < p->n ? p->i + 1 : p->n;
    p->out.n_strings++;
    if (is_costly(p->s + from, p->i - from))
        p->out.may_be_constrained = true;
    if (!p->at_name)
        return;
    p->at_name = false;
    p->member = OTHER;
    for (enum member m = MODEL; m < N_MEMBERS && p->member == OTHER; m++)
        if (json_text_is(p->s + from, p->i - from, members[m]))
            p->member = m;
}

/* Scan a number. Unless it is a short integer, the tree keeps its text (json_number.h), so it
 * counts as a string. */
static void scan_number(struct scan *p)
{
    const size_t from = p->i;

    while (p->i < p->n && p->s[p->i] != '\0' && strchr("0123456789+-.eE", p->s[p->i]) != NULL)
        p->i++;
    if (!json_number_is_short_text(p->s + from, p->i - from))
        p->out.n_strings++;
    if (json_number_is_long_text(p->i - from))
        p->out.has_long_number = true;
}

static bool is_body_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* End a member's value, at a comma or at the end of the outermost object. */
static void end_member(struct scan *p)
{
    size_t from = p->value, to = p->i;

    p->value = 0;
    if (from == 0)
        return;
    while (from < to && is_body_blank(p->s[from]))
        from++;
    while (to > from && is_body_blank(p->s[to - 1]))
        to--;
    p->found[p->in] = (struct span){p->s + from, to - from};
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

/* Read an integer; 0 if it is none: the parser reports the error. */
static uint64_t scanned_number(struct span s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.text[i] < '0' || s.text[i] > '9' || n > UINT32_MAX)
            return 0;
        n = n * 10 + (uint64_t)(s.text[i] - '0');
    }
    return n <= UINT32_MAX ? n : 0;
}

static void take_members(struct scan *p)
{
    p->out.model = p->found[MODEL].text;
    p->out.n_model = p->found[MODEL].n;
    p->out.name = p->found[NAME].text;
    p->out.n_name = p->found[NAME].n;
    p->out.keep_alive = p->found[KEEP_ALIVE].text;
    p->out.n_keep_alive = p->found[KEEP_ALIVE].n;
    p->out.deadline_ms = scanned_number(p->found[DEADLINE_MS]);
    p->out.max_queue_ms = scanned_number(p->found[MAX_QUEUE_MS]);
}

struct body_scan body_scan(const char *body, size_t n)
{
    struct scan p = {.s = body, .n = n, .out = {.n_bytes = n, .n_values = 1}};

    while (p.i < n) {
        if (body[p.i] == '"')
            scan_string(&p);
        else if (body[p.i] == '-' || (body[p.i] >= '0' && body[p.i] <= '9'))
            scan_number(&p);
        else
            scan_mark(&p, body[p.i]);
    }
    take_members(&p);
    return p.out;
}
