/* server/top/screen.c - see screen.h.
 *
 * The column is counted while characters are written: so fields are padded and lines are cut.
 * Signals are read from a signalfd, so that no signal ends the program before the terminal is
 * restored. Without QUIRE_NCURSES there is no terminal.
 */
#include "server/top/screen.h"

#include "core/base/err.h"
#include "core/base/unicode.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
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

/* ---- frames ---- */

void top_screen_begin(struct top_screen *s)
{
    s->row = s->column = s->written = 0;
#ifdef QUIRE_NCURSES
    if (s->terminal != NULL) {
        struct winsize size = {0};

        (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        s->width = size.ws_col == 0 ? 80 : size.ws_col < MAX_WIDTH ? size.ws_col : MAX_WIDTH;
        s->height = size.ws_row == 0 ? 24 : size.ws_row < MAX_WIDTH ? size.ws_row : MAX_WIDTH;
        (void)resizeterm((int)s->height, (int)s->width);
        erase();
    }
#endif
}

bool top_screen_end(struct top_screen *s)
{
#ifdef QUIRE_NCURSES
    if (s->terminal != NULL)
        return refresh() == OK;
#endif
    return fflush(s->out) == 0 && !ferror(s->out);
}

/* Put one visible character into the frame. */
static void put_character(struct top_screen *s, enum top_style style, const char *text, int len)
{
#ifdef QUIRE_NCURSES
    static const attr_t attributes[] = {
        [TOP_BOLD] = A_BOLD,        [TOP_DIM] = A_DIM,          [TOP_TITLE] = A_REVERSE,
        [TOP_GOOD] = COLOR_PAIR(1), [TOP_BUSY] = COLOR_PAIR(2), [TOP_BAD] = A_BOLD | COLOR_PAIR(3)};

    if (s->terminal != NULL) {
        (void)attrset((int)attributes[style]);
        (void)mvaddnstr((int)s->row, (int)s->column, text, len);
        return;
    }
#endif
    (void)style;
    if (*text != ' ')
        fprintf(s->out, "%*s%.*s", (int)(s->column - s->written), "", len, text);
}

/* Put a text, at most up to the column `end`. */
static void put_text(struct top_screen *s, enum top_style style, const char *text, uint32_t end)
{
    size_t len;

    for (size_t n = strlen(text); n > 0 && s->row < s->height; text += len, n -= len) {
        const uint32_t c = unicode_at(text, n, &len);
        const bool is_known = (len == 1 ? c <= '~' : s->has_utf8) && unicode_is_printable(c);
        const int width = is_known ? wcwidth((wchar_t)c) : 0;
        const uint32_t columns = width > 0 ? (uint32_t)width : 1;

        if (s->column + columns > end)
            return;
        put_character(s, style, width > 0 ? text : "?", width > 0 ? (int)len : 1);
        s->column += columns;
        s->written = *text != ' ' ? s->column : s->written;
    }
}

void top_screen_add(struct top_screen *s, enum top_style style, int width, const char *form, ...)
{
    const uint32_t n = (uint32_t)abs(width), room = s->width - s->column;
    const uint32_t end = s->column + (n != 0 && n < room ? n : room);
    char text[4 * MAX_WIDTH];
    va_list args;
    size_t len;

    va_start(args, form);
    len = (size_t)vsnprintf(text, sizeof(text), form, args);
    va_end(args);
    s->column += width > 0 && len < n ? n - (uint32_t)len : 0;
    put_text(s, style, text, end);
    s->column = n != 0 ? end : s->column;
}

void top_screen_next_line(struct top_screen *s)
{
    fputs(s->terminal == NULL ? "\n" : "", s->out);
    s->row += s->row < s->height;
    s->column = s->written = 0;
}

/* ---- the terminal ---- */

void top_screen_close(struct top_screen *s)
{
#ifdef QUIRE_NCURSES
    if (s->terminal != NULL) {
        (void)endwin();
        delscreen(s->terminal);
        (void)close(s->signals);
    }
#endif
    s->terminal = NULL;
}

#ifdef QUIRE_NCURSES

static void set_modes(void)
{
    const char *no_color = getenv("NO_COLOR");
    short behind;

    (void)cbreak();
    (void)noecho();
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)set_escdelay(ESCAPE_MS);
    (void)curs_set(0);
    /* For terminals for which terminfo has only the sequence ESC O. */
    (void)define_key("\033[A", KEY_UP);
    (void)define_key("\033[B", KEY_DOWN);
    if (!has_colors() || (no_color != NULL && no_color[0] != '\0'))
        return; /* ncurses draws no pair of colours then */
    (void)start_color();
    behind = use_default_colors() == OK ? -1 : COLOR_BLACK;
    (void)init_pair(1, COLOR_GREEN, behind);
    (void)init_pair(2, COLOR_YELLOW, behind);
    (void)init_pair(3, COLOR_RED, behind);
}

int top_screen_open(struct top_screen *s, char *err, size_t err_len)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
    const char *term = getenv("TERM");
    sigset_t set;

    snprintf(err, err_len, "this is no terminal: quire top --once prints the numbers once");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return ERR_INVAL;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        sigaddset(&set, taken[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    snprintf(err, err_len, "signals cannot be taken: %s", strerror(errno));
    if (s->signals < 0)
        return ERR_INTERNAL;
    use_env(FALSE); /* the terminal knows its size better than LINES and COLUMNS */
    s->terminal = newterm(NULL, stdout, stdin);
    if (s->terminal != NULL && tigetstr("cup") != NULL)
        return set_modes(), 0;
    snprintf(err, err_len,
             "terminfo has no description of the terminal '%.40s' (TERM), or it cannot move its "
             "cursor: set TERM to what it is, or install ncurses-base or ncurses-term (Debian); "
             "quire top --once needs none",
             term != NULL ? term : "");
    top_screen_close(s);
    return ERR_INVAL;
}

/* On Ctrl-Z the shell gets its terminal back; after SIGCONT the program continues here, and the
 * next frame takes the terminal again. A sequence that ncurses does not know (ESC [ parameters
 * final, ESC O final) is skipped as a whole. */
int top_screen_event(struct top_screen *s)
{
    struct pollfd gone = {.fd = STDIN_FILENO};
    struct signalfd_siginfo info;
    int key;

    if (read(s->signals, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGTSTP) {
            (void)endwin();
            (void)raise(SIGSTOP);
        }
        return info.ssi_signo == SIGTSTP || info.ssi_signo == SIGWINCH ? KEY_RESIZE : KEY_EXIT;
    }
    key = getch();
    if (key == '\033' && ((key = getch()) == '[' || key == 'O')) {
        do
            key = getch();
        while (key >= ' ' && key < '@');
        return KEY_RESIZE;
    }
    return key == ERR && poll(&gone, 1, 0) > 0 ? KEY_EXIT : key;
}
#else
int top_screen_open(struct top_screen *s, char *err, size_t err_len)
{
    (void)s;
    snprintf(err, err_len,
             "this binary was built without ncurses (Debian: libncurses-dev) and has no screen: "
             "quire top --once prints the numbers once");
    return ERR_UNSUPPORTED;
}
#endif
