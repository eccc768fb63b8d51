/* server/api/chat/output_reader.c - reads the calls after a mark while they are generated.
 *
 * A state machine over `held`, one step per function, driven by the family's patterns (family.h).
 * Bytes stay held until the call's name is known and its arguments begin, because until then they
 * may turn out to be text; from there on they belong to the call, and output_arguments.c reads
 * them.
 */
#include "server/api/chat/output_reader_impl.h"

#include "core/base/err.h"
#include "server/api/chat/call_tools.h"

#include <stdio.h>
#include <string.h>

void output_reader_begin(struct output_parser *s, size_t n_mark)
{
    s->reader = (struct output_reader){
        .from = s->part == OUTPUT_THOUGHT ? OUTPUT_THOUGHT : OUTPUT_TEXT,
        .n_mark = n_mark,
    };
    output_parser_enter(s, OUTPUT_CALL);
}

/* ---- leaving ---- */

static enum output_verdict reader_leave(struct output_parser *s)
{
    output_parser_enter(s, output_parser_is_harmony(s) ? OUTPUT_HEADER : OUTPUT_TEXT);
    return OUTPUT_LEFT;
}

/* Treats the mark, or the first letter if there is none, as text of the part before it: it was not
 * a call. More marks may follow. */
static enum output_verdict give_up(struct output_parser *s)
{
    const size_t n_mark = s->reader.n_mark > 0 ? s->reader.n_mark : 1;
    size_t n = output_parser_is_harmony(s) ? 0 : reader_n_blanks(s) + n_mark;

    n = n < s->held.len ? n : s->held.len;
    output_parser_enter(s, s->reader.from);
    s->has_begun = true; /* so that white space is kept */
    output_parser_put(s, s->held.data, n);
    output_parser_consume(s, n);
    return OUTPUT_LEFT;
}

const char *output_reader_closing(const struct output_parser *s)
{
    const struct family *f = reader_family(s);
    const struct call_pattern *p = f->section.n > 0 ? &f->section : reader_call_pattern(s);
    const char *text = NULL;

    if (output_parser_is_harmony(s))
        return HARMONY_END;
    for (uint32_t i = pattern_hole(p); i < p->n; i++)
        if (p->at[i].kind == PATTERN_TEXT && p->at[i].n > 1)
            text = p->at[i].text;
    return text;
}

enum output_verdict output_reader_fail(struct output_parser *s)
{
    if (s->reader.n_calls == 0)
        return give_up(s);
    if (output_reader_closing(s) != NULL)
        return reader_enter(s, READER_SKIP);
    return reader_leave(s);
}

/* Reads up to the mark that ends the calls; text before it goes to the call's arguments if they are
 * broken. */
static enum output_verdict read_to_mark(struct output_parser *s)
{
    const char *marks[OUTPUT_MAX_MARKS];
    const size_t n = output_marks_here(s, marks);
    size_t which = 0, at, sure;

    at = output_marks_find(&s->held, s->reader.at, marks, n, &which);
    sure = at != SIZE_MAX ? at : s->held.len - output_marks_undecided(&s->held, marks, n);
    if (s->reader.state == READER_BROKEN) {
        buf_add(&reader_latest_call(s)->arguments, s->held.data, sure);
        reader_latest_call(s)->is_over = at != SIZE_MAX;
        output_parser_consume(s, sure);
        at = at != SIZE_MAX ? 0 : SIZE_MAX;
    } else {
        s->reader.at = sure; /* output_reader_end() shows it if no mark comes */
    }
    if (at == SIZE_MAX)
        return OUTPUT_NEEDS_MORE;
    output_parser_consume(s, at + strlen(marks[which]));
    return reader_leave(s);
}

/* ---- a call begins ---- */

/* True: the call began with a real mark, not only after an optional text that is missing. */
static bool is_marked(const struct output_parser *s)
{
    const struct family *f = reader_family(s);
    const struct pattern_item *first = &f->calls[s->reader.call].at[0];

    return s->reader.n_mark > 0 && (f->section.n > 0 || first->kind != PATTERN_TEXT ||
                                    !first->is_optional || first->n == s->reader.n_mark);
}

bool output_reader_takes(const struct output_parser *s, const char *name, size_t n)
{
    return is_marked(s) || s->has_forced || output_parser_is_harmony(s) ||
           call_tools_have(s->tools, name, n);
}

static void end_thought(struct output_parser *s)
{
    if (s->reader.from == OUTPUT_THOUGHT)
        s->has_thought = true;
    s->reader.from = OUTPUT_TEXT;
}

void output_reader_begin_arguments(struct output_parser *s, size_t at, uint32_t level)
{
    end_thought(s);
    s->reader.n_calls++;
    s->reader.level = level;
    s->reader.is_plain = false;
    output_parser_consume(s, at);
    reader_enter(s, READER_JSON);
}

void output_reader_end_object(struct output_parser *s, size_t at)
{
    end_thought(s);
    s->reader.n_calls++;
    s->reader.is_plain = false;
    output_parser_consume(s, at);
    reader_enter(s, READER_TAIL);
}

