/* server/api/chat/output_reader.c - reads the calls after a mark while they are generated.
 *
 * A state machine over `held`, one step per function, driven by the family's patterns (family.h).
 * Bytes stay held until the call's name is known and its arguments begin, because until then they
 * may turn out to be text; from there on they belong to the call. Arguments that are one JSON
 * object are copied byte by byte through json_scan; those that stand one by one are converted to
 * JSON.
 */
#include "server/api/chat/output_parser_impl.h"

#include "core/base/err.h"
#include "server/api/chat/call_tags.h"
#include "server/api/chat/call_tools.h"

#include <stdio.h>
#include <string.h>

enum reader_state {
    READER_CALLS = 0, /* the section's beginning and a call's, up to its arguments */
    READER_BETWEEN,   /* the next call, or the section's end */
    READER_OBJECT,    /* inside the object of a call that is not announced yet */
    READER_JSON,      /* arguments that are a JSON object, copied as they come */
    READER_BEHIND,    /* after the arguments: the rest of the call's object is dropped */
    READER_ARGUMENT,  /* the next single argument, or the call's end */
    READER_TEXT,      /* the argument's value, raw text */
    READER_LITERAL,   /* the argument's value, up to a comma or a bracket */
    READER_TAIL,      /* after the arguments, up to the end of the call */
    READER_BROKEN,    /* the arguments are not JSON: all text up to the mark is theirs */
    READER_SKIP,      /* no more calls: text is dropped up to the mark */
};

/* Bytes of a section's and a call's beginnings. */
#define MAX_HEAD (2 * PATTERN_MAX_HEAD)

static const struct family *family_of(const struct output_parser *s)
{
    return s->style.family;
}

static const struct call_pattern *call_pattern_of(const struct output_parser *s)
{
    return &family_of(s)->calls[s->reader.call];
}

static const struct call_pattern *argument_pattern_of(const struct output_parser *s)
{
    return &family_of(s)->arguments[s->reader.argument];
}

static struct output_call *latest(struct output_parser *s)
{
    return &s->calls[s->n_calls - 1];
}

static enum output_verdict reader_enter(struct output_parser *s, enum reader_state state)
{
    s->reader.state = (uint8_t)state;
    s->reader.at = 0;
    return OUTPUT_GOES_ON;
}

/* Drops white space between calls and arguments. True: `held` is empty. */
static bool pass_blanks(struct output_parser *s)
{
    size_t n = 0;

    while (n < s->held.len && pattern_is_blank(s->held.data[n]))
        n++;
    output_parser_consume(s, n);
    return s->held.len == 0;
}

static size_t n_blanks(const struct output_parser *s)
{
    size_t n = 0;

    while (n < s->held.len && pattern_is_blank(s->held.data[n]))
        n++;
    return n;
}

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
    size_t n = output_parser_is_harmony(s) ? 0 : n_blanks(s) + n_mark;

    n = n < s->held.len ? n : s->held.len;
    output_parser_enter(s, s->reader.from);
    s->has_begun = true; /* so that white space is kept */
    output_parser_put(s, s->held.data, n);
    output_parser_consume(s, n);
    return OUTPUT_LEFT;
}

const char *output_reader_closing(const struct output_parser *s)
{
    const struct family *f = family_of(s);
    const struct call_pattern *p = f->section.n > 0 ? &f->section : call_pattern_of(s);
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
        buf_add(&latest(s)->arguments, s->held.data, sure);
        latest(s)->is_over = at != SIZE_MAX;
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
    const struct family *f = family_of(s);
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
    const bool is_json = call_pattern_of(s)->at[found->item].kind == PATTERN_JSON;
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
    buf_add_char(&latest(s)->arguments, '{');
    return reader_enter(s, READER_ARGUMENT);
}

/* Does call pattern i fit the bytes in `held` from `at` on, up to its arguments? */
static enum pattern_verdict match_call(const struct output_parser *s, uint32_t i, size_t at,
                                       struct pattern_found *found)
{
    const struct family *f = family_of(s);
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
    const struct family *f = family_of(s);
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
    const struct family *f = family_of(s);
    const size_t blanks = n_blanks(s);
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
    if (fits == PATTERN_FAILS || (fits == PATTERN_MORE && s->held.len - blanks > MAX_HEAD))
        return output_reader_fail(s);
    return fits == PATTERN_FITS ? verdict : OUTPUT_NEEDS_MORE;
}

/* Matches the end of the section. */
static enum pattern_verdict match_section_end(const struct output_parser *s,
                                              struct pattern_found *found)
{
    const struct family *f = family_of(s);

