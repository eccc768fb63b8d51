/* server/top/screen.c - see screen.h.
 *
 * The column is counted while characters are written: so cells are padded and lines are cut.
 * Signals are read from a signalfd, so that no signal ends the program before the terminal is
 * restored. Without QUIRE_NCURSES there is no terminal.
 */
#include "server/top/screen.h"

#include "core/base/err.h"
#include "core/base/unicode.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#ifdef QUIRE_NCURSES
#include <curses.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>
#endif

#define FILE_WIDTH 132 /* columns on standard output, unless COLUMNS is set */
#define MIN_WIDTH 20
#define MAX_WIDTH 1000
#define MAX_HEIGHT 1000
#define ESCAPE_MS 50 /* ms for which ncurses waits for the rest of a key's sequence */

void top_screen_init(struct top_screen *s)
{
    const char *columns = getenv("COLUMNS");
    const unsigned long n = columns != NULL ? strtoul(columns, NULL, 10) : 0;

    *s = (struct top_screen){.width = FILE_WIDTH, .height = UINT32_MAX, .out = stdout};
    s->has_utf8 = setlocale(LC_CTYPE, "") != NULL && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    if (n > 0)
        s->width = (uint32_t)(n < MIN_WIDTH ? MIN_WIDTH : n > MAX_WIDTH ? MAX_WIDTH : n);
}

/* ---- text ---- */

/* Return the columns of the first character, and its bytes in *len; 0: it is not visible. */
static uint32_t character_width(const struct top_screen *s, const char *text, size_t *len)
{
    const uint32_t c = unicode_at(text, strnlen(text, 4), len);

    if (*len == 1)
        return c >= ' ' && c <= '~';
    return s->has_utf8 && unicode_is_printable(c) ? (uint32_t)fmax(0, wcwidth((wchar_t)c)) : 0;
}

static void put_character(struct top_screen *s, enum top_style style, const char *text, int len)
{
#ifdef QUIRE_NCURSES
    static const attr_t attributes[] = {
        [TOP_BOLD] = A_BOLD, [TOP_DIM] = A_DIM, [TOP_TITLE] = A_REVERSE, [TOP_BAD] = A_BOLD};

    if (s->is_terminal) {
        (void)attrset((int)(attributes[style] |
                            (s->has_colours && style >= TOP_GOOD ? COLOR_PAIR(style) : 0)));
        (void)mvaddnstr((int)s->row, (int)s->column, text, len);
        return;
    }
#endif
    (void)style;
    if (*text != ' ')
        fprintf(s->out, "%*s%.*s", (int)(s->column - s->written), "", len, text);
}

static void add_until(struct top_screen *s, enum top_style style, const char *text, uint32_t end)
{
    for (size_t len; *text != '\0' && s->row < s->height; text += len) {
        const uint32_t width = character_width(s, text, &len), columns = width > 0 ? width : 1;

        if (s->column + columns > end)
            return;
        put_character(s, style, width > 0 ? text : "?", width > 0 ? (int)len : 1);
        s->column += columns;
        s->written = *text != ' ' ? s->column : s->written;
    }
}

