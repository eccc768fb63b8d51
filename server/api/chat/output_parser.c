/* server/api/chat/output_parser.c - see output_parser.h. */
#include "server/api/chat/output_parser_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/http/http_call.h"

#include <stdio.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_harmony(const struct output_parser *s)
{
    return s->style.syntax == OUTPUT_HARMONY;
}

void output_parser_init(struct output_parser *s, const struct output_style *style, bool finds_calls,
                        bool thinks)
{
    *s = (struct output_parser){.style = *style, .finds_calls = finds_calls};
    s->part = thinks ? OUTPUT_THOUGHT : OUTPUT_TEXT;
    buf_init(&s->held, HTTP_MAX_REPLY / 4);
    buf_init(&s->thought, HTTP_MAX_REPLY / 4);
    buf_init(&s->text, HTTP_MAX_REPLY / 4);
}

void output_parser_init_forced(struct output_parser *s, const char *name,
                               const struct output_style *style, bool thinks)
{
    const struct output_style forced = {
        .syntax = name != NULL ? OUTPUT_FORCED_NAMED : OUTPUT_FORCED,
        .has_thoughts = style->has_thoughts && style->syntax != OUTPUT_HARMONY};

    output_parser_init(s, &forced, true, thinks);
    snprintf(s->recipient, sizeof(s->recipient), "%s", name != NULL ? name : "");
}

void output_parser_release(struct output_parser *s)
{
    output_calls_release(s);
    buf_release(&s->held);
    buf_release(&s->thought);
    buf_release(&s->text);
}

static bool has_more_of(const struct output_call *call)
{
    return !call->was_announced || call->n_sent < call->arguments.len;
}

bool output_parser_has_more(const struct output_parser *s)
{
    for (uint32_t i = s->n_sent; i < s->n_calls; i++)
        if (has_more_of(&s->calls[i]))
            return true;
    return s->text.len > 0 || s->thought.len > 0;
}

void output_parser_clear(struct output_parser *s)
{
    for (uint32_t i = s->n_sent; i < s->n_calls; i++) {
        s->calls[i].was_announced = true;
        s->calls[i].n_sent = s->calls[i].arguments.len;
    }
    while (s->n_sent < s->n_calls && s->calls[s->n_sent].is_over)
        s->n_sent++;
    buf_clear(&s->text);
    buf_clear(&s->thought);
}

size_t output_parser_bytes(const struct output_parser *s)
{
    size_t bytes = s->held.cap + s->thought.cap + s->text.cap;

    for (uint32_t i = 0; i < s->n_calls; i++)
        bytes += s->calls[i].arguments.cap;
    return bytes;
}

bool output_parser_is_thinking(const struct output_parser *s)
{
    return s->part == OUTPUT_THOUGHT;
}

int output_parser_error(const struct output_parser *s)
{
    const int rc[] = {s->err, s->held.err, s->thought.err, s->text.err};

    for (size_t i = 0; i < sizeof(rc) / sizeof(rc[0]); i++)
        if (rc[i] < 0)
            return rc[i];
    for (uint32_t i = 0; i < s->n_calls; i++)
        if (s->calls[i].arguments.err < 0)
            return s->calls[i].arguments.err;
    return 0;
}

/* ---- sorting ---- */

/* A part that follows a mark begins with its first letter. */
static bool skips_blanks(const struct output_parser *s)
{
    return !s->has_begun && !is_harmony(s) &&
           (s->part == OUTPUT_THOUGHT || s->has_thought || s->n_calls > 0);
}

void output_parser_put(struct output_parser *s, const char *text, size_t n)
{
    if (skips_blanks(s))
        while (n > 0 && is_blank(*text)) {
            text++;
            n--;
        }
    if (n == 0)
        return;
    s->has_begun = true;
    if (s->part == OUTPUT_THOUGHT) {
        buf_add(&s->thought, text, n);
        return;
    }
    s->has_text = true;
    buf_add(&s->text, text, n);
}

void output_parser_enter(struct output_parser *s, enum output_part part)
{
    s->part = part;
    s->has_begun = false;
}