    if (f->section.n == 0)
        return PATTERN_FAILS;
    return pattern_match(f, &f->section, pattern_hole(&f->section) + 1, s->held.data, 0,
                         s->held.len, found);
}

static enum output_verdict read_between(struct output_parser *s)
{
    const struct family *f = family_of(s);
    const struct buf *b = &s->held;
    enum pattern_verdict next, end;
    enum output_verdict verdict;
    struct pattern_found found;

    s->reader.n_name = 0;
    if (f->section.n == 0 && f->between.n == 0)
        return reader_leave(s);
    if (pass_blanks(s))
        return OUTPUT_NEEDS_MORE;
    next = pattern_match(f, &f->between, 0, b->data, 0, b->len, &found);
    if (next == PATTERN_FITS)
        next = found.end == b->len ? PATTERN_MORE : read_output_call(s, found.end, &verdict);
    if (next == PATTERN_FITS)
        return verdict;
    end = match_section_end(s, &found);
    if ((next == PATTERN_MORE || end == PATTERN_MORE) && b->len <= MAX_HEAD)
        return OUTPUT_NEEDS_MORE;
    if (end != PATTERN_FITS)
        return output_reader_fail(s);
    output_parser_consume(s, found.end);
    return reader_leave(s);
}

/* Match the end of the call at held[at]. */
static enum pattern_verdict match_tail(const struct output_parser *s, size_t at,
                                       struct pattern_found *found)
{
    const struct call_pattern *p = call_pattern_of(s);

    return pattern_match(family_of(s), p, pattern_hole(p) + 1, s->held.data, at, s->held.len,
                         found);
}

/* Reads the text that closes a call, which may be missing. */
static enum output_verdict read_tail(struct output_parser *s)
{
    struct pattern_found found;
    enum pattern_verdict fits;

    if (pass_blanks(s) && call_pattern_of(s)->n > pattern_hole(call_pattern_of(s)) + 1)
        return OUTPUT_NEEDS_MORE;
    fits = match_tail(s, 0, &found);
    if (fits == PATTERN_MORE && s->held.len <= MAX_HEAD)
        return OUTPUT_NEEDS_MORE;
    if (fits == PATTERN_FAILS && family_of(s)->section.n == 0 && output_reader_closing(s) != NULL)
        return reader_enter(s, READER_SKIP);
    output_parser_consume(s, fits == PATTERN_FITS ? found.end : 0);
    return reader_enter(s, READER_BETWEEN);
}

/* ---- arguments that are a JSON object ---- */

static enum output_verdict end_json(struct output_parser *s)
{
    struct output_call *call = latest(s);

    call->is_over = call->is_whole = true;
    return reader_enter(s, s->reader.level > 0 ? READER_BEHIND : READER_TAIL);
}

/* Appends a control character of a string, escaped as JSON requires. */
static void add_control(struct buf *out, char c)
{
    if (c == '\n')
        buf_add_str(out, "\\n");
    else if (c == '\t')
        buf_add_str(out, "\\t");
    else
        buf_printf(out, "\\u%04x", (unsigned)(unsigned char)c);
}

/* Counts the bytes inside a string up to the next special one. */
static size_t n_plain(const struct json_scan *scan, const char *text, size_t n)
{
    size_t i = 0;

    if (!json_scan_is_in_string(scan))
        return 0;
    while (i < n && (unsigned char)text[i] >= 0x20 && text[i] != '"' && text[i] != '\\')
        i++;
    return i;
}

static enum output_verdict read_json(struct output_parser *s)
{
    struct json_scan *scan = &s->reader.scan;
    struct buf *out = &latest(s)->arguments;

    for (size_t i = 0; i < s->held.len; i++) {
        const size_t plain = n_plain(scan, s->held.data + i, s->held.len - i);
        const char c = s->held.data[i];
        unsigned events;
        bool is_control;

        if (plain > 0) {
            buf_add(out, s->held.data + i, plain);
            i += plain - 1;
            continue;
        }
        is_control = (unsigned char)c < 0x20 && c != '\0' && json_scan_is_in_string(scan);
        events = json_scan_byte(scan, c);
        if ((events & JSON_EVENT_BAD) != 0) {
            output_parser_consume(s, i);
            return reader_enter(s, READER_BROKEN);
        }
        if (is_control)
            add_control(out, c);
        else
            buf_add_char(out, c);
        if ((events & JSON_EVENT_END) != 0 && scan->depth == s->reader.level) {
            output_parser_consume(s, i + 1);
            return end_json(s);
        }
    }
    output_parser_consume(s, s->held.len);
    return OUTPUT_NEEDS_MORE;
}

