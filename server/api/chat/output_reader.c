/* server/api/chat/output_reader.c - the calls behind a mark, read as they are written.
 *
 * Two ways to write one: an object with a name and arguments, or a header with the name and then
 * the arguments' object. Bytes stay held until the call's name is known and its arguments begin:
 * until then it may turn out to be text. From there on they belong to the call.
 */
#include "server/api/chat/output_parser_impl.h"

#include "core/base/err.h"

#include <stdio.h>
#include <string.h>

#define MAX_HEADER 512 /* bytes of a call before its arguments */

enum reader_state {
    BETWEEN = 0, /* a call, or the mark that ends them */
    OBJECT,      /* inside the object of a call that has not begun to come out */
    ARGUMENTS,   /* of a call that has */
    BEHIND,      /* its arguments: what else its object has is passed over */
    BROKEN,      /* its arguments are no JSON: whatever comes until the mark is theirs */
    TAIL,        /* no call comes any more; passed over until the mark */
};

enum member { MEMBER_OTHER = 0, MEMBER_NAME, MEMBER_ARGUMENTS };

enum verdict { NEEDS_MORE = 0, GOES_ON, LEFT };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Does a call have its name in a header, or is the name known? */
static bool has_header(const struct output_parser *s)
{
    const enum output_syntax syntax = s->style.syntax;

    return syntax == OUTPUT_DEEPSEEK || syntax == OUTPUT_HARMONY || syntax == OUTPUT_FORCED_NAMED;
}

static bool is_forced(const struct output_parser *s)
{
    return s->style.syntax == OUTPUT_FORCED || s->style.syntax == OUTPUT_FORCED_NAMED;
}

void output_reader_begin(struct output_parser *s, bool is_marked)
{
    s->reader = (struct output_reader){.is_marked = is_marked};
}

static struct output_call *latest(struct output_parser *s)
{
    return &s->calls[s->n_calls - 1];
}

static void pass(struct output_parser *s, size_t n)
{
    output_parser_consume(s, n);
    s->reader.at = 0;
    s->reader.object = s->reader.string = s->reader.name = s->reader.n_name = 0;
}

/* ---- leaving ---- */

/* It is no call: from the mark on it is text, and may have other marks in it. */
static enum verdict give_up(struct output_parser *s)
{
    const char *open = output_marks(s->style.syntax)->call_open;
    size_t n = 0;

    output_parser_enter(s, OUTPUT_TEXT);
    s->has_begun = true; /* white space and all */
    if (s->style.syntax == OUTPUT_HARMONY)
        return LEFT;
    if (s->reader.is_marked) {
        output_parser_put(s, open, strlen(open));
        return LEFT;
    }
    while (n < s->held.len && is_blank(s->held.data[n]))
        n++;
    n += n < s->held.len; /* with its first letter, so that it is not tried again */
    output_parser_put(s, s->held.data, n);
    output_parser_consume(s, n);
    return LEFT;
}

/* What stands here is neither a call nor the end of calls. */
static enum verdict fail(struct output_parser *s)
{
    const struct output_marks *m = output_marks(s->style.syntax);

    if (s->reader.n_calls == 0)
        return give_up(s);
    if (m->call_close != NULL || s->style.syntax == OUTPUT_HARMONY) {
        s->reader.state = TAIL;
        s->reader.at = 0;
        return GOES_ON;
    }
    output_parser_enter(s, OUTPUT_TEXT);
    return LEFT;
}

/* The mark stands at held[at]. */
static enum verdict leave(struct output_parser *s, size_t at, const char *mark)
{
    const bool is_harmony = s->style.syntax == OUTPUT_HARMONY;

    output_parser_enter(s, is_harmony ? OUTPUT_HEADER : OUTPUT_TEXT);
    output_parser_consume(s, at + strlen(mark));
    return LEFT;
}

/* Up to the mark that ends the calls; what stands before it goes to the call's arguments if they
 * are broken. */
static enum verdict read_to_mark(struct output_parser *s)
{
    const char *marks[OUTPUT_MAX_MARKS];
    const size_t n = output_marks_here(s, marks);
    size_t which = 0, at, sure;

