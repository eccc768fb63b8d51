/* server/top/screen.c - see screen.h.
 *
 * A frame is built in one buffer and written to the terminal at once, so it does not flicker. Text
 * is taken apart into characters, and each is checked: its width in columns comes from
 * libunistring, and a character that is not visible becomes '?'. The column is counted on the way,
 * which is how cells are padded and lines are cut.
 */
#include "server/top/screen.h"

#include "core/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unictype.h>
#include <uniwidth.h>

void top_screen_init(struct top_screen *s)
{
    *s = (struct top_screen){0};
    buf_init(&s->frame, TOP_MAX_FRAME);
}

void top_screen_release(struct top_screen *s)
{
    buf_release(&s->frame);
}

static void add_escape(struct top_screen *s, const char *sequence)
{
    if (s->has_styles)
        buf_add_str(&s->frame, sequence);
}

void top_screen_begin(struct top_screen *s)
{
    buf_clear(&s->frame);
    s->row = s->column = 0;
    add_escape(s, "\033[H");
}

void top_screen_end(struct top_screen *s)
{
    add_escape(s, "\033[J");
}

/* ---- characters ---- */

/* One character of a text: its bytes and columns; 0 columns: '?' is shown for it. */
struct character {
    size_t n;
    uint32_t columns;
};

static bool is_visible(ucs4_t c)
{
    return !uc_is_general_category_withtable(c, UC_CATEGORY_MASK_C | UC_CATEGORY_MASK_M |
                                                    UC_CATEGORY_MASK_Zl | UC_CATEGORY_MASK_Zp);
}

static struct character next_character(const struct top_screen *s, const char *text, size_t n)
{
    const uint8_t *bytes = (const uint8_t *)text;
    const size_t len = utf8_len(bytes, n);
    struct character c = {len > 0 ? len : 1, 0};
    ucs4_t code;
    int width;

    if (len == 0)
        return c;
    if (len == 1) {
        c.columns = bytes[0] >= ' ' && bytes[0] < 0x7F;
        return c;
    }
    if (!s->has_utf8)
        return c;
    u8_mbtoucr(&code, bytes, n);
    width = uc_width(code, "UTF-8");
    c.columns = width > 0 && is_visible(code) ? (uint32_t)width : 0;
    return c;
}

uint32_t top_screen_width_of(const struct top_screen *s, const char *text)
{
    uint32_t width = 0;

    for (size_t n = strlen(text); n > 0;) {
        const struct character c = next_character(s, text, n);

        width += c.columns > 0 ? c.columns : 1;
        text += c.n;
        n -= c.n;
    }
    return width;
}

/* Add text up to column `end`; the rest is left out. */
static void add_until(struct top_screen *s, const char *text, uint32_t end)
{
    for (size_t n = strlen(text); n > 0;) {
        const struct character c = next_character(s, text, n);
        const uint32_t columns = c.columns > 0 ? c.columns : 1;

        if (s->column + columns > end)
            return;
        if (c.columns > 0)
            buf_add(&s->frame, text, c.n);
        else
            buf_add_char(&s->frame, '?');
        s->column += columns;
        text += c.n;
        n -= c.n;
    }
}

static const char *style_sequence(const struct top_screen *s, enum top_style style)
{
    switch (style) {
    case TOP_PLAIN:
        break;
    case TOP_BOLD:
        return "\033[1m";
    case TOP_DIM:
        return "\033[2m";
    case TOP_TITLE:
        return "\033[7m";
    case TOP_GOOD:
        return s->has_colours ? "\033[32m" : "";
    case TOP_BUSY:
        return s->has_colours ? "\033[33m" : "";
    case TOP_BAD:
        return s->has_colours ? "\033[1;31m" : "\033[1m";
    }
    return "";
}

static uint32_t line_end(const struct top_screen *s, uint32_t width)
{
    return s->column + width < s->width ? s->column + width : s->width;
}

static void add_styled(struct top_screen *s, enum top_style style, const char *text, uint32_t end)
{
    const char *sequence = style_sequence(s, style);

    if (s->row >= s->height)
        return;
    add_escape(s, sequence);
    add_until(s, text, end);
    add_escape(s, sequence[0] != '\0' ? "\033[0m" : "");
}

void top_screen_text(struct top_screen *s, enum top_style style, const char *text)
{
    add_styled(s, style, text, s->width);
}

void top_screen_printf(struct top_screen *s, enum top_style style, const char *format, ...)
{
    char text[1600];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    top_screen_text(s, style, text);
}

/* ---- fields and lines ---- */

void top_screen_fill(struct top_screen *s, uint32_t column)
{
    for (; s->column < column && s->column < s->width && s->row < s->height; s->column++)
        buf_add_char(&s->frame, ' ');
}

void top_screen_cell(struct top_screen *s, enum top_style style, enum top_align align,
                     uint32_t width, const char *text)
{
    const uint32_t end = line_end(s, width), has = top_screen_width_of(s, text);

    if (align == TOP_RIGHT && has < width)
        top_screen_fill(s, line_end(s, width - has));
    add_styled(s, style, text, end);
    top_screen_fill(s, end + 1);
}

/* In a file, blanks at the end of a line are removed. */
void top_screen_end_line(struct top_screen *s)
{
    struct buf *b = &s->frame;

    if (s->row >= s->height)
        return;
    if (!s->has_styles)
        while (b->len > 0 && b->data[b->len - 1] == ' ')
            b->data[--b->len] = '\0';
    /* When the last column is used, the cursor stays on it and \033[K would erase its character. */
    add_escape(s, s->column < s->width ? "\033[K" : "");
    s->row++;
    s->column = 0;
    if (s->row < s->height)
        buf_add_str(b, s->has_styles ? "\r\n" : "\n");
}

uint32_t top_screen_n_left(const struct top_screen *s)
{
    return s->height - s->row;
}

/* ---- drawings ---- */

static const char *bar_piece(const struct top_screen *s, uint32_t part)
{
    static const char *const utf8[] = {"█", "▒"}, *const ascii[] = {"#", "="};

    return (s->has_utf8 ? utf8 : ascii)[part % 2];
}

void top_screen_bar(struct top_screen *s, uint32_t width, const double *parts, uint32_t n,
                    double total)
{
    const uint32_t inner = width > 2 ? width - 2 : 0, begin = s->column + 1;
    double sum = 0;

    top_screen_text(s, TOP_PLAIN, "[");
    for (uint32_t i = 0; i < n && total > 0; i++) {
        uint32_t end;

        sum += parts[i];
        end = begin + (uint32_t)((sum < total ? sum / total : 1) * inner + 0.5);
        while (s->column < end && s->column < s->width && s->row < s->height)
            top_screen_text(s, i == 0 ? TOP_GOOD : TOP_BUSY, bar_piece(s, i));
    }
    while (s->column < begin + inner && s->column < s->width && s->row < s->height)
        top_screen_text(s, TOP_DIM, s->has_utf8 ? "·" : ".");
    top_screen_text(s, TOP_PLAIN, "]");
}

void top_screen_heights(struct top_screen *s, const double *values, uint32_t n, double most)
{
    static const char *const utf8[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {".", ":", "-", "=", "+", "*", "%", "#"};

    for (uint32_t i = 0; i < n; i++) {
        const double part = most > 0 ? values[i] / most : 0;
        const uint32_t level = part <= 0 ? 0 : part >= 1 ? 7 : (uint32_t)(part * 8);

        top_screen_text(s, TOP_PLAIN, (s->has_utf8 ? utf8 : ascii)[level]);
    }
}
