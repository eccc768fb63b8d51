/* server/top/screen.h - A frame of text for a terminal or a file, written line by line and cut at
 * its width.
 *
 * All text goes through top_screen_text(), which cuts it at the width and shows a '?' for each
 * character that is not visible: control characters, escape sequences, marks that change the
 * direction of text, combining characters, bytes that are no UTF-8, and, on a terminal without
 * UTF-8, all that is not ASCII. So no text of a server can move the cursor or set a colour.
 *
 * Thread: one owner.
 * Memory: the frame grows up to TOP_MAX_FRAME bytes; what is beyond is left away.
 */
#ifndef SERVER_TOP_SCREEN_H
#define SERVER_TOP_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"

#define TOP_MAX_FRAME ((size_t)4 << 20)

enum top_style {
    TOP_PLAIN = 0,
    TOP_BOLD,
    TOP_DIM,
    TOP_TITLE, /* headings of tables */
    TOP_GOOD,  /* this and the next two are colours */
    TOP_BUSY,
    TOP_BAD,
};

enum top_align { TOP_LEFT = 0, TOP_RIGHT };

struct top_screen {
    struct buf frame;
    uint32_t width, height; /* height: UINT32_MAX for a file */
    uint32_t row, column;   /* where the next text goes */
    bool has_styles;        /* for a terminal: escape sequences are used */
    bool has_colours;
    bool has_utf8;
};

void top_screen_init(struct top_screen *s);
void top_screen_release(struct top_screen *s);

/* Begin an empty frame; the cursor is at the top. */
void top_screen_begin(struct top_screen *s);
/* Clear everything below. */
void top_screen_end(struct top_screen *s);

void top_screen_text(struct top_screen *s, enum top_style style, const char *text);
void top_screen_printf(struct top_screen *s, enum top_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Add blanks up to a column. */
void top_screen_fill(struct top_screen *s, uint32_t column);
/* Add a text in a field of `width` columns: cut or padded, followed by a blank. */
void top_screen_cell(struct top_screen *s, enum top_style style, enum top_align align,
                     uint32_t width, const char *text);
void top_screen_end_line(struct top_screen *s);
/* How many lines still fit. */
uint32_t top_screen_n_left(const struct top_screen *s);

/* Draw a bar [###===...] of `width` columns, brackets included, with each part's share of `total`;
 * the rest is free. */
void top_screen_bar(struct top_screen *s, uint32_t width, const double *parts, uint32_t n,
                    double total);
/* Draw one column for each value, its height being the share of `most`. */
void top_screen_heights(struct top_screen *s, const double *values, uint32_t n, double most);

/* The columns that a text takes when it is not cut. */
uint32_t top_screen_width_of(const struct top_screen *s, const char *text);

#endif