    at = output_marks_find(&s->held, s->reader.at, marks, n, &which);
    sure = at != SIZE_MAX ? at : s->held.len - output_marks_undecided(&s->held, marks, n);
    if (s->reader.state == BROKEN) {
        buf_add(&latest(s)->arguments, s->held.data, sure);
        latest(s)->is_over = at != SIZE_MAX;
        pass(s, at != SIZE_MAX ? 0 : sure);
    } else {
        s->reader.at = sure; /* shown after all, should no mark come */
    }
    return at != SIZE_MAX ? leave(s, at, marks[which]) : NEEDS_MORE;
}

/* ---- a call comes out ---- */

/* The call has begun; its arguments stand from held[at] on. */
static void begin_arguments(struct output_parser *s, size_t at)
{
    s->reader.n_calls++;
    s->reader.state = ARGUMENTS;
    s->reader.is_plain = false;
    pass(s, at);
}

/* The name stood in a header, or is known. */
static enum verdict commit(struct output_parser *s, const char *name, size_t n, size_t at)
{
    if (output_calls_begin(s, name, n) == NULL)
        return fail(s);
    begin_arguments(s, at);
    json_scan_init(&s->reader.scan);
    s->reader.level = 0;
    return GOES_ON;
}

/* The object's own scan goes on; it has read the first byte. */
static enum verdict commit_member(struct output_parser *s, size_t at)
{
    struct output_call *call =
        output_calls_begin_literal(s, s->held.data + s->reader.name, s->reader.n_name);

    if (call == NULL)
        return fail(s);
    buf_add_char(&call->arguments, '{');
    begin_arguments(s, at + 1);
    s->reader.level = 1;
    return GOES_ON;
}

static enum verdict end_arguments(struct output_parser *s)
{
    struct output_call *call = latest(s);

    call->is_over = call->is_whole = true;
    s->reader.state = s->reader.level > 0 ? BEHIND : BETWEEN;
    return GOES_ON;
}

/* A control character in a string, which JSON wants escaped. */
static void add_control(struct buf *out, char c)
{
    if (c == '\n')
        buf_add_str(out, "\\n");
    else if (c == '\t')
        buf_add_str(out, "\\t");
    else
        buf_printf(out, "\\u%04x", (unsigned)(unsigned char)c);
}

static enum verdict read_arguments(struct output_parser *s)
{
    struct json_scan *scan = &s->reader.scan;
    struct buf *out = &latest(s)->arguments;

    for (size_t i = 0; i < s->held.len; i++) {
        const char c = s->held.data[i];
        const bool is_control =
            (unsigned char)c < 0x20 && c != '\0' && json_scan_is_in_string(scan);
        const unsigned events = json_scan_byte(scan, c);

        if ((events & JSON_EVENT_BAD) != 0) {
            pass(s, i);
            s->reader.state = BROKEN;
            return GOES_ON;
        }
        if (is_control)
            add_control(out, c);
        else
            buf_add_char(out, c);
        if ((events & JSON_EVENT_END) != 0 && scan->depth == s->reader.level) {
            pass(s, i + 1);
            return end_arguments(s);
        }
    }
    pass(s, s->held.len);
    return NEEDS_MORE;
}

/* ---- objects ---- */

/* A member's name has ended with held[at]. */
static void find_member(struct output_parser *s, size_t at)
{
    struct output_reader *r = &s->reader;
    const char *text = s->held.data + r->string;
    const size_t n = at + 1 - r->string;

    r->member = json_text_is(text, n, "name") ? MEMBER_NAME
                : json_text_is(text, n, "arguments") || json_text_is(text, n, "parameters")
                    ? MEMBER_ARGUMENTS
                    : MEMBER_OTHER;
}

/* A value of the object's own begins at held[at]. False: no call has that. */
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

/* A value of the object's own, or the object, has ended with held[at]. */
static void end_member(struct output_parser *s, size_t at)
{
    struct output_reader *r = &s->reader;

    if (r->member == MEMBER_NAME && r->n_name == 0) {
        r->name = r->string;
        r->n_name = at + 1 - r->string;
    }
    r->member = MEMBER_OTHER;
}