/* Drops the rest of an object whose arguments have been copied. */
static enum output_verdict read_behind(struct output_parser *s)
{
    for (size_t i = 0; i < s->held.len; i++) {
        const unsigned events = json_scan_byte(&s->reader.scan, s->held.data[i]);
        const bool is_bad = (events & JSON_EVENT_BAD) != 0;

        if (!is_bad && s->reader.scan.depth > 0)
            continue;
        output_parser_consume(s, is_bad ? i : i + 1);
        reader_enter(s, READER_TAIL);
        return is_bad ? output_reader_fail(s) : OUTPUT_GOES_ON;
    }
    output_parser_consume(s, s->held.len);
    return OUTPUT_NEEDS_MORE;
}

/* ---- arguments that stand one by one ---- */

static enum output_verdict end_arguments(struct output_parser *s, size_t at)
{
    struct output_call *call = latest(s);

    buf_add_char(&call->arguments, '}');
    call->is_over = call->is_whole = true;
    output_parser_consume(s, at);
    return reader_enter(s, READER_BETWEEN);
}

/* Ends a call whose arguments continue in a way that the family does not write. */
static enum output_verdict break_arguments(struct output_parser *s)
{
    latest(s)->is_over = true;
    return output_reader_fail(s);
}

/* Begins an argument whose name was found; its value stands at found->end. */
static enum output_verdict begin_value(struct output_parser *s, const struct pattern_found *found)
{
    struct output_reader *r = &s->reader;
    struct output_call *call = latest(s);
    const char *key = s->held.data + found->key;
    const enum pattern_kind kind = argument_pattern_of(s)->at[found->item].kind;
    const bool is_text = kind <= PATTERN_VALUE_JSON;

    if (r->n_arguments++ > 0)
        buf_add_str(&call->arguments, ", ");
    call_value_add_string(&call->arguments, key, found->n_key);
    buf_add_str(&call->arguments, ": ");
    r->types = kind == PATTERN_VALUE_STRING ? ARGUMENT_STRING
               : kind == PATTERN_VALUE_JSON
                   ? ARGUMENT_ANY
                   : call_tools_types(s->tools, call->name, key, found->n_key);
    r->is_string = is_text && r->types == ARGUMENT_STRING;
    r->value =
        (struct call_value_scan){.family = kind == PATTERN_VALUE_QUOTED ? family_of(s) : NULL};
    if (r->is_string)
        buf_add_char(&call->arguments, '"');
    json_scan_init(&r->scan);
    r->n_scanned = 0;
    r->n_open = 0;
    r->n_key = found->n_key;
    output_parser_consume(s, found->end);
    return reader_enter(s, is_text ? READER_TEXT : READER_LITERAL);
}

/* Finds the first argument pattern that fits at held[at], or may fit with more text. */
static enum pattern_verdict match_argument(struct output_parser *s, size_t at,
                                           struct pattern_found *found)
{
    const struct family *f = family_of(s);
    enum pattern_verdict verdict = PATTERN_FAILS;

    for (uint32_t i = 0; i < f->n_arguments && verdict == PATTERN_FAILS; i++) {
        s->reader.argument = i;
        verdict = pattern_match(f, &f->arguments[i], 0, s->held.data, at, s->held.len, found);
    }
    return verdict;
}

static enum output_verdict read_argument(struct output_parser *s)
{
    const struct family *f = family_of(s);
    const bool has_comma = s->reader.n_arguments > 0 && f->comma.n > 0;
    struct pattern_found found, tail;
    enum pattern_verdict end, next = PATTERN_FITS;
    size_t at = 0;

    if (pass_blanks(s))
        return OUTPUT_NEEDS_MORE;
    end = match_tail(s, 0, &tail);
    if (end == PATTERN_FITS)
        return end_arguments(s, tail.end);
    if (has_comma) {
        next = pattern_match(f, &f->comma, 0, s->held.data, at, s->held.len, &found);
        at = found.end;
        if (next == PATTERN_FITS && at < s->held.len && match_tail(s, at, &tail) == PATTERN_FITS)
            return end_arguments(s, tail.end); /* a comma after the last argument */
    }
    if (next == PATTERN_FITS)
        next = match_argument(s, at, &found);
    if (next == PATTERN_FITS)
        return begin_value(s, &found);
    return (next == PATTERN_MORE || end == PATTERN_MORE) && s->held.len <= MAX_HEAD
               ? OUTPUT_NEEDS_MORE
               : break_arguments(s);
}

