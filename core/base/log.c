/* core/base/log.c - formatting of log lines; see log.h. */
#include "core/base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Set once by log_setup() before the threads start, read-only afterwards. */
static struct {
    enum log_level level;
    bool as_json;
    int fd;
} sink = {LOG_INFO, false, STDERR_FILENO};

struct line {
    char text[LOG_LINE_MAX];
    size_t len;
};

void log_setup(enum log_level level, bool as_json, int fd)
{
    sink.level = level;
    sink.as_json = as_json;
    sink.fd = fd;
}

bool log_is_on(enum log_level level)
{
    return level >= sink.level && level != LOG_OFF;
}

static void put(struct line *l, char c)
{
    if (l->len < sizeof(l->text) - 4) /* room for the closing quote, brace and newline */
        l->text[l->len++] = c;
}

static void put_text(struct line *l, const char *s)
{
    while (*s != '\0')
        put(l, *s++);
}

static void put_time(struct line *l)
{
    char buf[64];
    struct timespec now;
    struct tm tm;
    size_t n;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    n = strftime(buf, sizeof(buf), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + n, sizeof(buf) - n, ".%03ldZ", now.tv_nsec / 1000000);
    put_text(l, buf);
}

/* A JSON number may stand bare; anything else is written as a string. */
static bool is_number(const char *s, size_t n)
{
    size_t i = (n > 0 && s[0] == '-') ? 1 : 0;
    size_t dots = 0;

    if (i == n || n > 18 || s[i] == '.' || (s[i] == '0' && i + 1 < n && s[i + 1] != '.'))
        return false;
    for (; i < n; i++) {
        if (s[i] == '.' && i + 1 < n)
            dots++;
        else if (s[i] < '0' || s[i] > '9')
            return false;
    }
    return dots <= 1;
}

/* Length of one value: up to the next blank, or the closing quote of a quoted one. */
static size_t value_len(const char *s)
{
    size_t n = 0;

    if (*s != '"')
        return strcspn(s, " ");
    for (n = 1; s[n] != '\0' && s[n] != '"'; n++)
        if (s[n] == '\\' && s[n + 1] != '\0')
            n++;
    return s[n] == '"' ? n + 1 : n;
}

static void put_json_value(struct line *l, const char *s, size_t n)
{
    const bool bare = n > 0 && (s[0] == '"' || is_number(s, n));

    if (!bare)
        put(l, '"');
    for (size_t i = 0; i < n; i++)
        put(l, s[i]);
    if (!bare)
        put(l, '"');
}

/* "key=value key=value" -> ,"key":value,"key":value */
static void put_json_pairs(struct line *l, const char *s)
{
    while (*s != '\0') {
        const size_t key = strcspn(s, "= ");

        put_text(l, ",\"");
        for (size_t i = 0; i < key; i++)
            put(l, s[i]);
        put_text(l, "\":");
        s += key;
        if (*s == '=') {
            const size_t n = value_len(++s);

            put_json_value(l, s, n);
            s += n;
        } else {
            put_text(l, "true");
        }
        while (*s == ' ')
            s++;
    }
}

void log_write(enum log_level level, const char *module, const char *format, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    static const char *const letters[] = {" D ", " I ", " W ", " E "};
    struct line l = {.len = 0};
    char pairs[LOG_LINE_MAX];
    va_list args;

    if (!log_is_on(level))
        return;
    va_start(args, format);
    vsnprintf(pairs, sizeof(pairs), format, args);
    va_end(args);
    if (sink.as_json) {
        put_text(&l, "{\"time\":\"");
        put_time(&l);
        put_text(&l, "\",\"level\":\"");
        put_text(&l, names[level]);
        put_text(&l, "\",\"module\":\"");
        put_text(&l, module);
        put(&l, '"');
        put_json_pairs(&l, pairs);
        l.text[l.len++] = '}';
    } else {
        put_time(&l);
        put_text(&l, letters[level]);
        put_text(&l, module);
        put(&l, ' ');
        put_text(&l, pairs);
    }
    l.text[l.len++] = '\n';
    /* A log that cannot be written has nowhere to complain. */
    ssize_t written = write(sink.fd, l.text, l.len);
    (void)written;
}

const char *log_quote(char *buf, unsigned long size, const char *text)
{
    size_t n = 0;

    if (size < 8)
        return "\"\"";
    buf[n++] = '"';
    for (; *text != '\0' && n < size - 8; text++) {
        const unsigned char c = (unsigned char)*text;

        if (c < 0x20) {
            n += (size_t)snprintf(buf + n, size - n, "\\u%04x", c);
            continue;
        }
        if (c == '"' || c == '\\')
            buf[n++] = '\\';
        buf[n++] = (char)c;
    }
    buf[n++] = '"';
    buf[n] = '\0';
    return buf;
}
