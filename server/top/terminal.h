/* server/top/terminal.h - the terminal while `quire top` runs: keys as they are typed, the second
 * screen, signals as events.
 *
 * Opened, it has blocked SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT and SIGWINCH, which
 * come as events: whatever ends the program, the terminal is as it was. There is one in a process.
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
    TOP_NOTHING = 0, /* no more for now */
    TOP_END,         /* a signal, or the terminal is gone */
    TOP_REDRAW,      /* another size, or the program goes on after a stop */
    TOP_UP,
    TOP_DOWN,
    TOP_PAGE_UP,
    TOP_PAGE_DOWN,
    TOP_KEY = 256, /* and the character */
};

struct top_terminal {
    bool is_open, is_shown;
    int signals; /* descriptor */
    struct termios before;
    struct pollfd fds[2]; /* keys, signals: to wait for */
    char typed[32];       /* [n_typed] that were read */
    size_t n_typed;
};

int top_terminal_open(struct top_terminal *t, char *err, size_t err_len);
void top_terminal_close(struct top_terminal *t);

/* Columns and lines; 80 and 24 where the terminal does not say. */
void top_terminal_size(uint32_t *width, uint32_t *height);

/* What came, one thing a call: TOP_KEY + 'q', ... */
int top_terminal_next(struct top_terminal *t);

/* All of it; false: the terminal is gone. */
bool top_terminal_write(const char *bytes, size_t n);

#endif