/* True: the value may have tags within it. */
static bool has_tags(const struct output_parser *s)
{
    const struct call_pattern *p = argument_pattern_of(s);

    return !s->reader.is_string && p->at[pattern_hole(p)].kind == PATTERN_VALUE_TAGS;
}

/* Appends the value, made of tags, of the argument whose name ends the call's arguments so far. */
static void add_tags(struct output_parser *s, const char *text, size_t n)
{
    static const char behind[] = "\": ";
    struct output_call *call = latest(s);
    struct buf *out = &call->arguments;
    const struct call_tags tags = {argument_pattern_of(s), s->tools, call->name};
    const char *key = out->data + out->len - (sizeof(behind) - 1) - s->reader.n_key;
    char name[PATTERN_MAX_HEAD];
    size_t n_name = s->reader.n_key < sizeof(name) ? s->reader.n_key : 0;

    if (out->err < 0)
        return;
    memcpy(name, key, n_name); /* `out` may move */
    call_tags_add(out, &tags, name, n_name, text, n, s->reader.types);
}

/* Does the closing tag at held[at] close a tag inside the value? Counts the tags that were opened
 * before it. */
static bool ends_inner_tag(struct output_parser *s, size_t at)
{
    const struct pattern_item *open = &argument_pattern_of(s)->at[0];
    struct output_reader *r = &s->reader;
    const char *text = s->held.data, *found;
    const char first = text[n_blanks(s)];

    if (!has_tags(s) || first == '{' || first == '[') /* such a value is JSON */
        return false;
    while (at > r->n_scanned &&
           (found = memmem(text + r->n_scanned, at - r->n_scanned, open->text, open->n)) != NULL) {
        r->n_open++;
        r->n_scanned = (size_t)(found - text) + open->n;
    }
    if (r->n_open == 0)
        return false;
    r->n_open--;
    r->n_scanned = at + 1 + open->n;
    return true;
}

static void end_value(struct output_parser *s, size_t n, size_t at)
{
    struct output_reader *r = &s->reader;
    struct buf *out = &latest(s)->arguments;
    const char *text = s->held.data;

    if (r->state == READER_LITERAL) {
        call_value_add_typed(out, r->value.family, text, n, r->types);
    } else if (r->is_string) {
        call_value_add_chars(out, text, n);
        buf_add_char(out, '"');
    } else if (has_tags(s)) {
        add_tags(s, text, n);
    } else {
        call_value_add_text(out, text, n, r->types);
    }
    output_parser_consume(s, at);
    reader_enter(s, READER_ARGUMENT);
}

/* Returns the item of the text that ends a raw value, and how many bytes of optional texts may
 * stand before it. */
static uint32_t find_end_item(const struct call_pattern *p, size_t *n_before)
{
    uint32_t i = pattern_hole(p) + 1;

    *n_before = 0;
    for (; i < p->n && (p->at[i].kind != PATTERN_TEXT || p->at[i].is_optional); i++)
        *n_before += p->at[i].n;
    return i;
}

/* Returns where the value ends: before held[at] and the optional texts in front of it. */
static size_t without_optional(const struct output_parser *s, size_t at)
{
    const struct call_pattern *p = argument_pattern_of(s);
    size_t n_before;

    for (uint32_t i = find_end_item(p, &n_before); i-- > pattern_hole(p) + 1;) {
        const struct pattern_item *item = &p->at[i];

        if (item->n > 0 && at >= item->n &&
            memcmp(s->held.data + at - item->n, item->text, item->n) == 0)
            at -= item->n;
    }
    return at;
}

/* Check that the closing text at held[at] is the value's end. Another argument or the call's end
 * must follow; else the text is part of the value. */
static enum pattern_verdict match_value_end(const struct output_parser *s, size_t at, size_t *end)
{
    const struct family *f = family_of(s);
    const struct call_pattern *p = argument_pattern_of(s), *call = call_pattern_of(s);
    struct pattern_texts next;
    struct pattern_found found;
    size_t n_before;
    enum pattern_verdict verdict =
        pattern_match(f, p, find_end_item(p, &n_before), s->held.data, at, s->held.len, &found);

    *end = found.end;
    if (verdict != PATTERN_FITS)
        return verdict;
    pattern_next(f, call, pattern_hole(call), &next);
    if (f->comma.n > 0 && f->comma.at[0].kind == PATTERN_TEXT && next.n < PATTERN_MAX_TEXTS)
        next.at[next.n++] = f->comma.at[0].text;
    verdict = pattern_texts_at(&next, s->held.data, found.end, s->held.len);
    for (uint32_t i = 0; i < f->n_arguments && verdict == PATTERN_FAILS; i++)
        if (f->arguments[i].at[0].kind == PATTERN_KEY)
            verdict =
                pattern_match(f, &f->arguments[i], 0, s->held.data, found.end, s->held.len, &found);
    return verdict == PATTERN_MORE && s->held.len - at > MAX_HEAD ? PATTERN_FITS : verdict;
}

