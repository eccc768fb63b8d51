/* server/top/screen.h - a frame of text, written from the top and cut at its width: on standard
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

/* The last three are colours; TOP_TITLE: headings of tables. */
enum top_style { TOP_PLAIN, TOP_BOLD, TOP_DIM, TOP_TITLE, TOP_GOOD, TOP_BUSY, TOP_BAD };

struct top_screen {
    uint32_t width, height; /* height: UINT32_MAX for a file */
    uint32_t row, column;   /* where the next text goes */
    uint32_t written;       /* the column of the file: blanks follow with the next text only */
    FILE *out;              /* standard output */
    bool has_utf8;
    struct screen *terminal; /* ncurses's; NULL: a file */
    int signals;             /* descriptor of the terminal's signals */
};

/* Use standard output, with the width of COLUMNS. */
void top_screen_init(struct top_screen *s);
/* Open the terminal. ERR_INVAL: there is none, or TERM is not known; ERR_UNSUPPORTED: built without
 * ncurses. */
int top_screen_open(struct top_screen *s, char *err, size_t err_len);
void top_screen_close(struct top_screen *s);

/* Begin an empty frame; show it (false: standard output cannot be written). */
void top_screen_begin(struct top_screen *s);
bool top_screen_end(struct top_screen *s);
/* Add a text in a field of `width` columns, in which it is cut or padded: < 0: at the left, > 0: at
 * the right (ASCII), 0: the text is as long as it is. */
void top_screen_add(struct top_screen *s, enum top_style style, int width, const char *form, ...)
    __attribute__((format(printf, 4, 5)));
void top_screen_next_line(struct top_screen *s);

/* Return the next key with its number in curses.h; KEY_EXIT: a signal, or the terminal is closed;
 * KEY_RESIZE: draw again; ERR: there is no key now. */
int top_screen_event(struct top_screen *s);

#endif
