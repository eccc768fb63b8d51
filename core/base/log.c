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

/* Length of the UTF-8 character at s; 0 when it is none or cut. */
static size_t utf8_len(const unsigned char *s, size_t n)
{
    const size_t want = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    const unsigned char lead = s[0], second = n > 1 ? s[1] : 0;

    if (lead < 0xc2 || lead > 0xf4 || want > n)
        return 0;
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f))
        return 0; /* overlong, a surrogate, or beyond Unicode */
    for (size_t i = 1; i < want; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return want;
}

/* Bytes at s that stay together: an escape, a UTF-8 character, a single byte; 0: broken or cut. */
static size_t unit_len(const char *s, size_t n)
{
    size_t want = 1;

    if ((unsigned char)*s >= 0x80)
        return utf8_len((const unsigned char *)s, n);
    if (*s == '\\')
        want = n > 1 && s[1] == 'u' ? 6 : 2;
    return want <= n ? want : 0;
}

static bool has_room(const struct line *l, size_t n)
{
    return l->len + n <= sizeof(l->text) - 4;
}

/* The inside of a JSON string, as much of it as fits. What is already escaped stays so; bytes that
 * are no UTF-8 become question marks. */
static void put_json_text(struct line *l, const char *s, size_t n, bool is_escaped)
{
    while (n > 0) {
        const bool bare = !is_escaped && (*s == '"' || *s == '\\' || (unsigned char)*s < 0x20);
        const size_t unit = bare ? 1 : unit_len(s, n);
        char text[8] = "?";
        size_t len = 1;

        if (bare)
            len = (size_t)snprintf(text, sizeof(text), "\\u%04x", (unsigned char)*s);
        else if (unit > 0)
            memcpy(text, s, len = unit);
        else if (*s == '\\')
            return; /* half an escape: the end of what was cut */
        if (!has_room(l, len))
            return;
        for (size_t i = 0; i < len; i++)
            put(l, text[i]);
        s += unit > 0 ? unit : 1;
        n -= unit > 0 ? unit : 1;
    }
}

/* False when it does not fit; a string is cut instead. */
static bool put_json_value(struct line *l, const char *s, size_t n)
{
    const bool is_quoted = n > 0 && s[0] == '"';

    if (!has_room(l, is_number(s, n) ? n : 2))
        return false;
    if (is_number(s, n)) {
        for (size_t i = 0; i < n; i++)
            put(l, s[i]);
        return true;
    }
    put(l, '"');
    if (is_quoted)
        put_json_text(l, s + 1, n - (n > 1 && s[n - 1] == '"' ? 2 : 1), true);
    else
        put_json_text(l, s, n, false);
    l->text[l->len++] = '"'; /* kept free by put() */
    return true;
}

/* "key=value key=value" -> ,"key":value,"key":value. Of what does not fit, or is cut already and no
 * string, nothing is written: half a number would be another number. */
static void put_json_pairs(struct line *l, const char *s, bool is_cut)
{
    while (*s != '\0') {
        const size_t key = strcspn(s, "= "), start = l->len;
        const bool has_value = s[key] == '=';
        const size_t n = has_value ? value_len(s + key + 1) : 0;
        const char *value = s + key + 1, *end = has_value ? value + n : s + key;
        bool fits = has_room(l, key + 8) && !(is_cut && *end == '\0' && (n == 0 || *value != '"'));

        if (fits) {
            put_text(l, ",\"");
            put_json_text(l, s, key, false);
            put_text(l, "\":");
            if (has_value)
                fits = put_json_value(l, value, n);
            else
                put_text(l, "true");
        }
        if (!fits) {
            l->len = start;
            return;
        }
        s = end + strspn(end, " ");
    }
}

void log_write(enum log_level level, const char *module, const char *format, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    static const char *const letters[] = {" D ", " I ", " W ", " E "};
    struct line l = {.len = 0};
    char pairs[LOG_LINE_MAX];
    va_list args;
    int n;

    if (!log_is_on(level))
        return;
    va_start(args, format);
    n = vsnprintf(pairs, sizeof(pairs), format, args);
    va_end(args);
    if (sink.as_json) {
        put_text(&l, "{\"time\":\"");
        put_time(&l);
        put_text(&l, "\",\"level\":\"");
        put_text(&l, names[level]);
        put_text(&l, "\",\"module\":\"");
        put_text(&l, module);
        put(&l, '"');
        put_json_pairs(&l, pairs, n >= (int)sizeof(pairs));
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