static void set_id(struct output_call *call, const char *text, size_t n)
{
    if (n > 0 && n < sizeof(call->id))
        snprintf(call->id, sizeof(call->id), "%.*s", (int)n, text);
}

/* Begins a call whose name was found; its arguments stand at found->end. */
static enum output_verdict commit_call(struct output_parser *s, const struct pattern_found *found)
{
    const char *name = found->n_name > 0 ? s->held.data + found->name : s->recipient;
    const size_t n = found->n_name > 0 ? found->n_name : strlen(s->recipient);
    const bool is_json = reader_call_pattern(s)->at[found->item].kind == PATTERN_JSON;
    struct output_call *call =
        output_reader_takes(s, name, n) ? output_calls_begin(s, name, n) : NULL;

    if (call == NULL)
        return output_reader_fail(s);
    set_id(call, s->held.data + found->id, found->n_id);
    output_reader_begin_arguments(s, found->end, 0);
    json_scan_init(&s->reader.scan);
    s->reader.n_arguments = 0;
    if (is_json)
        return OUTPUT_GOES_ON;
    buf_add_char(&reader_latest_call(s)->arguments, '{');
    return reader_enter(s, READER_ARGUMENT);
}

/* Does call pattern i fit the bytes in `held` from `at` on, up to its arguments? */
static enum pattern_verdict match_call(const struct output_parser *s, uint32_t i, size_t at,
                                       struct pattern_found *found)
{
    const struct family *f = reader_family(s);
    const struct buf *b = &s->held;
    const enum pattern_verdict verdict =
        pattern_match(f, &f->calls[i], 0, b->data, at, b->len, found);

    if (verdict != PATTERN_FITS || f->calls[i].at[found->item].kind == PATTERN_ARGUMENTS)
        return verdict;
    if (found->end == b->len)
        return PATTERN_MORE;
    return b->data[found->end] == '{' ? PATTERN_FITS : PATTERN_FAILS;
}

/* Remembers the name found so far: the call has it if the answer ends here. */
static void remember_name(struct output_parser *s, const struct pattern_found *found)
{
    s->reader.name = found->name;
    s->reader.n_name = found->n_name;
}

/* Tries all call patterns at held[at]. PATTERN_FITS: a call has begun, and the reader has its next
 * state. */
static enum pattern_verdict read_output_call(struct output_parser *s, size_t at,
                                             enum output_verdict *verdict)
{
    const struct family *f = reader_family(s);
    struct pattern_found found;

    for (uint32_t i = 0; i < f->n_calls; i++) {
        const enum pattern_verdict fits = match_call(s, i, at, &found);

        if (fits == PATTERN_FAILS)
            continue;
        s->reader.call = i;
        if (fits == PATTERN_MORE) {
            remember_name(s, &found);
            return PATTERN_MORE;
        }
        *verdict = OUTPUT_GOES_ON;
        if (f->calls[i].at[found.item].kind == PATTERN_OBJECT ||
            f->calls[i].at[found.item].kind == PATTERN_KEYED) {
            s->reader.state = READER_OBJECT;
            output_object_begin(s, found.end);
        } else {
            *verdict = commit_call(s, &found);
        }
        return PATTERN_FITS;
    }
    return PATTERN_FAILS;
}

/* Reads the first call after the mark. */
static enum output_verdict read_calls(struct output_parser *s)
{
    const struct family *f = reader_family(s);
    const size_t blanks = reader_n_blanks(s);
    struct pattern_found found = {.end = blanks};
    enum pattern_verdict fits = PATTERN_FITS;
    enum output_verdict verdict;

    s->reader.n_name = 0;
    if (blanks == s->held.len)
        return OUTPUT_NEEDS_MORE;
    if (f->section.n > 0)
        fits = pattern_match(f, &f->section, 0, s->held.data, blanks, s->held.len, &found);
    if (fits == PATTERN_FITS)
        fits = read_output_call(s, found.end, &verdict);
    if (fits == PATTERN_FAILS || (fits == PATTERN_MORE && s->held.len - blanks > READER_MAX_HEAD))
        return output_reader_fail(s);
    return fits == PATTERN_FITS ? verdict : OUTPUT_NEEDS_MORE;
}

/* Matches the end of the section. */
static enum pattern_verdict match_section_end(const struct output_parser *s,
                                              struct pattern_found *found)
{
    const struct family *f = reader_family(s);

    if (f->section.n == 0)
        return PATTERN_FAILS;
    return pattern_match(f, &f->section, pattern_hole(&f->section) + 1, s->held.data, 0,
                         s->held.len, found);
}

static enum output_verdict read_between(struct output_parser *s)
{
    const struct family *f = reader_family(s);
    const struct buf *b = &s->held;
    enum pattern_verdict next, end;
    enum output_verdict verdict;
    struct pattern_found found;

