/* server/api/chat/output_object.c - reads calls that are JSON objects as they are written.
 *
 * json_scan reports names and values at depth 1. The reader only notes their offsets in `held`; it
 * begins the call when the arguments open and the name is known, and from there output_arguments.c
 * copies them. A call that has its arguments before its name, or none, is added when the object
 * ends.
 */
#include "server/api/chat/output_parser_impl.h"

#include <string.h>

enum member { MEMBER_OTHER = 0, MEMBER_NAME, MEMBER_ARGUMENTS };

/* True: the call is {"NAME": arguments}. */
static bool is_keyed(const struct output_parser *s)
{
    const struct call_pattern *p = &s->style.family->calls[s->reader.call];

    return p->at[pattern_hole(p)].kind == PATTERN_KEYED;
}

void output_object_begin(struct output_parser *s, size_t at)
{
    struct output_reader *r = &s->reader;

    json_scan_init(&r->scan);
    r->at = r->object = at;
    r->member = MEMBER_OTHER;
    r->n_name = 0;
    r->is_plain = false;
}

/* Begins the call. The object's scan, which has read the first byte, continues in the arguments. */
static enum output_verdict commit_member(struct output_parser *s, size_t at)
{
    struct output_call *call =
        output_calls_begin_literal(s, s->held.data + s->reader.name, s->reader.n_name);

    if (call == NULL)
        return output_reader_fail(s);
    buf_add_char(&call->arguments, '{');
    output_reader_begin_arguments(s, at + 1, 1);
    return OUTPUT_GOES_ON;
}

static bool is_member(const struct output_parser *s, uint32_t i, const char *text, size_t n)
{
    const char *name = s->style.family->members[i];

    return name != NULL && json_text_is(text, n, name);
}

/* Finds which member it is whose name ends at held[at]. */
static void find_member(struct output_parser *s, size_t at)
{
    struct output_reader *r = &s->reader;
    const char *text = s->held.data + r->string;
    const size_t n = at + 1 - r->string;

    if (is_keyed(s)) {
        r->member = r->n_name == 0 ? MEMBER_ARGUMENTS : MEMBER_OTHER;
        r->name = r->n_name == 0 ? r->string : r->name;
        r->n_name = r->n_name == 0 ? n : r->n_name;
        return;
    }
    r->member = is_member(s, 0, text, n)                               ? MEMBER_NAME
                : is_member(s, 1, text, n) || is_member(s, 2, text, n) ? MEMBER_ARGUMENTS
                                                                       : MEMBER_OTHER;
}

/* Begins a member's value at held[at]. False: no call has such a value. */
static bool begin_member(struct output_parser *s, size_t at, bool *commits)
{
    struct output_reader *r = &s->reader;
    const char c = s->held.data[at];

    if (r->member == MEMBER_NAME) {
        r->string = at;
        return c == '"';
    }
    if (r->member != MEMBER_ARGUMENTS)
        return true;
    *commits = c == '{' && r->n_name > 0 && !r->is_plain;
    r->is_plain = r->is_plain || !*commits;
    return c == '{' || c == '"' || c == 'n';
}

/* Ends a member's value, or the object, at held[at]. */
static void end_member(struct output_parser *s, size_t at)
{
    struct output_reader *r = &s->reader;

    if (r->member == MEMBER_NAME && r->n_name == 0) {
        r->name = r->string;
        r->n_name = at + 1 - r->string;
    }
    r->member = MEMBER_OTHER;
}

/* Adds the call of an object that ends at held[at] without having begun one: it has no arguments,
 * or they came before the name. */
static enum output_verdict end_object(struct output_parser *s, size_t at)
{
    struct output_reader *r = &s->reader;

    if (!output_calls_add(s, s->held.data + r->object, at + 1 - r->object))
        return output_reader_fail(s);
    output_reader_end_object(s, at + 1);
    return OUTPUT_GOES_ON;
}

static enum output_verdict read_byte(struct output_parser *s, size_t at)
{
    struct output_reader *r = &s->reader;
    const uint32_t depth = r->scan.depth;
    const unsigned events = json_scan_byte(&r->scan, s->held.data[at]);
    bool commits = false;

    if ((events & JSON_EVENT_BAD) != 0)
        return output_reader_fail(s);
    if ((events & JSON_EVENT_OPEN_NAME) != 0 && depth == 1)
        r->string = at;
    if ((events & JSON_EVENT_CLOSE_NAME) != 0 && depth == 1)
        find_member(s, at);
    if ((events & JSON_EVENT_BEGIN) != 0 && depth == 1 && !begin_member(s, at, &commits))
        return output_reader_fail(s);
    if (commits)
        return commit_member(s, at);
    if ((events & JSON_EVENT_END) != 0 && r->scan.depth == 1)
        end_member(s, at);
    return (events & JSON_EVENT_END) != 0 && r->scan.depth == 0 ? end_object(s, at)
                                                                : OUTPUT_NEEDS_MORE;
}

enum output_verdict output_object_read(struct output_parser *s)
{
    struct output_reader *r = &s->reader;
    enum output_verdict verdict = OUTPUT_NEEDS_MORE;

    while (r->at < s->held.len && verdict == OUTPUT_NEEDS_MORE)
        verdict = read_byte(s, r->at++);
    return verdict;
}
