/* server/api/chat/output_parser.c - sorts the text of an answer into its parts.
 *
 * The parser is a state machine whose state is the `part` that the next bytes belong to. New text
 * is appended to `held`; pass_marks() searches it for the marks of that part and switches parts,
 * and all bytes that cannot begin a mark are moved on. Offsets of searched bytes are remembered, so
 * each byte is looked at a bounded number of times however small the tokens are. A choice of a
 * request (response/choice.c) feeds it each decoded text.
 */
#include "server/api/chat/output_parser_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/http/http_call.h"

#include <stdio.h>
#include <string.h>

bool output_parser_is_harmony(const struct output_parser *s)
{
    return s->style.family != NULL && s->style.family->has_channels;
}

void output_parser_init(struct output_parser *s, const struct output_style *style,
                        const struct call_tools *tools, bool finds_calls, bool thinks)
{
    *s = (struct output_parser){.style = *style, .tools = tools};
    s->finds_calls = finds_calls && style->family != NULL;
    s->part = thinks ? OUTPUT_THOUGHT : OUTPUT_TEXT;
    buf_init(&s->held, HTTP_MAX_REPLY / 4);
    buf_init(&s->thought, HTTP_MAX_REPLY / 4);
    buf_init(&s->text, HTTP_MAX_REPLY / 4);
}

void output_parser_init_forced(struct output_parser *s, const char *name,
                               const struct output_style *style, const struct call_tools *tools,
                               bool thinks)
{
    struct output_style forced = *style;

    forced.family = family_forced(name != NULL);
    output_parser_init(s, &forced, tools, true, thinks);
    s->has_forced = true;
    snprintf(s->recipient, sizeof(s->recipient), "%s", name != NULL ? name : "");
}

void output_parser_insist(struct output_parser *s, const char *name)
{
    s->insists = true;
    snprintf(s->recipient, sizeof(s->recipient), "%s", name != NULL ? name : "");
}

void output_parser_release(struct output_parser *s)
{
    output_calls_release(s);
    buf_release(&s->held);
    buf_release(&s->thought);
    buf_release(&s->text);
    mem_free(s->pieces);
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
    s->n_pieces = 0;
    for (uint32_t i = s->n_sent; i < s->n_calls; i++)
        if (!s->calls[i].is_over)
            (void)output_pieces_add(s, OUTPUT_CALL, i);
}

size_t output_parser_bytes(const struct output_parser *s)
{
    size_t bytes = s->held.cap + s->thought.cap + s->text.cap + s->max_pieces * sizeof(*s->pieces);

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

/* True: white space is dropped here. A part after a mark begins with its first letter. */
static bool skips_blanks(const struct output_parser *s)
{
    return !s->has_begun && !output_parser_is_harmony(s) &&
           (s->part == OUTPUT_THOUGHT || s->has_thought || s->n_calls > 0);
}

/* Appends to the text. A second text, after a call or a thought, is separated by an empty line for
 * clients that know one text only. */
static void add_output_text(struct output_parser *s, const char *text, size_t n)
{
    if (s->has_text && s->latest != OUTPUT_TEXT)
        buf_add_str(&s->text, "\n\n");
    s->has_text = true;
    output_pieces_put(s, OUTPUT_TEXT, text, n);
}

void output_parser_put(struct output_parser *s, const char *text, size_t n)
{
    if (skips_blanks(s))
        while (n > 0 && pattern_is_blank(*text)) {
            text++;
            n--;
        }
    if (n == 0)
        return;
    s->has_begun = true;
    if (s->part == OUTPUT_THOUGHT)
        output_pieces_put(s, OUTPUT_THOUGHT, text, n);
    else
        add_output_text(s, text, n);
}

void output_parser_enter(struct output_parser *s, enum output_part part)
{
    s->part = part;
    s->has_begun = false;
}

/* Returns the offset of the first byte that is not white space, or held.len. It is remembered, so
 * that a long run of blanks costs linear time. */
static size_t first_letter(struct output_parser *s)
{
    while (s->n_blank < s->held.len && pattern_is_blank(s->held.data[s->n_blank]))
        s->n_blank++;
    return s->n_blank;
}

void output_parser_consume(struct output_parser *s, size_t n)
{
    s->has_consumed = s->has_consumed || n > 0;
    buf_consume(&s->held, n);
    s->n_searched = 0;
    s->n_blank = s->n_blank > n ? s->n_blank - n : 0;
}

/* True: `held`, after white space, begins with the mark, or is a beginning of it. */
static bool begins_with(struct output_parser *s, const char *mark)
{
    const size_t len = strlen(mark), i = first_letter(s), left = s->held.len - i;

    return memcmp(s->held.data + i, mark, left < len ? left : len) == 0;
}

/* True: `held` may begin with that mark of a thought. Only the first text of an answer, or the
 * first after a call, can be a thought, or end one that the prompt has opened. */
static bool may_begin_with(struct output_parser *s, const char *mark)
{
    const bool is_first = !s->has_thought && !s->has_text;

    return mark != NULL && !s->has_begun && (is_first || s->n_calls > s->n_calls_thought) &&
           begins_with(s, mark);
}

/* Returns the mark of the family's `wrap` that may stand here: the first one where the text begins,
 * then the second one; NULL: none. */
static const char *wrap_mark(struct output_parser *s)
{
    const struct family *f = s->style.family;

    if (f == NULL || f->wrap[0] == NULL || s->part != OUTPUT_TEXT)
        return NULL;
    if (s->is_wrapped)
        return f->wrap[1];
    return !s->has_text && begins_with(s, f->wrap[0]) ? f->wrap[0] : NULL;
}

static size_t add_mark(const char **marks, size_t n, const char *mark)
{
    if (mark == NULL || n == OUTPUT_MAX_MARKS)
        return n;
    marks[n] = mark;
    return n + 1;
}

/* Adds the texts that a pattern may begin with. */
static size_t add_first(const char **marks, size_t n, const struct call_pattern *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->at[i].kind == PATTERN_TEXT && (p->at[i].n > 1 || !p->at[i].is_optional))
            n = add_mark(marks, n, p->at[i].text);
        if (p->at[i].kind != PATTERN_BLANKS &&
            !(p->at[i].kind == PATTERN_TEXT && p->at[i].is_optional))
            break;
    }
    return n;
}