void top_screen_text(struct top_screen *s, enum top_style style, const char *text)
{
    add_until(s, style, text, s->width);
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

void top_screen_cell(struct top_screen *s, enum top_style style, int width, const char *text)
{
    const uint32_t n = (uint32_t)abs(width), has = width > 0 ? (uint32_t)strlen(text) : n;
    const uint32_t end = s->column + n < s->width ? s->column + n : s->width;

    s->column += has < n ? n - has : 0;
    add_until(s, style, text, end);
    s->column = end + 1;
}

void top_screen_end_line(struct top_screen *s)
{
    if (!s->is_terminal)
        fputc('\n', s->out);
    s->row += s->row < s->height;
    s->column = s->written = 0;
}

/* ---- drawings ---- */

static uint32_t bar_end(double part, double total, uint32_t width)
{
    return total > 0 ? (uint32_t)(fmin(fmax(part / total, 0), 1) * width + 0.5) : 0;
}

void top_screen_bar(struct top_screen *s, uint32_t width, double held, double cached, double total)
{
    static const char *const pieces[2][3] = {{"#", "=", "."}, {"█", "▒", "·"}};
    const uint32_t n_held = bar_end(held, total, width - 2);
    const uint32_t n_used = bar_end(held + cached, total, width - 2);

    top_screen_text(s, TOP_PLAIN, "[");
    for (uint32_t i = 0; i < width - 2; i++)
        if (i < n_held)
            top_screen_text(s, TOP_GOOD, pieces[s->has_utf8][0]);
        else
            top_screen_text(s, i < n_used ? TOP_BUSY : TOP_DIM,
                            pieces[s->has_utf8][i < n_used ? 1 : 2]);
    top_screen_text(s, TOP_PLAIN, "]");
}

void top_screen_heights(struct top_screen *s, const double *values, uint32_t n, double most)
{
    static const char *const pieces[2][8] = {{".", ":", "-", "=", "+", "*", "%", "#"},
                                             {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}};

    for (uint32_t i = 0; i < n; i++)
        top_screen_text(s, TOP_PLAIN,
                        pieces[s->has_utf8][(int)fmin(7, fmax(0, 8 * values[i] / most))]);
}

/* ---- frames ---- */

void top_screen_begin(struct top_screen *s)
{
    s->row = s->column = s->written = 0;
#ifdef QUIRE_NCURSES
    if (s->is_terminal) {
        struct winsize size = {0};

        (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        s->width = size.ws_col == 0 ? 80 : size.ws_col < MAX_WIDTH ? size.ws_col : MAX_WIDTH;
        s->height = size.ws_row == 0 ? 24 : size.ws_row < MAX_HEIGHT ? size.ws_row : MAX_HEIGHT;
        (void)resizeterm((int)s->height, (int)s->width);
        erase();
    }
#endif
}

bool top_screen_end(struct top_screen *s)
{
#ifdef QUIRE_NCURSES
    if (s->is_terminal)
        return refresh() == OK;
#endif
    return fflush(s->out) == 0 && !ferror(s->out);
}

#ifdef QUIRE_NCURSES

/* ---- the terminal ---- */

static int take_signals(void)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        sigaddset(&set, taken[i]);
    return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? -1
                                                  : signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Pairs of colours have the numbers of their styles. */
static void set_modes(struct top_screen *s)
{
    const char *no_color = getenv("NO_COLOR");
    short behind;

    (void)cbreak();
    (void)noecho();
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)set_escdelay(ESCAPE_MS);
    (void)curs_set(0);
    (void)define_key("\033[A", KEY_UP); /* for terminals for which terminfo has only the sequence
                                         * ESC O */
    (void)define_key("\033[B", KEY_DOWN);
    s->has_colours = has_colors() && (no_color == NULL || no_color[0] == '\0');
    if (!s->has_colours)
        return;
    (void)start_color();
    behind = use_default_colors() == OK ? -1 : COLOR_BLACK;
    (void)init_pair(TOP_GOOD, COLOR_GREEN, behind);
    (void)init_pair(TOP_BUSY, COLOR_YELLOW, behind);
    (void)init_pair(TOP_BAD, COLOR_RED, behind);
}

int top_screen_open(struct top_screen *s, char *err, size_t err_len)
{
    const char *term = getenv("TERM");

    snprintf(err, err_len, "this is no terminal: quire top --once prints the numbers once");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return ERR_INVAL;
    s->fds[0] = STDIN_FILENO;
    s->fds[1] = take_signals();
    snprintf(err, err_len, "signals cannot be taken: %s", strerror(errno));
    if (s->fds[1] < 0)
        return ERR_INTERNAL;
    use_env(FALSE); /* the terminal knows its size better than LINES and COLUMNS */
    s->terminal = newterm(NULL, stdout, stdin);
    s->is_terminal = s->terminal != NULL && tigetstr("cup") != NULL;
    snprintf(err, err_len,
             "terminfo has no description of the terminal '%.40s' (TERM), or it cannot move its "
             "cursor: set TERM to what it is, or install ncurses-base or ncurses-term (Debian); "
             "quire top --once needs none",
             term != NULL ? term : "");
    if (!s->is_terminal)
        return top_screen_close(s), ERR_INVAL;
    set_modes(s);
    return 0;
}

void top_screen_close(struct top_screen *s)
{
    if (s->terminal == NULL)
        return;
    (void)endwin();
    delscreen(s->terminal);
    (void)close(s->fds[1]);
    s->terminal = NULL;
}

/* Take the next signal. On Ctrl-Z the shell gets its terminal back; after SIGCONT the program
 * continues here, and the next frame takes the terminal again. */
static int next_signal(struct top_screen *s)
{
    struct signalfd_siginfo info;

    if (read(s->fds[1], &info, sizeof(info)) != sizeof(info))
        return ERR;
    if (info.ssi_signo == SIGTSTP) {
        (void)endwin();
        (void)raise(SIGSTOP);
        return KEY_RESIZE;
    }
    return info.ssi_signo == SIGCONT || info.ssi_signo == SIGWINCH ? KEY_RESIZE : KEY_EXIT;
}

/* Return the next event. A sequence that ncurses does not know (ESC [ parameters final, ESC O
 * final) is skipped as a whole. */
int top_screen_event(struct top_screen *s)
{
    struct pollfd gone = {.fd = STDIN_FILENO};
    int key = next_signal(s);

    if (key != ERR)
        return key;
    key = getch();
    if (key == '\033' && ((key = getch()) == '[' || key == 'O')) {
        do
            key = getch();
        while (key >= ' ' && key < '@');
        return KEY_RESIZE;
    }
    return key == ERR && poll(&gone, 1, 0) > 0 ? KEY_EXIT : key;
}
#endif