/* Appends the bytes that surely belong to the string. */
static void grow_string(struct output_parser *s, size_t sure)
{
    while (sure > 0 && sure < s->held.len && ((unsigned char)s->held.data[sure] & 0xc0) == 0x80)
        sure--; /* whole characters only */
    call_value_add_chars(&latest(s)->arguments, s->held.data, sure);
    output_parser_consume(s, sure);
    s->reader.at = s->reader.at > sure ? s->reader.at - sure : 0;
}

/* True: held[at] is inside a string of a list or an object, where any text may stand. Only the
 * value of an argument that may have such a type is a list or an object; in others a bracket is
 * just the first character. */
static bool is_in_json_string(struct output_parser *s, size_t at)
{
    struct output_reader *r = &s->reader;
    const char first = s->held.data[n_blanks(s)];

    if (first != '{' && first != '[')
        return false;
    if ((r->types & (first == '[' ? ARGUMENT_ARRAY : ARGUMENT_OBJECT)) == 0)
        return false;
    for (; r->n_scanned < at; r->n_scanned++)
        json_scan_byte(&r->scan, s->held.data[r->n_scanned]);
    return json_scan_is_in_string(&r->scan);
}

static enum output_verdict read_text(struct output_parser *s)
{
    const struct call_pattern *p = argument_pattern_of(s);
    size_t n_before, end;
    const struct pattern_item *item = &p->at[find_end_item(p, &n_before)];

    for (;;) {
        const struct buf *b = &s->held;
        const char *at = memmem(b->data + s->reader.at, b->len - s->reader.at, item->text, item->n);
        const size_t sure = at != NULL             ? (size_t)(at - b->data)
                            : b->len > item->n - 1 ? b->len - (item->n - 1)
                                                   : 0;
        const enum pattern_verdict verdict = at == NULL ? PATTERN_MORE
                                             : is_in_json_string(s, sure) || ends_inner_tag(s, sure)
                                                 ? PATTERN_FAILS
                                                 : match_value_end(s, sure, &end);

        if (verdict == PATTERN_FITS) {
            end_value(s, without_optional(s, sure), end);
            return OUTPUT_GOES_ON;
        }
        if (verdict == PATTERN_MORE) {
            s->reader.at = sure > s->reader.at ? sure : s->reader.at;
            if (s->reader.is_string && sure > n_before)
                grow_string(s, sure - n_before);
            return OUTPUT_NEEDS_MORE;
        }
        s->reader.at = sure + 1;
    }
}

static enum output_verdict read_literal(struct output_parser *s)
{
    if (!call_value_ends(&s->reader.value, s->held.data, s->held.len))
        return OUTPUT_NEEDS_MORE;
    end_value(s, s->reader.value.at, s->reader.value.at);
    return OUTPUT_GOES_ON;
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
        return read_json(s);
    case READER_BEHIND:
        return read_behind(s);
    case READER_ARGUMENT:
        return read_argument(s);
    case READER_TEXT:
        return read_text(s);
    case READER_LITERAL:
        return read_literal(s);
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

/* Ends a raw value at the answer's end: it is complete if its closing text stands there. */
static void end_text(struct output_parser *s)
{
    const struct call_pattern *p = argument_pattern_of(s);
    size_t n_before, n;
    const struct pattern_item *item = &p->at[find_end_item(p, &n_before)];

    n = s->held.len;
    while (n > 0 && pattern_is_blank(s->held.data[n - 1]))
        n--;
    if (n >= item->n && memcmp(s->held.data + n - item->n, item->text, item->n) == 0)
        end_value(s, without_optional(s, n - item->n), s->held.len);
    else if (s->reader.is_string)
        call_value_add_chars(&latest(s)->arguments, s->held.data, s->held.len);
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
        buf_add(&latest(s)->arguments, s->held.data, s->held.len);
        break;
    case READER_TEXT:
        end_text(s);
        break;
    case READER_ARGUMENT: /* cut inside the text that ends the call */
        if (s->held.len > 0 && match_tail(s, n_blanks(s), &found) == PATTERN_MORE)
            end_arguments(s, s->held.len);
        break;
    case READER_JSON:
    case READER_BEHIND:
    case READER_LITERAL:
    case READER_TAIL:
        break;
    }
}
