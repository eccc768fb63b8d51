/* server/top/terminal.h - the terminal while `quire top` runs: unbuffered keys, the alternate
 * screen, signals as events.
 *
 * While it is open, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT and SIGWINCH are blocked and
 * returned as events, so that the terminal is restored whichever of them ends the program. There is
 * one in a process.
 *
 * Thread: the main thread, before there are others.
 * Memory: the caller's struct.
 * Errors: a sentence.
 */
#ifndef SERVER_TOP_TERMINAL_H
#define SERVER_TOP_TERMINAL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

enum top_event {
    TOP_NOTHING = 0, /* no more events at the moment */
    TOP_END,         /* a signal, or the terminal is gone */
    TOP_REDRAW,      /* the size changed, or the program goes on after a stop */
    TOP_UP,
    TOP_DOWN,
    TOP_PAGE_UP,
    TOP_PAGE_DOWN,
    TOP_KEY = 256, /* plus the character */
};

struct top_terminal {
    bool is_open, is_shown;
    int signals; /* a signalfd */
    struct termios before;
    struct pollfd fds[2]; /* keys, signals: to wait for */
    char typed[32];       /* [n_typed] bytes not handled yet */
    size_t n_typed;
};

int top_terminal_open(struct top_terminal *t, char *err, size_t err_len);
void top_terminal_close(struct top_terminal *t);

/* Columns and lines; 80 and 24 when the terminal does not report them. */
void top_terminal_size(uint32_t *width, uint32_t *height);

/* The next event: TOP_KEY + 'q', ...; one for each call. */
int top_terminal_next(struct top_terminal *t);

/* Write all bytes; false: the terminal is gone. */
bool top_terminal_write(const char *bytes, size_t n);

#endif
