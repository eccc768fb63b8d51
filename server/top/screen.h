/* server/top/screen.h - a frame of text for a terminal or a file, line by line, never wider than
 * it.
 *
 * Everything that is shown goes through top_screen_text(), which cuts at the width and puts a '?'
 * in place of what is no visible character: control characters, escape sequences, marks that change
 * the direction of text, what is drawn upon the character before it, bytes that are no UTF-8, and,
 * on a terminal without UTF-8, all that is not ASCII. So nothing that a server says can move the
 * cursor or set a colour.
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
    TOP_TITLE, /* heads of tables */
    TOP_GOOD,  /* the last three are colours */
    TOP_BUSY,
    TOP_BAD,
};

enum top_align { TOP_LEFT = 0, TOP_RIGHT };

struct top_screen {
    struct buf frame;
    uint32_t width, height; /* height: UINT32_MAX for a file */
    uint32_t row, column;   /* of what comes next */
    bool has_styles;        /* a terminal: escape sequences */
    bool has_colours;
    bool has_utf8;
};

void top_screen_init(struct top_screen *s);
void top_screen_release(struct top_screen *s);

/* An empty frame; the cursor is at the top. */
void top_screen_begin(struct top_screen *s);
/* Clears what is below. */
void top_screen_end(struct top_screen *s);

void top_screen_text(struct top_screen *s, enum top_style style, const char *text);
void top_screen_printf(struct top_screen *s, enum top_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Blanks up to a column. */
void top_screen_fill(struct top_screen *s, uint32_t column);
/* A text in a field of `width` columns: cut or filled up, with a blank behind it. */
void top_screen_cell(struct top_screen *s, enum top_style style, enum top_align align,
                     uint32_t width, const char *text);
void top_screen_end_line(struct top_screen *s);
/* Lines that still fit. */
uint32_t top_screen_n_left(const struct top_screen *s);

/* [###===...]: what the parts (of `total`) have of `width` columns, brackets included; what is left
 * over is free. */
void top_screen_bar(struct top_screen *s, uint32_t width, const double *parts, uint32_t n,
                    double total);
/* One column a value, as high as its part of `most`. */
void top_screen_heights(struct top_screen *s, const double *values, uint32_t n, double most);

/* The columns that a text takes when nothing is cut. */
uint32_t top_screen_width_of(const struct top_screen *s, const char *text);

#endif
