/* core/base/log.c - formatting of log lines; see log.h. Where they go: log_sink.c. */
#include "core/base/log.h"

#include "core/base/log_sink.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Set once by log_setup() before the threads start, read-only afterwards. */
static struct {
    enum log_level level;
    bool as_json;
} form = {LOG_INFO, false};

struct line {
    char text[LOG_LINE_MAX];
    size_t len;
};

void log_setup(enum log_level level, bool as_json, int fd)
{
    form.level = level;
    form.as_json = as_json;
    log_sink_use(fd);
}

bool log_is_on(enum log_level level)
{
    return level >= form.level && level != LOG_OFF;
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

/* A character that moves, hides or reorders what a terminal shows, or ends a line. */
static bool is_harmful(const char *s, size_t unit)
{
    const unsigned char *u = (const unsigned char *)s;

    if (unit <= 1)
        return *u < 0x20 || *u >= 0x7f;
    if (unit == 2)
        return u[0] == 0xc2 && u[1] < 0xa0; /* C1 */
    if (unit != 3 || u[0] != 0xe2)
        return false;
    return (u[1] == 0x80 && u[2] >= 0xa8 && u[2] <= 0xae) || /* U+2028 to 202E */
           (u[1] == 0x81 && u[2] >= 0xa6 && u[2] <= 0xa9);   /* U+2066 to 2069 */
}

/* Length of the character at s, 1 for a byte that is none. */
static size_t char_len(const char *s, size_t n)
{
    const size_t len = (unsigned char)*s < 0x80 ? 1 : utf8_len((const unsigned char *)s, n);

    return len > 0 ? len : 1;
}

/* Values that should have been quoted and were not cannot begin a line of their own either. */
static void put_plain_pairs(struct line *l, const char *s)
{
    size_t n = strlen(s);

    while (n > 0) {
        const size_t unit = char_len(s, n);

        if (!has_room(l, unit))
            return;
        for (size_t i = 0; i < unit && !is_harmful(s, unit); i++)
            put(l, s[i]);
        if (is_harmful(s, unit))
            put(l, '?');
        s += unit;
        n -= unit;
    }
}

static void put_head(struct line *l, enum log_level level, const char *module)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    static const char *const letters[] = {" D ", " I ", " W ", " E "};

    if (form.as_json) {
        put_text(l, "{\"time\":\"");
        put_time(l);
        put_text(l, "\",\"level\":\"");
        put_text(l, names[level]);
        put_text(l, "\",\"module\":\"");
        put_text(l, module);
        put(l, '"');
    } else {
        put_time(l);
        put_text(l, letters[level]);
        put_text(l, module);
        put(l, ' ');
    }
}

static void compose(struct line *l, enum log_level level, const char *module, const char *format,
                    va_list args)
{
    char pairs[LOG_LINE_MAX];
    const int n = vsnprintf(pairs, sizeof(pairs), format, args);

    put_head(l, level, module);
    if (form.as_json) {
        put_json_pairs(l, pairs, n >= (int)sizeof(pairs));
        l->text[l->len++] = '}';
    } else {
        put_plain_pairs(l, pairs);
    }
    l->text[l->len++] = '\n';
}

void log_write(enum log_level level, const char *module, const char *format, ...)
{
    struct line l = {.len = 0};
    va_list args;

    if (!log_is_on(level))
        return;
    va_start(args, format);
    compose(&l, level, module, format, args);
    va_end(args);
    log_sink_put(l.text, l.len);
}

size_t log_format(char line[LOG_LINE_MAX], enum log_level level, const char *module,
                  const char *format, ...)
{
    struct line l = {.len = 0};
    va_list args;

    va_start(args, format);
    compose(&l, level, module, format, args);
    va_end(args);
    memcpy(line, l.text, l.len);
    return l.len;
}

/* The code point of a harmful character: of one, two or three bytes. */
static unsigned code_point(const char *s, size_t unit)
{
    const unsigned char *u = (const unsigned char *)s;

    if (unit == 1)
        return u[0];
    return unit == 2 ? (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu)
                     : (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
}

const char *log_quote(char *buf, unsigned long size, const char *text)
{
    size_t n = 0, left = strlen(text);

    if (size < 8)
        return "\"\"";
    buf[n++] = '"';
    while (left > 0 && n < size - 8) { /* room for the longest unit, the quote and the NUL */
        const size_t unit = char_len(text, left);

        if (unit == 1 && (unsigned char)*text >= 0x80) {
            buf[n++] = '?';
        } else if (is_harmful(text, unit)) {
            n += (size_t)snprintf(buf + n, size - n, "\\u%04x", code_point(text, unit));
        } else {
            if (*text == '"' || *text == '\\')
                buf[n++] = '\\';
            memcpy(buf + n, text, unit);
            n += unit;
        }
        text += unit;
        left -= unit;
    }
    buf[n++] = '"';
    buf[n] = '\0';
    return buf;
}