/* The object ends with held[at], and no arguments have come out: it has none, or they wait. */
static enum verdict end_object(struct output_parser *s, size_t at)
{
    struct output_reader *r = &s->reader;

    if (!output_calls_add(s, s->held.data + r->object, at + 1 - r->object))
        return fail(s);
    r->n_calls++;
    r->state = BETWEEN;
    r->is_plain = false;
    pass(s, at + 1);
    return GOES_ON;
}

static enum verdict read_object_byte(struct output_parser *s, size_t at)
{
    struct output_reader *r = &s->reader;
    const uint32_t depth = r->scan.depth;
    const unsigned events = json_scan_byte(&r->scan, s->held.data[at]);
    bool commits = false;

    if ((events & JSON_EVENT_BAD) != 0)
        return fail(s);
    if ((events & JSON_EVENT_OPEN_NAME) != 0 && depth == 1)
        r->string = at;
    if ((events & JSON_EVENT_CLOSE_NAME) != 0 && depth == 1)
        find_member(s, at);
    if ((events & JSON_EVENT_BEGIN) != 0 && depth == 1 && !begin_member(s, at, &commits))
        return fail(s);
    if (commits)
        return commit_member(s, at);
    if ((events & JSON_EVENT_END) != 0 && r->scan.depth == 1)
        end_member(s, at);
    return (events & JSON_EVENT_END) != 0 && r->scan.depth == 0 ? end_object(s, at) : NEEDS_MORE;
}

static enum verdict read_object(struct output_parser *s)
{
    struct output_reader *r = &s->reader;
    enum verdict verdict = NEEDS_MORE;

    while (r->at < s->held.len && verdict == NEEDS_MORE)
        verdict = read_object_byte(s, r->at++);
    return verdict;
}

/* The rest of an object whose arguments have come out. */
static enum verdict read_behind(struct output_parser *s)
{
    for (size_t i = 0; i < s->held.len; i++) {
        const unsigned events = json_scan_byte(&s->reader.scan, s->held.data[i]);
        const bool is_bad = (events & JSON_EVENT_BAD) != 0;

        if (!is_bad && s->reader.scan.depth > 0)
            continue;
        pass(s, is_bad ? i : i + 1);
        s->reader.state = BETWEEN;
        return is_bad ? fail(s) : GOES_ON;
    }
    pass(s, s->held.len);
    return NEEDS_MORE;
}

/* ---- headers ---- */

struct header {               /* offsets behind its first byte */
    size_t name, n_name, end; /* the arguments' brace stands at `end` */
};

static size_t skip_blanks(const char *p, size_t n, size_t i)
{
    while (i < n && is_blank(p[i]))
        i++;
    return i;
}

/* The offset of `what` in p[i..n), or SIZE_MAX. */
static size_t find_text(const char *p, size_t n, size_t i, const char *what)
{
    const size_t len = strlen(what);

    for (; i + len <= n; i++)
        if (memcmp(p + i, what, len) == 0)
            return i;
    return SIZE_MAX;
}

static void trim_name(const char *p, struct header *h)
{
    const size_t end = h->name + h->n_name;

    h->name = skip_blanks(p, end, h->name);
    h->n_name = end - h->name;
    while (h->n_name > 0 && is_blank(p[h->name + h->n_name - 1]))
        h->n_name--;
}

/* The brace, behind blanks from p[i] on. */
static enum verdict find_brace(const char *p, size_t n, size_t i, struct header *h)
{
    h->end = skip_blanks(p, n, i);
    return h->end == n ? NEEDS_MORE : p[h->end] == '{' && h->n_name > 0 ? GOES_ON : LEFT;
}

/* <｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n{ or
 * <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{ (V3.1). */
static enum verdict read_deepseek(const char *p, size_t n, struct header *h)
{
    static const char begin[] = "<｜tool▁call▁begin｜>", sep[] = "<｜tool▁sep｜>",
                      fence[] = "```json";
    const size_t from =
        n >= sizeof(begin) - 1 && memcmp(p, begin, sizeof(begin) - 1) == 0 ? sizeof(begin) - 1 : 0;
    const size_t at = find_text(p, n, 0, sep);
    size_t i, line;