/* The first byte that is no white space, or held.len. The offset is remembered: a
 * long run of blanks costs linear time. */
static size_t first_letter(struct output_parser *s)
{
    while (s->n_blank < s->held.len && is_blank(s->held.data[s->n_blank]))
        s->n_blank++;
    return s->n_blank;
}

void output_parser_consume(struct output_parser *s, size_t n)
{
    buf_consume(&s->held, n);
    s->n_searched = 0;
    s->n_blank = s->n_blank > n ? s->n_blank - n : 0;
}

/* Only the very first thing said can open a thought: does what is held begin, as far as it goes,
 * with that mark? */
static bool may_open_thought(struct output_parser *s)
{
    const char *mark = output_marks(s->style.syntax)->think_open;
    size_t i, len;

    if (!s->style.has_thoughts || s->has_thought || s->has_text)
        return false;
    len = strlen(mark);
    i = first_letter(s);
    if (i == s->held.len)
        return true;
    return memcmp(s->held.data + i, mark, s->held.len - i < len ? s->held.len - i : len) == 0;
}

size_t output_marks_here(struct output_parser *s, const char *marks[OUTPUT_MAX_MARKS])
{
    const struct output_marks *m = output_marks(s->style.syntax);
    size_t n = 0;

    if (s->part == OUTPUT_HEADER) {
        marks[n++] = m->header_close;
    } else if (is_harmony(s)) {
        marks[n++] = m->part_close;
        marks[n++] = m->header_open;
    } else if (s->part == OUTPUT_THOUGHT) {
        marks[n++] = m->think_close;
    } else if (s->part == OUTPUT_CALL) {
        if (m->call_close != NULL)
            marks[n++] = m->call_close;
    } else {
        if (may_open_thought(s))
            marks[n++] = m->think_open;
        if (s->finds_calls && m->call_open != NULL)
            marks[n++] = m->call_open;
    }
    return n;
}

static bool starts_with(const struct buf *b, size_t at, const char *mark)
{
    const size_t n = strlen(mark);

    return at + n <= b->len && memcmp(b->data + at, mark, n) == 0;
}

size_t output_marks_find(const struct buf *held, size_t from, const char *const *marks, size_t n,
                         size_t *which)
{
    for (size_t at = from; at < held->len; at++)
        for (*which = 0; *which < n; ++*which)
            if (starts_with(held, at, marks[*which]))
                return at;
    return SIZE_MAX;
}

size_t output_marks_undecided(const struct buf *held, const char *const *marks, size_t n)
{
    size_t most = 0;

    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(marks[i]);

        for (size_t k = len - 1 < held->len ? len - 1 : held->len; k > most; k--)
            if (memcmp(held->data + held->len - k, marks[i], k) == 0)
                most = k;
    }
    return most;
}

/* Of text[0..n) what is left without the white space at its end. */
static size_t without_blanks(const char *text, size_t n)
{
    while (n > 0 && is_blank(text[n - 1]))
        n--;
    return n;
}

static bool is_forced(const struct output_parser *s)
{
    return s->style.syntax == OUTPUT_FORCED || s->style.syntax == OUTPUT_FORCED_NAMED;
}

/* The whole text of a Llama is a call when it begins with a brace; and what the client insists on
 * is one, but for a thought before it. */
static bool begins_bare_call(struct output_parser *s)
{
    size_t i;

    if (is_forced(s))
        return s->part == OUTPUT_TEXT && !s->has_text && s->n_calls == 0 && s->held.len > 0 &&
               !may_open_thought(s);
    if (s->style.syntax != OUTPUT_LLAMA3 || !s->finds_calls || s->part != OUTPUT_TEXT ||
        s->has_text)
        return false;
    i = first_letter(s);
    return i < s->held.len && s->held.data[i] == '{';
}

