/* core/json/json_text.c - finds parts of a JSON text as they were written; see json.h.
 *
 * Values are found by skipping: a string to its closing quote, a container by counting brackets.
 * That is right for texts that json_parse() accepted; in any other text the result is meaningless,
 * but every index stays inside it and the scan always advances.
 */
#include "core/json/json.h"

#include <string.h>

#define MAX_ESCAPED 6 /* most bytes of JSON for one byte of text: \u0061 */

/* Skip the blanks of json_parse(), and a byte order mark at the start of the text. */
static size_t skip_text_blanks(const char *s, size_t n, size_t i)
{
    if (i == 0 && n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0)
        i = 3;
    while (i < n && (unsigned char)s[i] <= ' ')
        i++;
    return i;
}

/* Return the index after the string whose opening quote is at i: it ends at the first quote that is
 * not preceded by an odd number of backslashes. */
static size_t skip_string(const char *s, size_t n, size_t i)
{
    const size_t begin = i + 1;

    for (i = begin; i < n; i++) {
        const char *quote = memchr(s + i, '"', n - i);
        size_t n_before = 0;

        if (quote == NULL)
            return n;
        i = (size_t)(quote - s);
        while (i - n_before > begin && s[i - n_before - 1] == '\\')
            n_before++;
        if (n_before % 2 == 0)
            return i + 1;
    }
    return n;
}

/* Return the index after the value that begins at i. */
static size_t skip_value(const char *s, size_t n, size_t i)
{
    size_t depth = 0;

    while (i < n) {
        if (s[i] == '"') {
            i = skip_string(s, n, i);
        } else if (s[i] == '{' || s[i] == '[') {
            depth++;
            i++;
        } else if (s[i] == '}' || s[i] == ']') {
            if (depth == 0)
                return i;
            depth--;
            i++;
        } else if (depth == 0 && (s[i] == ',' || (unsigned char)s[i] <= ' ')) {
            return i;
        } else {
            i++;
            continue;
        }
        if (depth == 0)
            return i;
    }
    return n;
}

bool json_text_is(const char *s, size_t n, const char *text)
{
    const size_t n_text = strlen(text);
    cJSON *v = NULL;
    bool same;

    if (n < 2 || s[0] != '"' || n > MAX_ESCAPED * n_text + 2)
        return false;
    if (memchr(s, '\\', n) == NULL)
        return n == n_text + 2 && memcmp(s + 1, text, n_text) == 0;
    v = cJSON_ParseWithLength(s, n);
    same = cJSON_IsString(v) && strcmp(v->valuestring, text) == 0;
    cJSON_Delete(v);
    return same;
}

bool json_member_text(const char *s, size_t n, const char *key, const char **value, size_t *len)
{
    bool found = false;
    size_t i = skip_text_blanks(s, n, 0) + 1;

    for (i = skip_text_blanks(s, n, i); i < n && s[i] != '}'; i = skip_text_blanks(s, n, i)) {
        const size_t name = i, behind = skip_string(s, n, i);
        const size_t colon = skip_text_blanks(s, n, behind);

        i = skip_text_blanks(s, n, colon < n ? colon + 1 : n);
        const size_t end = skip_value(s, n, i);
        if (json_text_is(s + name, behind - name, key)) {
            *value = s + i;
            *len = end - i;
            found = true;
        }
        i = skip_text_blanks(s, n, end);
        if (i < n && s[i] == ',')
            i++;
    }
    return found;
}

bool json_element_text(const char *s, size_t n, size_t k, const char **value, size_t *len)
{
    size_t i = skip_text_blanks(s, n, 0) + 1;

    for (i = skip_text_blanks(s, n, i); i < n && s[i] != ']'; i = skip_text_blanks(s, n, i)) {
        const size_t end = skip_value(s, n, i);

        if (k-- == 0) {
            *value = s + i;
            *len = end - i;
            return true;
        }
        i = skip_text_blanks(s, n, end);
        if (i < n && s[i] == ',')
            i++;
    }
    return false;
}
