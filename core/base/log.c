/* core/base/log.c - formatting of log lines; see log.h. log_sink.c writes them.
 *
 * A line is built in a fixed array on the caller's stack: plain as time, level, module and pairs,
 * or as JSON by parsing the caller's own key=value text again. Callers quote foreign text with
 * log_quote(); the formatter still treats every value as hostile, so that no value can begin a line
 * of its own or an escape sequence of a terminal.
 */
#include "core/base/log.h"

#include "core/base/log_impl.h"
#include "core/base/utf8.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistr.h>

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

static void put_log_char(struct line *l, char c)
{
    if (l->len < sizeof(l->text) - 4) /* room for the closing quote, brace and newline */
        l->text[l->len++] = c;
}

static void put_log_text(struct line *l, const char *s)
{
    while (*s != '\0')
        put_log_char(l, *s++);
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
    put_log_text(l, buf);
}

/* True: the value may stand without quotes, as a JSON number. */
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

/* Return the length of one value: up to the next blank, or the closing quote of a quoted one. */
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

/* Return how many bytes at s belong together: an escape, a UTF-8 character, a single byte; 0:
 * invalid or cut. */
static size_t unit_len(const char *s, size_t n)
{
    size_t want = 1;

    if ((unsigned char)*s >= 0x80)
        return utf8_len((const uint8_t *)s, n);
    if (*s == '\\')
        want = n > 1 && s[1] == 'u' ? 6 : 2;
    return want <= n ? want : 0;
}

static bool has_room(const struct line *l, size_t n)
{
    return l->len + n <= sizeof(l->text) - 4;
}

/* Add the inside of a JSON string, as much as fits. Escapes in the text are kept; bytes that are
 * not UTF-8 become question marks. */
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
            return; /* half an escape: the text was cut here */
        if (!has_room(l, len))
            return;
        for (size_t i = 0; i < len; i++)
            put_log_char(l, text[i]);
        s += unit > 0 ? unit : 1;
        n -= unit > 0 ? unit : 1;
    }
}

/* Add a value; false when it does not fit. A string is cut instead. */
static bool put_json_value(struct line *l, const char *s, size_t n)
{
    const bool is_quoted = n > 0 && s[0] == '"';

    if (!has_room(l, is_number(s, n) ? n : 2))
        return false;
    if (is_number(s, n)) {
        for (size_t i = 0; i < n; i++)
            put_log_char(l, s[i]);
        return true;
    }
    put_log_char(l, '"');
    if (is_quoted)
        put_json_text(l, s + 1, n - (n > 1 && s[n - 1] == '"' ? 2 : 1), true);
    else
        put_json_text(l, s, n, false);
    l->text[l->len++] = '"'; /* put_log_char() keeps this byte free */
    return true;
}

/* "key=value key=value" -> ,"key":value,"key":value. A pair that does not fit, or was cut and is
 * not a string, is left out: half a number would be another number. */
static void put_json_pairs(struct line *l, const char *s, bool is_cut)
{
    while (*s != '\0') {
        const size_t key = strcspn(s, "= "), start = l->len;
        const bool has_value = s[key] == '=';
        const size_t n = has_value ? value_len(s + key + 1) : 0;
        const char *value = s + key + 1, *end = has_value ? value + n : s + key;
        bool fits = has_room(l, key + 8) && !(is_cut && *end == '\0' && (n == 0 || *value != '"'));

        if (fits) {
            put_log_text(l, ",\"");
            put_json_text(l, s, key, false);
            put_log_text(l, "\":");
            if (has_value)
                fits = put_json_value(l, value, n);
            else
                put_log_text(l, "true");
        }
        if (!fits) {
            l->len = start;
            return;
        }
        s = end + strspn(end, " ");
    }
}

#define NO_CHAR UINT32_MAX /* for a byte that begins no character */

static ucs4_t char_at(const char *s, size_t n, size_t *len)
{
    ucs4_t c;
    const int got = u8_mbtoucr(&c, (const uint8_t *)s, n);

    *len = got > 0 ? (size_t)got : 1;
    return got > 0 ? c : NO_CHAR;
}

/* True: the character moves, hides or reorders text on a terminal, or ends a line. */
static bool is_harmful(ucs4_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069) || c == NO_CHAR;
}

/* Add pairs as plain text; a value that should have been quoted cannot begin a line either. */
static void put_plain_pairs(struct line *l, const char *s)
{
    size_t n = strlen(s);

    while (n > 0) {
        size_t unit;
        const bool harmful = is_harmful(char_at(s, n, &unit));

        if (!has_room(l, unit))
            return;
        for (size_t i = 0; i < unit && !harmful; i++)
            put_log_char(l, s[i]);
        if (harmful)
            put_log_char(l, '?');
        s += unit;
        n -= unit;
    }
}

static void put_head(struct line *l, enum log_level level, const char *module)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    static const char *const letters[] = {" D ", " I ", " W ", " E "};

    if (form.as_json) {
        put_log_text(l, "{\"time\":\"");
        put_time(l);
        put_log_text(l, "\",\"level\":\"");
        put_log_text(l, names[level]);
        put_log_text(l, "\",\"module\":\"");
        put_log_text(l, module);
        put_log_char(l, '"');
    } else {
        put_time(l);
        put_log_text(l, letters[level]);
        put_log_text(l, module);
        put_log_char(l, ' ');
    }
}

__attribute__((format(printf, 4, 0))) static void compose(struct line *l, enum log_level level,
                                                          const char *module, const char *format,
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

const char *log_quote(char *buf, unsigned long size, const char *text)
{
    size_t n = 0, left = strlen(text);

    if (size < 8)
        return "\"\"";
    buf[n++] = '"';
    while (left > 0 && n < size - 8) { /* leaves room for the longest unit, the quote and the NUL */
        char escape[12];
        size_t unit;
        const ucs4_t c = char_at(text, left, &unit);

        if (c == NO_CHAR) {
            buf[n++] = '?';
        } else if (is_harmful(c)) {
            const int len = snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)c);

            memcpy(buf + n, escape, (size_t)len);
            n += (size_t)len;
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