    if (at == SIZE_MAX)
        return NEEDS_MORE;
    *h = (struct header){from, at - from, 0};
    i = skip_blanks(p, n, at + sizeof(sep) - 1);
    if (i == n || p[i] == '{') {
        trim_name(p, h);
        return find_brace(p, n, i, h);
    }
    line = find_text(p, n, i, "\n");
    if (line == SIZE_MAX)
        return NEEDS_MORE;
    *h = (struct header){i, line - i, 0};
    trim_name(p, h);
    i = skip_blanks(p, n, line);
    if (n - i < sizeof(fence) - 1)
        return memcmp(p + i, fence, n - i) == 0 ? NEEDS_MORE : LEFT;
    return memcmp(p + i, fence, sizeof(fence) - 1) == 0 ? find_brace(p, n, i + sizeof(fence) - 1, h)
                                                        : LEFT;
}

/* NAME[ARGS]{ or NAME[CALL_ID]…[ARGS]{ */
static enum verdict read_mistral(const char *p, size_t n, struct header *h)
{
    static const char args[] = "[ARGS]";
    const size_t at = find_text(p, n, 0, args);
    size_t id;

    if (at == SIZE_MAX)
        return NEEDS_MORE;
    id = find_text(p, at, 0, "[CALL_ID]");
    *h = (struct header){0, id != SIZE_MAX ? id : at, 0};
    trim_name(p, h);
    return find_brace(p, n, at + sizeof(args) - 1, h);
}

static enum verdict read_header(struct output_parser *s)
{
    const char *p = s->held.data + s->reader.at;
    const size_t n = s->held.len - s->reader.at, most = n < MAX_HEADER ? n : MAX_HEADER;
    struct header h = {0, 0, 0};
    enum verdict verdict;

    verdict =
        s->style.syntax == OUTPUT_DEEPSEEK ? read_deepseek(p, most, &h) : read_mistral(p, most, &h);
    s->reader.name = s->reader.at + h.name;
    s->reader.n_name = h.n_name;
    if (verdict == GOES_ON)
        return commit(s, p + h.name, h.n_name, s->reader.at + h.end);
    return verdict == LEFT || n >= MAX_HEADER ? fail(s) : NEEDS_MORE;
}

/* The arguments of a function that is known, and nothing else. */
static enum verdict read_bare(struct output_parser *s)
{
    if (s->held.data[s->reader.at] != '{' || s->reader.n_calls > 0)
        return fail(s);
    return commit(s, s->recipient, strlen(s->recipient), s->reader.at);
}

/* ---- between calls ---- */

/* Is what is held from `at` on one of these, or the beginning of one? */
static enum verdict match(const struct buf *held, size_t at, const char *const *marks, size_t n,
                          size_t *which)
{
    const size_t left = held->len - at;
    enum verdict verdict = LEFT;

    for (*which = 0; *which < n; ++*which) {
        const size_t len = strlen(marks[*which]);

        if (memcmp(held->data + at, marks[*which], left < len ? left : len) != 0)
            continue;
        if (left >= len)
            return GOES_ON;
        verdict = NEEDS_MORE;
    }
    return verdict;
}

/* Longer things that may stand between two calls. */
static size_t find_separators(const struct output_parser *s, const char *separators[2])
{
    const struct output_marks *m = output_marks(s->style.syntax);

    if (s->style.syntax == OUTPUT_DEEPSEEK) {
        separators[0] = "```";
        separators[1] = "<｜tool▁call▁end｜>";
        return 2;
    }
    if (m->call_open == NULL || m->call_close != NULL)
        return 0;
    separators[0] = m->call_open; /* once more: nothing closes it */
    return 1;
}

/* Past what may stand between two calls. NEEDS_MORE when all that is held is that, or may be. */
static enum verdict skip_separators(struct output_parser *s)
{
    const char *separators[2], *singles = has_header(s) ? " \t\r\n" : " \t\r\n,;[]";
    const size_t n = find_separators(s, separators);
    const struct buf *b = &s->held;
    size_t i = s->reader.at, which;
    enum verdict verdict = GOES_ON;