/* "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json" */
static void enter_channel(struct output_parser *s, const char *header, size_t n)
{
    static const char to[] = "to=functions.";
    size_t k = 0;

    output_parser_enter(s, OUTPUT_TEXT);
    for (size_t i = 0; i + sizeof(to) - 1 <= n; i++)
        if (memcmp(header + i, to, sizeof(to) - 1) == 0 && s->finds_calls) {
            for (i += sizeof(to) - 1; i < n && k + 1 < sizeof(s->recipient); i++) {
                if (is_blank(header[i]) || header[i] == '<')
                    break;
                s->recipient[k++] = header[i];
            }
            s->recipient[k] = '\0';
            output_parser_enter(s, OUTPUT_CALL);
            output_reader_begin(s, false);
            return;
        }
    for (size_t i = 0; i + 8 <= n; i++)
        if (memcmp(header + i, "analysis", 8) == 0)
            output_parser_enter(s, OUTPUT_THOUGHT);
}

/* The part ends at held[at], where `mark` stands. */
static void pass_mark(struct output_parser *s, size_t at, const char *mark)
{
    const struct output_marks *m = output_marks(s->style.syntax);
    const bool trims = !is_harmony(s);

    if (s->part == OUTPUT_HEADER)
        enter_channel(s, s->held.data, at);
    else
        output_parser_put(s, s->held.data, trims ? without_blanks(s->held.data, at) : at);
    if (mark == m->think_open) {
        output_parser_enter(s, OUTPUT_THOUGHT);
    } else if (mark == m->think_close) {
        output_parser_enter(s, OUTPUT_TEXT);
        s->has_thought = true;
    } else if (mark == m->call_open) {
        output_parser_enter(s, OUTPUT_CALL);
        output_reader_begin(s, true);
    } else if (mark == m->part_close || mark == m->header_open) {
        output_parser_enter(s, OUTPUT_HEADER);
    }
    output_parser_consume(s, at + strlen(mark));
}

/* Up to the last mark; how much of what is held behind it may be the beginning of another, and how
 * many there are, goes to *keep and *n. False: a call is not over yet. */
static bool pass_marks(struct output_parser *s, size_t *keep, size_t *n)
{
    const char *marks[OUTPUT_MAX_MARKS];
    size_t which = 0, at;

    for (;;) {
        if (begins_bare_call(s)) {
            output_parser_enter(s, OUTPUT_CALL);
            output_reader_begin(s, false);
        }
        if (s->part == OUTPUT_CALL) {
            if (!output_reader_read(s))
                return false;
            continue;
        }
        *n = output_marks_here(s, marks);
        at = output_marks_find(&s->held, s->n_searched, marks, *n, &which);
        if (at == SIZE_MAX)
            break;
        pass_mark(s, at, marks[which]);
    }
    *keep = output_marks_undecided(&s->held, marks, *n);
    return true;
}

/* Move all text that cannot be the beginning of a mark to where it belongs. */
static void sort_held(struct output_parser *s)
{
    size_t n = 0, keep = 0;

    if (!pass_marks(s, &keep, &n))
        return;
    s->n_searched = s->held.len - keep;
    if (s->part == OUTPUT_HEADER)
        return;
    if (n > 0 && !is_harmony(s) && first_letter(s) >= s->held.len - keep)
        return; /* white space, and what may be a mark */
    if (n > 0 && !is_harmony(s))
        keep = s->held.len - without_blanks(s->held.data, s->held.len - keep);
    output_parser_put(s, s->held.data, s->held.len - keep);
    output_parser_consume(s, s->held.len - keep);
}

void output_parser_feed(struct output_parser *s, const char *text, size_t n)
{
    if (n == 0 || buf_add(&s->held, text, n) < 0)
        return;
    sort_held(s);
}

void output_parser_end(struct output_parser *s)
{
    if (s->part == OUTPUT_CALL)
        output_reader_end(s);
    else if (s->part != OUTPUT_HEADER && s->held.len > 0)
        output_parser_put(s, s->held.data, s->held.len);
    for (uint32_t i = s->n_sent; i < s->n_calls; i++)
        s->calls[i].is_over = true;
    s->err = output_parser_error(s);
    buf_clear(&s->held);
    s->n_searched = s->n_blank = 0;
}