    s->reader.n_name = 0;
    if (f->section.n == 0 && f->between.n == 0)
        return reader_leave(s);
    if (reader_pass_blanks(s))
        return OUTPUT_NEEDS_MORE;
    next = pattern_match(f, &f->between, 0, b->data, 0, b->len, &found);
    if (next == PATTERN_FITS)
        next = found.end == b->len ? PATTERN_MORE : read_output_call(s, found.end, &verdict);
    if (next == PATTERN_FITS)
        return verdict;
    end = match_section_end(s, &found);
    if ((next == PATTERN_MORE || end == PATTERN_MORE) && b->len <= READER_MAX_HEAD)
        return OUTPUT_NEEDS_MORE;
    if (end != PATTERN_FITS)
        return output_reader_fail(s);
    output_parser_consume(s, found.end);
    return reader_leave(s);
}

enum pattern_verdict output_reader_match_tail(const struct output_parser *s, size_t at,
                                              struct pattern_found *found)
{
    const struct call_pattern *p = reader_call_pattern(s);

    return pattern_match(reader_family(s), p, pattern_hole(p) + 1, s->held.data, at, s->held.len,
                         found);
}

/* Reads the text that closes a call, which may be missing. */
static enum output_verdict read_tail(struct output_parser *s)
{
    const struct call_pattern *p = reader_call_pattern(s);
    struct pattern_found found;
    enum pattern_verdict fits;

    if (reader_pass_blanks(s) && p->n > pattern_hole(p) + 1)
        return OUTPUT_NEEDS_MORE;
    fits = output_reader_match_tail(s, 0, &found);
    if (fits == PATTERN_MORE && s->held.len <= READER_MAX_HEAD)
        return OUTPUT_NEEDS_MORE;
    if (fits == PATTERN_FAILS && reader_family(s)->section.n == 0 &&
        output_reader_closing(s) != NULL)
        return reader_enter(s, READER_SKIP);
    output_parser_consume(s, fits == PATTERN_FITS ? found.end : 0);
    return reader_enter(s, READER_BETWEEN);
}

/* ---- the state machine ---- */

static enum output_verdict reader_step(struct output_parser *s)
{
    switch ((enum reader_state)s->reader.state) {
    case READER_CALLS:
        return read_calls(s);
    case READER_BETWEEN:
        return read_between(s);
    case READER_OBJECT:
        return output_object_read(s);
    case READER_JSON:
        return output_arguments_read_json(s);
    case READER_BEHIND:
        return output_arguments_read_behind(s);
    case READER_ARGUMENT:
        return output_arguments_read_next(s);
    case READER_TEXT:
        return output_arguments_read_text(s);
    case READER_LITERAL:
        return output_arguments_read_literal(s);
    case READER_TAIL:
        return read_tail(s);
    case READER_BROKEN:
    case READER_SKIP:
        break;
    }
    return read_to_mark(s);
}

bool output_reader_read(struct output_parser *s)
{
    enum output_verdict verdict = OUTPUT_GOES_ON;

    while (verdict == OUTPUT_GOES_ON && output_parser_error(s) == 0)
        verdict = reader_step(s);
    return verdict == OUTPUT_LEFT;
}

/* ---- the end ---- */

/* Ends a call that was cut before its arguments: if its name is known, it is a call without any. */
static void end_before_arguments(struct output_parser *s)
{
    struct output_reader *r = &s->reader;
    const char *name = s->held.data + r->name;

    if (s->recipient[0] != '\0' && r->n_calls == 0) {
        (void)output_calls_begin(s, s->recipient, strlen(s->recipient));
        return;
    }
    if (r->n_name > 0 && (r->n_mark > 0 || s->has_forced || s->insists || r->n_calls > 0)) {
        end_thought(s);
        if (r->state == READER_OBJECT)
            (void)output_calls_begin_literal(s, name, r->n_name);
        else
            (void)output_calls_begin(s, name, r->n_name);
        return;
    }
    if (s->has_forced || s->insists || r->n_calls > 0)
        return;
    output_parser_enter(s, r->from);
    s->has_begun = true;
    output_parser_put(s, s->held.data, s->held.len);
}
void output_reader_end(struct output_parser *s)
{
    struct pattern_found found;

    switch ((enum reader_state)s->reader.state) {
    case READER_CALLS:
    case READER_BETWEEN:
    case READER_OBJECT:
        if (s->held.len > 0 || s->recipient[0] != '\0')
            end_before_arguments(s);
        break;
    case READER_SKIP:
        if (s->held.len == 0 || output_parser_is_harmony(s))
            break;
        output_parser_enter(s, OUTPUT_TEXT);
        output_parser_put(s, s->held.data, s->held.len);
        break;
    case READER_BROKEN: /* `held` is part of a mark */
        buf_add(&reader_latest_call(s)->arguments, s->held.data, s->held.len);
        break;
    case READER_TEXT:
        output_arguments_end_text(s);
        break;
    case READER_ARGUMENT: /* cut inside the text that ends the call */
        if (s->held.len > 0 &&
            output_reader_match_tail(s, reader_n_blanks(s), &found) == PATTERN_MORE)
            output_arguments_end(s, s->held.len);
        break;
    case READER_JSON:
    case READER_BEHIND:
    case READER_LITERAL:
    case READER_TAIL:
        break;
    }
}
