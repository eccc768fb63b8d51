/* server/top/terminal.c - see terminal.h.
 *
 * The terminal is switched to unbuffered keys without echo and to its alternate screen, and back on
 * close. Signals are blocked and read from a signalfd, so none can end the program before the
 * terminal is restored. Typed bytes are collected in a small buffer, where the escape sequences of
 * arrow and page keys are recognised even if they arrive in pieces.
 */
#include "server/top/terminal.h"

#include "core/base/err.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Switch to the alternate screen without a cursor, and back. */
#define SHOW "\033[?1049h\033[?25l"
#define HIDE "\033[0m\033[?25h\033[?1049l"

bool top_terminal_write(const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(STDOUT_FILENO, bytes, n);

        if (done < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        if (done < 0 && errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT}, 1, 1000);
        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        }
    }
    return true;
}

static void show(struct top_terminal *t)
{
    struct termios raw = t->before;

    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_oflag &= ~(tcflag_t)OPOST;
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    (void)top_terminal_write(SHOW, strlen(SHOW));
    t->is_shown = true;
}

static void hide(struct top_terminal *t)
{
    if (!t->is_shown)
        return;
    (void)top_terminal_write(HIDE, strlen(HIDE));
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
    t->is_shown = false;
}

static int take_signals(void)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        sigaddset(&set, taken[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int top_terminal_open(struct top_terminal *t, char *err, size_t err_len)
{
    *t = (struct top_terminal){.signals = -1};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
        tcgetattr(STDIN_FILENO, &t->before) < 0) {
        snprintf(err, err_len, "this is no terminal: quire top --once prints the numbers once");
        return ERR_INVAL;
    }
    t->signals = take_signals();
    if (t->signals < 0) {
        snprintf(err, err_len, "signals cannot be taken: %s", strerror(errno));
        return ERR_INTERNAL;
    }
    t->fds[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    t->fds[1] = (struct pollfd){.fd = t->signals, .events = POLLIN};
    t->is_open = true;
    show(t);
    return 0;
}

void top_terminal_close(struct top_terminal *t)
{
    if (!t->is_open)
        return;
    hide(t);
    close(t->signals);
    t->is_open = false;
}

void top_terminal_size(uint32_t *width, uint32_t *height)
{
    struct winsize size = {0};

    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *width = size.ws_col > 0 ? size.ws_col : 80;
    *height = size.ws_row > 0 ? size.ws_row : 24;
}

/* ---- events ---- */

/* Ctrl-Z: give the shell its terminal back and stop; after SIGCONT the program goes on here. */
static int stop(struct top_terminal *t)
{
    hide(t);
    raise(SIGSTOP);
    show(t);
    return TOP_REDRAW;
}

static int next_signal(struct top_terminal *t)
{
    struct signalfd_siginfo info;

    if (read(t->signals, &info, sizeof(info)) != sizeof(info))
        return TOP_NOTHING;
    switch (info.ssi_signo) {
    case SIGTSTP:
        return stop(t);
    case SIGWINCH:
    case SIGCONT:
        return TOP_REDRAW;
    default:
        return TOP_END;
    }
}

/* The length of the escape sequence at the beginning: ESC [ parameters final, ESC O final, or ESC
 * alone before anything else. 0: it is not complete yet. */
static size_t sequence_len(const char *typed, size_t n)
{
    size_t at = 2;

    if (n < 2)
        return 0;
    if (typed[1] == 'O')
        return n > 2 ? 3 : 0;
    if (typed[1] != '[')
        return 1;
    while (at < n && typed[at] >= ' ' && typed[at] < '@')
        at++;
    return at < n ? at + 1 : 0;
}

/* Sequences of other keys are ignored. */
static int sequence_event(const char *typed, size_t len)
{
    static const struct {
        const char *bytes;
        int event;
    } known[] = {
        {"[A", TOP_UP},   {"OA", TOP_UP},       {"[B", TOP_DOWN},
        {"OB", TOP_DOWN}, {"[5~", TOP_PAGE_UP}, {"[6~", TOP_PAGE_DOWN},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i].bytes) == len - 1 && memcmp(typed + 1, known[i].bytes, len - 1) == 0)
            return known[i].event;
    return TOP_REDRAW;
}

/* Append what was typed. A read of 0 bytes means that the terminal hung up. */
static void read_keys(struct top_terminal *t, bool *is_gone)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    ssize_t n;

    if (t->n_typed == sizeof(t->typed) || poll(&p, 1, 0) <= 0)
        return;
    n = read(STDIN_FILENO, t->typed + t->n_typed, sizeof(t->typed) - t->n_typed);
    *is_gone = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
    t->n_typed += n > 0 ? (size_t)n : 0;
}

/* Take the first key out of the typed bytes. */
static int take_typed_key(struct top_terminal *t)
{
    size_t used = 1;
    int event;

    if (t->n_typed == 0)
        return TOP_NOTHING;
    if (t->typed[0] == '\033') {
        used = sequence_len(t->typed, t->n_typed);
        if (used == 0 && t->n_typed < sizeof(t->typed))
            return TOP_NOTHING;
        used = used > 0 ? used : t->n_typed; /* longer than the sequence of any key */
        event = sequence_event(t->typed, used);
    } else {
        event = TOP_KEY + (unsigned char)t->typed[0];
    }
    t->n_typed -= used;
    memmove(t->typed, t->typed + used, t->n_typed);
    return event;
}

int top_terminal_next(struct top_terminal *t)
{
    bool is_gone = false;
    int event = next_signal(t);

    if (event != TOP_NOTHING)
        return event;
    read_keys(t, &is_gone);
    return is_gone ? TOP_END : take_typed_key(t);
}
