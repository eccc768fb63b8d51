/* server/top/metrics_text.c - see metrics_text.h.
 *
 * The text is scanned line by line, without a copy: a sample's name and labels point into it.
 * Quoted label values are skipped with their escapes, so that a '}' or ',' inside of one does not
 * end the labels.
 */
#include "server/top/metrics_text.h"

#include <stdlib.h>
#include <string.h>

/* Returns the position after the closing quote of a value that begins at `at`; n: there is none. */
static size_t skip_value(const char *text, size_t n, size_t at)
{
    while (at < n && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
    return at < n ? at + 1 : n;
}

/* Returns the position of the closing brace of labels that begin at `at`; n: there is none. */
static size_t find_brace(const char *text, size_t n, size_t at)
{
    while (at < n && text[at] != '}')
        at = text[at] == '"' ? skip_value(text, n, at + 1) : at + 1;
    return at < n ? at : n;
}

static bool read_value(const char *text, size_t n, double *value)
{
    char number[40], *end;

    while (n > 0 && *text == ' ')
        text++, n--;
    if (n == 0 || n >= sizeof(number))
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    *value = strtod(number, &end);
    return end != number && (*end == '\0' || *end == ' ');
}

static bool read_metric_line(const char *line, size_t n, struct top_sample *s)
{
    size_t at = 0;

    while (at < n && line[at] != '{' && line[at] != ' ')
        at++;
    *s = (struct top_sample){.name = line, .n_name = at, .labels = line};
    if (at == 0 || line[0] == '#')
        return false;
    if (at < n && line[at] == '{') {
        const size_t end = find_brace(line, n, at + 1);

        if (end == n)
            return false;
        s->labels = line + at + 1;
        s->n_labels = end - at - 1;
        at = end + 1;
    }
    return read_value(line + at, n - at, &s->value);
}

bool top_sample_next(const char *text, size_t n, size_t *at, struct top_sample *s)
{
    while (*at < n) {
        const char *line = text + *at, *end = memchr(line, '\n', n - *at);
        const size_t len = end != NULL ? (size_t)(end - line) : n - *at;

        *at += len + (end != NULL);
        if (read_metric_line(line, len, s))
            return true;
    }
    return false;
}

bool top_sample_is(const struct top_sample *s, const char *name)
{
    return strlen(name) == s->n_name && memcmp(s->name, name, s->n_name) == 0;
}

static void unescape(const char *from, size_t n, char *out, size_t size)
{
    size_t len = 0;

    for (size_t i = 0; i < n && len + 1 < size; i++) {
        char c = from[i];

        if (c == '\\' && i + 1 < n)
            c = from[++i] == 'n' ? '\n' : from[i];
        out[len++] = c;
    }
    out[len] = '\0';
}

bool top_sample_label(const struct top_sample *s, const char *name, char *out, size_t size)
{
    const size_t n_name = strlen(name);
    size_t at = 0;

    out[0] = '\0';
    while (at < s->n_labels) {
        const char *label = s->labels + at;
        const char *equals = memchr(label, '=', s->n_labels - at);
        size_t begin, end;

        if (equals == NULL)
            return false;
        begin = (size_t)(equals - s->labels) + 2;
        if (begin > s->n_labels)
            return false;
        end = skip_value(s->labels, s->n_labels, begin);
        if ((size_t)(equals - label) == n_name && memcmp(label, name, n_name) == 0) {
            unescape(s->labels + begin, end > begin ? end - 1 - begin : 0, out, size);
            return true;
        }
        at = end;
        while (at < s->n_labels && (s->labels[at] == ',' || s->labels[at] == ' '))
            at++;
    }
    return false;
}
