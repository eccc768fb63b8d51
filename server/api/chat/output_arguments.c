/* server/api/chat/output_arguments.c - reads a call's arguments while they are generated; see
 * output_reader_impl.h.
 *
 * Arguments that are one JSON object are copied byte by byte through json_scan; those that stand
 * one by one are converted to JSON.
 */
#include "server/api/chat/output_reader_impl.h"

#include "server/api/chat/call_tags.h"
#include "server/api/chat/call_tools.h"

#include <string.h>

/* ---- arguments that are a JSON object ---- */

static enum output_verdict end_json(struct output_parser *s)
{
    struct output_call *call = reader_latest_call(s);

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

enum output_verdict output_arguments_read_json(struct output_parser *s)
{
    struct json_scan *scan = &s->reader.scan;
    struct buf *out = &reader_latest_call(s)->arguments;

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

enum output_verdict output_arguments_read_behind(struct output_parser *s)
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

enum output_verdict output_arguments_end(struct output_parser *s, size_t at)
{
    struct output_call *call = reader_latest_call(s);

    buf_add_char(&call->arguments, '}');
    call->is_over = call->is_whole = true;
    output_parser_consume(s, at);
    return reader_enter(s, READER_BETWEEN);
}

/* Ends a call whose arguments continue in a way that the family does not write. */
static enum output_verdict break_arguments(struct output_parser *s)
{
    reader_latest_call(s)->is_over = true;
    return output_reader_fail(s);
}

/* Begins an argument whose name was found; its value stands at found->end. */
static enum output_verdict begin_value(struct output_parser *s, const struct pattern_found *found)
{
    struct output_reader *r = &s->reader;
    struct output_call *call = reader_latest_call(s);
    const char *key = s->held.data + found->key;
    const enum pattern_kind kind = reader_argument_pattern(s)->at[found->item].kind;
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
        (struct call_value_scan){.family = kind == PATTERN_VALUE_QUOTED ? reader_family(s) : NULL};
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
    const struct family *f = reader_family(s);
    enum pattern_verdict verdict = PATTERN_FAILS;

    for (uint32_t i = 0; i < f->n_arguments && verdict == PATTERN_FAILS; i++) {
        s->reader.argument = i;
        verdict = pattern_match(f, &f->arguments[i], 0, s->held.data, at, s->held.len, found);
    }
    return verdict;
}

enum output_verdict output_arguments_read_next(struct output_parser *s)
{
    const struct family *f = reader_family(s);
    const bool has_comma = s->reader.n_arguments > 0 && f->comma.n > 0;
    struct pattern_found found, tail;
    enum pattern_verdict end, next = PATTERN_FITS;
    size_t at = 0;

    if (reader_pass_blanks(s))
        return OUTPUT_NEEDS_MORE;
    end = output_reader_match_tail(s, 0, &tail);
    if (end == PATTERN_FITS)
        return output_arguments_end(s, tail.end);
    if (has_comma) {
        next = pattern_match(f, &f->comma, 0, s->held.data, at, s->held.len, &found);
        at = found.end;
        if (next == PATTERN_FITS && at < s->held.len &&
            output_reader_match_tail(s, at, &tail) == PATTERN_FITS)
            return output_arguments_end(s, tail.end); /* a comma after the last argument */
    }
    if (next == PATTERN_FITS)
        next = match_argument(s, at, &found);
    if (next == PATTERN_FITS)
        return begin_value(s, &found);
    return (next == PATTERN_MORE || end == PATTERN_MORE) && s->held.len <= READER_MAX_HEAD
               ? OUTPUT_NEEDS_MORE
               : break_arguments(s);
}

/* True: the value may have tags within it. */
static bool has_tags(const struct output_parser *s)
{
    const struct call_pattern *p = reader_argument_pattern(s);

    return !s->reader.is_string && p->at[pattern_hole(p)].kind == PATTERN_VALUE_TAGS;
}

/* Appends the value, made of tags, of the argument whose name ends the call's arguments so far. */
static void add_tags(struct output_parser *s, const char *text, size_t n)
{
    static const char behind[] = "\": ";
    struct output_call *call = reader_latest_call(s);
    struct buf *out = &call->arguments;
    const struct call_tags tags = {reader_argument_pattern(s), s->tools, call->name};
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
    const struct pattern_item *open = &reader_argument_pattern(s)->at[0];
    struct output_reader *r = &s->reader;
    const char *text = s->held.data, *found;
    const char first = text[reader_n_blanks(s)];

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
    struct buf *out = &reader_latest_call(s)->arguments;
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
    const struct call_pattern *p = reader_argument_pattern(s);
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
    const struct family *f = reader_family(s);
    const struct call_pattern *p = reader_argument_pattern(s), *call = reader_call_pattern(s);
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
    return verdict == PATTERN_MORE && s->held.len - at > READER_MAX_HEAD ? PATTERN_FITS : verdict;
}

/* Appends the bytes that surely belong to the string. */
static void grow_string(struct output_parser *s, size_t sure)
{
    while (sure > 0 && sure < s->held.len && ((unsigned char)s->held.data[sure] & 0xc0) == 0x80)
        sure--; /* whole characters only */
    call_value_add_chars(&reader_latest_call(s)->arguments, s->held.data, sure);
    output_parser_consume(s, sure);
    s->reader.at = s->reader.at > sure ? s->reader.at - sure : 0;
}

/* True: held[at] is inside a string of a list or an object, where any text may stand. Only the
 * value of an argument that may have such a type is a list or an object; in others a bracket is
 * just the first character. */
static bool is_in_json_string(struct output_parser *s, size_t at)
{
    struct output_reader *r = &s->reader;
    const char first = s->held.data[reader_n_blanks(s)];

    if (first != '{' && first != '[')
        return false;
    if ((r->types & (first == '[' ? ARGUMENT_ARRAY : ARGUMENT_OBJECT)) == 0)
        return false;
    for (; r->n_scanned < at; r->n_scanned++)
        json_scan_byte(&r->scan, s->held.data[r->n_scanned]);
    return json_scan_is_in_string(&r->scan);
}

enum output_verdict output_arguments_read_text(struct output_parser *s)
{
    const struct call_pattern *p = reader_argument_pattern(s);
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

enum output_verdict output_arguments_read_literal(struct output_parser *s)
{
    if (!call_value_ends(&s->reader.value, s->held.data, s->held.len))
        return OUTPUT_NEEDS_MORE;
    end_value(s, s->reader.value.at, s->reader.value.at);
    return OUTPUT_GOES_ON;
}

void output_arguments_end_text(struct output_parser *s)
{
    const struct call_pattern *p = reader_argument_pattern(s);
    size_t n_before, n;
    const struct pattern_item *item = &p->at[find_end_item(p, &n_before)];

    n = s->held.len;
    while (n > 0 && pattern_is_blank(s->held.data[n - 1]))
        n--;
    if (n >= item->n && memcmp(s->held.data + n - item->n, item->text, item->n) == 0)
        end_value(s, without_optional(s, n - item->n), s->held.len);
    else if (s->reader.is_string)
        call_value_add_chars(&reader_latest_call(s)->arguments, s->held.data, s->held.len);
}