/* Adds the texts that a call, or the section of calls, may begin with. */
static size_t add_call_marks(const struct output_parser *s, const char **marks, size_t n)
{
    const struct family *f = s->style.family;

    if (!s->finds_calls || s->has_forced)
        return n;
    if (f->section.n > 0)
        return add_first(marks, n, &f->section);
    for (uint32_t i = 0; i < f->n_calls; i++)
        n = add_first(marks, n, &f->calls[i]);
    return n;
}

static size_t harmony_marks(const struct output_parser *s, const char **marks)
{
    if (s->part == OUTPUT_HEADER)
        return add_mark(marks, 0, HARMONY_MESSAGE);
    return add_mark(marks, add_mark(marks, 0, HARMONY_END), HARMONY_CHANNEL);
}

size_t output_marks_here(struct output_parser *s, const char *marks[OUTPUT_MAX_MARKS])
{
    size_t n = 0;

    if (output_parser_is_harmony(s))
        return harmony_marks(s, marks);
    if (s->part == OUTPUT_CALL)
        return add_mark(marks, 0, output_reader_closing(s));
    if (s->part == OUTPUT_THOUGHT)
        n = add_mark(marks, n, s->style.think_close);
    else if (may_begin_with(s, s->style.think_open))
        n = add_mark(marks, n, s->style.think_open);
    else if (may_begin_with(s, s->style.think_close))
        n = add_mark(marks, n, s->style.think_close);
    n = add_call_marks(s, marks, n);
    for (uint32_t i = 0; s->style.family != NULL && i < s->style.family->n_hidden; i++)
        n = add_mark(marks, n, s->style.family->hidden[i]);
    return add_mark(marks, n, wrap_mark(s));
}

static bool starts_with(const struct buf *b, size_t at, const char *mark)
{
    const size_t n = strlen(mark);

    return at + n <= b->len && memcmp(b->data + at, mark, n) == 0;
}

/* Returns the next place from `at` on where a mark may begin: if all begin with the same byte, the
 * next such byte. */
static size_t next_place(const struct buf *held, size_t at, const char *const *marks, size_t n)
{
    const char *found;

    if (n == 0 || at >= held->len)
        return held->len;
    for (size_t i = 1; i < n; i++)
        if (marks[i][0] != marks[0][0])
            return at;
    found = memchr(held->data + at, marks[0][0], held->len - at);
    return found != NULL ? (size_t)(found - held->data) : held->len;
}

/* True: held[at] may become a longer mark than this one; `held` ends before that is decided. */
static bool may_be_longer(const struct buf *held, size_t at, const char *const *marks, size_t n,
                          size_t which)
{
    const size_t len = strlen(marks[which]), left = held->len - at;

    for (size_t i = 0; i < n; i++)
        if (strlen(marks[i]) > left && left >= len && memcmp(held->data + at, marks[i], left) == 0)
            return true;
    return false;
}

