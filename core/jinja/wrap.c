/* core/jinja/wrap.c - breaks a line of text into shorter ones, as Python's textwrap.
 *
 * The line is decoded once into arrays of characters and offsets. It is read as pieces (runs of
 * blanks, words, parts of words after hyphens), which textwrap finds by a regular expression and
 * this file by hand, and pieces are put on a line as long as they fit. Dropped blanks and long
 * words follow textwrap's rules.
 */
#include "core/jinja/filters.h"

#include "core/base/unicode.h"

#include <string.h>

struct line { /* a text by characters */
    const char *s;
    uint32_t *at; /* offset of character i; at[n]: the end */
    uint32_t *cp;
    int64_t n;
};

struct piece {
    int64_t from, to;
};

static bool is_blank_at(const struct line *l, int64_t i)
{
    return l->cp[i] == ' ' || (l->cp[i] >= 9 && l->cp[i] <= 13);
}

static bool is_word_at(const struct line *l, int64_t i)
{
    return i >= 0 && i < l->n && (l->cp[i] == '_' || unicode_is_alnum(l->cp[i]));
}

static bool is_letter(const struct line *l, int64_t i)
{
    return is_word_at(l, i) && !unicode_is_decimal(l->cp[i]);
}

static bool is_word_mark(const struct line *l, int64_t i)
{
    return is_word_at(l, i) ||
           (i >= 0 && l->cp[i] < 0x80 && l->cp[i] > 0 && strchr("!\"'&.,?", (int)l->cp[i]) != NULL);
}

static bool is_dash(const struct line *l, int64_t i)
{
    return i >= 0 && i < l->n && l->cp[i] == '-';
}

/* Return the position after two or more dashes that begin at i, before a word; else i. */
static int64_t dashes_end(const struct line *l, int64_t i)
{
    int64_t j = i;

    while (is_dash(l, j))
        j++;
    return j - i >= 2 && is_word_at(l, j) ? j : i;
}

/* True: a hyphenated word may be broken after the dash at i. */
static bool breaks_behind(const struct line *l, int64_t i)
{
    const bool before = is_letter(l, i - 1) && (is_letter(l, i - 2) ||
                                                (is_dash(l, i - 2) && is_letter(l, i - 3)));
    const int64_t next = i + 2 + is_dash(l, i + 2);

    return is_dash(l, i) && before && is_letter(l, i + 1) && is_letter(l, next);
}

/* Return the end of the piece that begins at i: blanks, dashes, or (part of) a word. */
static int64_t piece_end(const struct line *l, int64_t i, bool hyphens)
{
    int64_t j = i;

    while (j < l->n && is_blank_at(l, j))
        j++;
    if (j > i)
        return j;
    if (hyphens && is_word_mark(l, i - 1) && dashes_end(l, i) > i)
        return dashes_end(l, i);
    for (j = i + 1; j < l->n && !is_blank_at(l, j); j++) {
        if (hyphens && breaks_behind(l, j))
            return j + 1;
        if (hyphens && is_word_mark(l, j - 1) && dashes_end(l, j) > j)
            return j;
    }
    return j;
}

static bool all_blank(const struct line *l, struct piece p)
{
    for (int64_t i = p.from; i < p.to; i++)
        if (!unicode_is_space(l->cp[i]))
            return false;
    return true;
}

/* Return where to cut a word that is too long for the remaining `room`: after a dash, if there is
 * one after something else. */
static int64_t cut_at(const struct line *l, struct piece p, int64_t room, bool hyphens)
{
    for (int64_t i = p.from + room - 1; hyphens && i > p.from; i--) {
        if (!is_dash(l, i))
            continue;
        for (int64_t k = p.from; k < i; k++)
            if (!is_dash(l, k))
                return i + 1;
        break;
    }
    return p.from + room;
}

static bool read_wrap_line(struct render *r, struct line *l, struct value v)
{
    size_t len;

    *l = (struct line){.s = v.s, .n = template_length(r, v)};
    l->at = value_pool_alloc(r->pool, (size_t)(2 * l->n + 1) * sizeof(*l->at));
    if (!template_step(r, (uint64_t)l->n))
        return false;
    l->cp = l->at + l->n + 1;
    for (size_t i = 0, k = 0; i < v.n; i += len, k++) {
        l->at[k] = (uint32_t)i;
        l->cp[k] = unicode_at(v.s + i, v.n - i, &len);
    }
    l->at[l->n] = v.n;
    return true;
}

struct wrap {
    int64_t width;
    bool break_long, hyphens;
    int64_t next; /* the first character that is on no line yet */
    struct piece piece; /* the next piece; empty: none is read yet */
};

static void next_piece(const struct line *l, struct wrap *w)
{
    if (w->piece.from == w->piece.to)
        w->piece = (struct piece){w->next, w->next < l->n ? piece_end(l, w->next, w->hyphens)
                                                          : w->next};
}

static void use_to(struct wrap *w, int64_t to)
{
    w->piece.from = to;
    w->next = to;
}

/* Fill one line with pieces: from `from` to *to. */
static int64_t fill_line(const struct line *l, struct wrap *w, bool first, int64_t *to)
{
    struct piece last = {0, 0};
    int64_t from;

    next_piece(l, w);
    if (!first && all_blank(l, w->piece))
        use_to(w, w->piece.to);
    from = w->next;
    for (next_piece(l, w); w->next < l->n && w->piece.to - from <= w->width; next_piece(l, w)) {
        last = w->piece;
        use_to(w, w->piece.to);
    }
    if (w->next < l->n && w->piece.to - w->piece.from > w->width) {
        if (w->break_long) {
            last = w->piece;
            last.to = cut_at(l, w->piece, w->width - (w->next - from), w->hyphens);
            use_to(w, last.to);
        } else if (w->next == from) {
            last = w->piece;
            use_to(w, w->piece.to);
        }
    }
    *to = last.to > last.from && all_blank(l, last) ? last.from : w->next;
    return from;
}

void filter_wrap_line(struct render *r, struct value line, int64_t width, bool break_long,
                      bool hyphens, struct value newline, struct buf *out)
{
    struct wrap w = {.width = width, .break_long = break_long, .hyphens = hyphens};
    bool first = true;
    struct line l;

    if (width <= 0) {
        template_fail(r, "invalid width %lld (must be > 0)", (long long)width);
        return;
    }
    if (!read_wrap_line(r, &l, line))
        return;
    while (w.next < l.n && template_step(r, 1)) {
        int64_t to, from = fill_line(&l, &w, first, &to);

        if (to <= from)
            continue;
        if (!first)
            buf_add(out, newline.s, newline.n);
        first = false;
        buf_add(out, l.s + l.at[from], l.at[to] - l.at[from]);
    }
}