    while (i < b->len && verdict == GOES_ON) {
        verdict = match(b, i, separators, n, &which);
        if (verdict == GOES_ON) {
            i += strlen(separators[which]);
        } else if (verdict == LEFT && b->data[i] != '\0' && strchr(singles, b->data[i]) != NULL) {
            verdict = GOES_ON;
            i++;
        }
    }
    s->reader.at = i;
    if (s->reader.n_calls > 0)
        pass(s, i); /* these were calls */
    return verdict == LEFT ? GOES_ON : NEEDS_MORE;
}

static enum verdict begin_call(struct output_parser *s)
{
    struct output_reader *r = &s->reader;

    r->n_name = 0;
    if (s->style.syntax == OUTPUT_HARMONY || s->style.syntax == OUTPUT_FORCED_NAMED)
        return read_bare(s);
    if (s->style.syntax == OUTPUT_DEEPSEEK)
        return read_header(s);
    if (s->held.data[r->at] != '{')
        return s->style.syntax == OUTPUT_MISTRAL ? read_header(s) : fail(s);
    json_scan_init(&r->scan);
    r->state = OBJECT;
    r->object = r->at;
    r->member = MEMBER_OTHER;
    r->is_plain = false;
    return GOES_ON;
}

static enum verdict read_between(struct output_parser *s)
{
    const char *marks[OUTPUT_MAX_MARKS];
    const size_t n = output_marks_here(s, marks);
    enum verdict verdict = skip_separators(s);
    size_t which;

    if (verdict == NEEDS_MORE)
        return NEEDS_MORE;
    verdict = match(&s->held, s->reader.at, marks, n, &which);
    if (verdict == GOES_ON)
        return s->reader.n_calls > 0 ? leave(s, s->reader.at, marks[which]) : give_up(s);
    return verdict == LEFT ? begin_call(s) : NEEDS_MORE;
}

bool output_reader_read(struct output_parser *s)
{
    enum verdict verdict = GOES_ON;

    while (verdict == GOES_ON && output_parser_error(s) == 0) {
        switch ((enum reader_state)s->reader.state) {
        case BETWEEN:
            verdict = read_between(s);
            break;
        case OBJECT:
            verdict = read_object(s);
            break;
        case ARGUMENTS:
            verdict = read_arguments(s);
            break;
        case BEHIND:
            verdict = read_behind(s);
            break;
        case BROKEN:
        case TAIL:
            verdict = read_to_mark(s);
            break;
        }
    }
    return verdict == LEFT;
}

/* ---- the end ---- */

/* A call that was cut before its arguments is one without any, if its name is known. */
static void end_before_arguments(struct output_parser *s)
{
    struct output_reader *r = &s->reader;
    const char *open = output_marks(s->style.syntax)->call_open;

    if (s->recipient[0] != '\0' && r->n_calls == 0) {
        (void)output_calls_begin(s, s->recipient, strlen(s->recipient));
        return;
    }
    if (r->n_name > 0 && (r->is_marked || is_forced(s) || r->n_calls > 0)) {
        if (r->state == OBJECT)
            (void)output_calls_begin_literal(s, s->held.data + r->name, r->n_name);
        else
            (void)output_calls_begin(s, s->held.data + r->name, r->n_name);
        return;
    }
    if (is_forced(s) || r->n_calls > 0)
        return;
    output_parser_enter(s, OUTPUT_TEXT);
    s->has_begun = true;
    if (r->is_marked)
        output_parser_put(s, open, strlen(open));
    output_parser_put(s, s->held.data, s->held.len);
}

void output_reader_end(struct output_parser *s)
{
    if (s->held.len == 0)
        return;
    if (s->reader.state == TAIL && s->style.syntax != OUTPUT_HARMONY) {
        output_parser_enter(s, OUTPUT_TEXT);
        output_parser_put(s, s->held.data, s->held.len);
    } else if (s->reader.state == BROKEN) {
        buf_add(&latest(s)->arguments, s->held.data, s->held.len); /* part of a mark */
    } else if (s->reader.state == BETWEEN || s->reader.state == OBJECT) {
        end_before_arguments(s);
    }
}