/* Returns the longest mark at held[at]; n: there is none. */
static size_t mark_at(const struct buf *held, size_t at, const char *const *marks, size_t n)
{
    size_t longest = n;

    for (size_t i = 0; i < n; i++)
        if (held->data[at] == marks[i][0] && starts_with(held, at, marks[i]) &&
            (longest == n || strlen(marks[i]) > strlen(marks[longest])))
            longest = i;
    return longest;
}

size_t output_marks_find(const struct buf *held, size_t from, const char *const *marks, size_t n,
                         size_t *which)
{
    for (size_t at = next_place(held, from, marks, n); at < held->len;
         at = next_place(held, at + 1, marks, n)) {
        *which = mark_at(held, at, marks, n);
        if (*which < n)
            return may_be_longer(held, at, marks, n, *which) ? SIZE_MAX : at;
    }
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

/* Returns the length of text[0..n) without the white space at its end. */
static size_t without_blanks(const char *text, size_t n)
{
    while (n > 0 && pattern_is_blank(text[n - 1]))
        n--;
    return n;
}

/* True: the answer begins with a call without a mark. Text that may be a mark is treated as one
 * first. */
static bool begins_bare_call(struct output_parser *s)
{
    const char *marks[OUTPUT_MAX_MARKS];
    const size_t n = output_marks_here(s, marks);
    size_t i;

    if (!s->finds_calls || !s->style.family->is_bare || s->part != OUTPUT_TEXT || s->has_text ||
        s->n_calls > 0)
        return false;
    i = first_letter(s);
    for (size_t k = 0; k < n && i < s->held.len; k++) {
        const size_t len = strlen(marks[k]), left = s->held.len - i;

        if (memcmp(s->held.data + i, marks[k], left < len ? left : len) == 0)
            return false;
    }
    return s->has_forced
               ? s->held.len > 0 && !(may_begin_with(s, s->style.think_open) && i == s->held.len)
               : i < s->held.len;
}

/* Finds the function that a header's message is for: "to=functions.NAME", with or without
 * "functions.", before the channel or after it; n 0: none. */
static const char *find_recipient(const char *header, size_t len, size_t *n)
{
    static const char to[] = "to=", prefix[] = "functions.";
    const char *at = memmem(header, len, to, sizeof(to) - 1), *end = header + len;

    *n = 0;
    if (at == NULL)
        return NULL;
    at += sizeof(to) - 1;
    if ((size_t)(end - at) >= sizeof(prefix) - 1 && memcmp(at, prefix, sizeof(prefix) - 1) == 0)
        at += sizeof(prefix) - 1;
    while (at + *n < end && !pattern_is_blank(at[*n]) && at[*n] != '<')
        ++*n;
    return at;
}

/* Enters the part that a header names, for example "<|start|>assistant<|channel|>commentary
 * to=functions.f <|constrain|>json", or " to=functions.f<|channel|>commentary json". */
static void enter_channel(struct output_parser *s, const char *header, size_t n)
{
    static const char analysis[] = "analysis";
    size_t n_name;
    const char *name = find_recipient(header, n, &n_name);

    output_parser_enter(s, OUTPUT_TEXT);
    if (n_name > 0 && n_name < sizeof(s->recipient) && s->finds_calls) {
        snprintf(s->recipient, sizeof(s->recipient), "%.*s", (int)n_name, name);
        output_reader_begin(s, 0);
    } else if (memmem(header, n, analysis, sizeof(analysis) - 1) != NULL) {
        output_parser_enter(s, OUTPUT_THOUGHT);
    }
}

static bool is_wrap(const struct output_parser *s, const char *mark)
{
    return mark == s->style.family->wrap[0] || mark == s->style.family->wrap[1];
}

static bool is_hidden(const struct output_parser *s, const char *mark)
{
    for (uint32_t i = 0; i < s->style.family->n_hidden; i++)
        if (s->style.family->hidden[i] == mark)
            return true;
    return is_wrap(s, mark);
}

/* True: `held` may begin a header. A prompt may end with "<|start|>assistant"; then the answer
 * begins inside a header, with " to=f". */
static bool may_begin_header(const struct output_parser *s)
{
    static const char to[] = "to=";
    const size_t n = s->held.len, blank = n > 0 && s->held.data[0] == ' ';
    const size_t left = n - blank, len = sizeof(to) - 1;

    return output_parser_is_harmony(s) && s->part == OUTPUT_TEXT && !s->has_consumed && n > 0 &&
           memcmp(s->held.data + blank, to, left < len ? left : len) == 0;
}

/* Drops the family's `begin` from the beginning of the answer. False: it is not decided yet. */
static bool pass_beginning(struct output_parser *s)
{
    const char *begin = s->style.family != NULL ? s->style.family->begin : NULL;
    size_t n;

    if (begin == NULL || s->part != OUTPUT_TEXT || s->has_consumed || s->held.len == 0)
        return true;
    n = strlen(begin);
    if (memcmp(s->held.data, begin, s->held.len < n ? s->held.len : n) != 0)
        return true;
    if (s->held.len < n)
        return false;
    output_parser_consume(s, n);
    return true;
}

static void pass_harmony_mark(struct output_parser *s, size_t at, const char *mark)
{
    if (s->part == OUTPUT_HEADER) {
        enter_channel(s, s->held.data, at);
    } else {
        output_parser_put(s, s->held.data, at);
        output_parser_enter(s, OUTPUT_HEADER);
    }
    output_parser_consume(s, at + strlen(mark));
}

/* Ends the part at held[at], where `mark` stands. A call keeps its mark and the white space before
 * it in `held`, because they may turn out to be text. */
static void pass_mark(struct output_parser *s, size_t at, const char *mark)
{
    const size_t n = without_blanks(s->held.data, at);
    const bool is_close = mark == s->style.think_close;
    const bool is_open = s->part == OUTPUT_TEXT && mark == s->style.think_open;

    output_parser_put(s, s->held.data, n);
    if (is_close || is_open) {
        s->has_thought = s->has_thought || is_close;
        s->n_calls_thought = s->n_calls;
        output_parser_enter(s, is_close ? OUTPUT_TEXT : OUTPUT_THOUGHT);
        output_parser_consume(s, at + strlen(mark));
    } else if (is_hidden(s, mark)) {
        output_parser_put(s, s->held.data + n, at - n);
        output_parser_consume(s, at + strlen(mark));
        if (is_wrap(s, mark))
            s->is_wrapped = mark == s->style.family->wrap[0];
    } else {
        output_parser_consume(s, n);
        output_reader_begin(s, strlen(mark));
    }
}

/* True: the mark at held[at] counts. A thought may talk of calls, so inside it the mark of a call
 * counts only at the beginning of a line. */
static bool counts_in_thought(const struct output_parser *s, size_t at, const char *mark)
{
    const size_t n = without_blanks(s->held.data, at);

    if (s->part != OUTPUT_THOUGHT || output_parser_is_harmony(s) || mark == s->style.think_close ||
        is_hidden(s, mark))
        return true;
    return (n == 0 && !s->has_begun) || memchr(s->held.data + n, '\n', at - n) != NULL;
}

/* Handles all marks. *keep is how many bytes at the end of `held` may begin another one, *n how
 * many marks may stand there. False: a call is not over yet. */
static bool pass_marks(struct output_parser *s, size_t *keep, size_t *n)
{
    const char *marks[OUTPUT_MAX_MARKS];
    size_t which = 0, at;

    if (!pass_beginning(s))
        return false;
    for (;;) {
        if (begins_bare_call(s))
            output_reader_begin(s, 0);
        if (may_begin_header(s)) {
            if (s->held.len < sizeof(" to=") - 1)
                return false;
            output_parser_enter(s, OUTPUT_HEADER);
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
        if (!counts_in_thought(s, at, marks[which])) {
            s->n_searched = at + 1;
            continue;
        }
        if (output_parser_is_harmony(s))
            pass_harmony_mark(s, at, marks[which]);
        else
            pass_mark(s, at, marks[which]);
    }
    *keep = output_marks_undecided(&s->held, marks, *n);
    return true;
}

/* Moves all text that cannot be the beginning of a mark to its part. */
static void sort_held(struct output_parser *s)
{
    size_t n = 0, keep = 0;

    if (!pass_marks(s, &keep, &n))
        return;
    s->n_searched = s->held.len - keep;
    if (s->part == OUTPUT_HEADER)
        return;
    if (n > 0 && !output_parser_is_harmony(s) && first_letter(s) >= s->held.len - keep)
        return; /* only white space, and perhaps a mark */
    if (n > 0 && !output_parser_is_harmony(s))
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

/* Adds the call that had to come if the answer was cut inside its mark. */
static void end_cut_mark(struct output_parser *s)
{
    if (s->n_calls == 0 && s->recipient[0] != '\0')
        (void)output_calls_begin(s, s->recipient, strlen(s->recipient));
}

void output_parser_end(struct output_parser *s)
{
    if (s->part == OUTPUT_CALL)
        output_reader_end(s);
    else if (s->insists && (s->part == OUTPUT_TEXT || s->part == OUTPUT_HEADER) && !s->has_text)
        end_cut_mark(s);
    else if (s->part != OUTPUT_HEADER && s->held.len > 0)
        output_parser_put(s, s->held.data, s->held.len);
    for (uint32_t i = s->n_sent; i < s->n_calls; i++)
        s->calls[i].is_over = true;
    s->err = output_parser_error(s);
    buf_clear(&s->held);
    s->n_searched = s->n_blank = 0;
}
