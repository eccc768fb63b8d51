/* server/top/screen.h - a frame of text, written line by line and cut at its width: on standard
 * output, or on the terminal, with ncurses.
 *
 * Each character is checked: a '?' is shown for control characters, marks that change the direction
 * of text, combining characters, bytes that are not UTF-8, and, without a UTF-8 locale, for all
 * non-ASCII characters. So no text of a server can move the cursor or set a colour.
 *
 * While the terminal is open, the signals that end or stop a program are blocked and returned as
 * events, so that the terminal is always restored.
 *
 * Thread: the main thread, before there are others. There is one terminal in a process.
 * Errors: a sentence.
 */
#ifndef SERVER_TOP_SCREEN_H
#define SERVER_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum top_style {
    TOP_PLAIN = 0,
    TOP_BOLD,
    TOP_DIM,
    TOP_TITLE, /* headings of tables */
    TOP_GOOD,  /* this and the next two are colours */
    TOP_BUSY,
    TOP_BAD,
};

struct top_screen {
    uint32_t width, height; /* height: UINT32_MAX for a file */
    uint32_t row, column;   /* where the next text goes */
    FILE *out;              /* standard output */
    uint32_t written;       /* the column of the file: blanks follow with the next text only */
    bool is_terminal, has_utf8, has_colours;
    int fds[2];              /* descriptors of the terminal to wait for: keys, signals */
    struct screen *terminal; /* ncurses's */
};

/* Begin an empty frame; show it (false: standard output cannot be written). */
void top_screen_begin(struct top_screen *s);
bool top_screen_end(struct top_screen *s);

void top_screen_text(struct top_screen *s, enum top_style style, const char *text);
void top_screen_printf(struct top_screen *s, enum top_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A text in a field, cut or padded, followed by a blank. width as for printf's %*s: negative: the
 * text is at the left; a text at the right must be ASCII. */
void top_screen_cell(struct top_screen *s, enum top_style style, int width, const char *text);
void top_screen_end_line(struct top_screen *s);

/* Draw a bar [###===...] of `width` columns: held and cached of the total; the rest is free. */
void top_screen_bar(struct top_screen *s, uint32_t width, double held, double cached, double total);
/* Draw a column for each value, as high as its share of `most`. */
void top_screen_heights(struct top_screen *s, const double *values, uint32_t n, double most);

/* Use standard output, with the width of COLUMNS. */
void top_screen_init(struct top_screen *s);
/* Open the terminal. ERR_INVAL: there is none, or TERM is not known. */
int top_screen_open(struct top_screen *s, char *err, size_t err_len);
void top_screen_close(struct top_screen *s);

/* Return the next key with its number in curses.h; KEY_EXIT: a signal, or the terminal is closed;
 * KEY_RESIZE: draw again; ERR: there is no key now. */
int top_screen_event(struct top_screen *s);

#endif
