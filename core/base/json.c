/* core/base/json.c - see json.h. */
#include "core/base/json.h"

#include "core/base/err.h"
#include "core/base/json_names.h"
#include "core/base/mem.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

/* ---- memory ---- */

static _Thread_local bool has_lost; /* an allocation for this thread's trees has failed */

static void *allocate(size_t bytes)
{
    void *p = mem_alloc(bytes);

    has_lost = has_lost || p == NULL;
    return p;
}

__attribute__((constructor)) static void hook_allocator(void)
{
    cJSON_Hooks hooks = {.malloc_fn = allocate, .free_fn = mem_free};

    cJSON_InitHooks(&hooks);
}

void json_watch(void)
{
    has_lost = false;
}

bool json_is_incomplete(void)
{
    return has_lost;
}

cJSON *json_put(cJSON *to, const char *name, cJSON *item)
{
    if (item == NULL ||
        !(name != NULL ? cJSON_AddItemToObject(to, name, item) : cJSON_AddItemToArray(to, item))) {
        cJSON_Delete(item);
        return NULL;
    }
    return item;
}

cJSON *json_put_reference(cJSON *to, const char *name, const cJSON *of)
{
    cJSON *item = cJSON_CreateNull();

    if (item == NULL)
        return NULL;
    *item = *of;
    item->next = item->prev = NULL;
    item->string = NULL;
    item->type |= cJSON_IsReference;
    return json_put(to, name, item);
}

bool json_is_utf8(const char *text, size_t n)
{
    return u8_check((const uint8_t *)text, n) == NULL;
}

size_t json_n_chars(const char *text, size_t n)
{
    size_t chars = 0;

    for (size_t i = 0; i < n; i++)
        chars += ((unsigned char)text[i] & 0xc0) != 0x80;
    return chars;
}

/* Is s[i..n) a \uXXXX of any character but NUL? cJSON would take other letters for zeros. */
static bool is_unit(const char *s, size_t n, size_t i)
{
    if (n - i < 6 || memcmp(s + i, "\\u0000", 6) == 0)
        return false;
    for (size_t k = i + 2; k < i + 6; k++)
        if (strchr("0123456789abcdefABCDEF", s[k]) == NULL || s[k] == '\0')
            return false;
    return true;
}

/* Skip a string; i stands behind its opening quote. Returns the index behind the closing one, n
 * when there is none, SIZE_MAX for a NUL or an escape that JSON does not know. */
static size_t skip_string(const char *s, size_t n, size_t i)
{
    while (i < n && s[i] != '"') {
        if (s[i] == '\0')
            return SIZE_MAX;
        if (s[i] == '\\') {
            if (i + 1 < n && s[i + 1] == 'u' && !is_unit(s, n, i))
                return SIZE_MAX;
            i++;
        }
        i++;
    }
    return i < n ? i + 1 : n;
}

static size_t skip_digits(const char *s, size_t n, size_t i)
{
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return i;
}

/* Behind the number at i, which begins with a sign or a digit; SIZE_MAX when it is none as JSON
 * writes them. cJSON would take 1. and 01 as well. */
static size_t skip_number(const char *s, size_t n, size_t i)
{
    size_t from = i += s[i] == '-', end = skip_digits(s, n, i);

    if (end == from || (s[from] == '0' && end > from + 1))
        return SIZE_MAX;
    if (end < n && s[end] == '.') {
        from = end + 1;
        end = skip_digits(s, n, from);
        if (end == from)
            return SIZE_MAX;
    }
    if (end < n && (s[end] == 'e' || s[end] == 'E')) {
        from = end + 1;
        from += from < n && (s[from] == '+' || s[from] == '-');
        end = skip_digits(s, n, from);
        if (end == from)
            return SIZE_MAX;
    }
    return end;
}

/* A character that JSON has only in strings, and escaped there. cJSON takes it for a space. */
static bool is_control(char c)
{
    return (unsigned char)c < ' ' && c != '\t' && c != '\n' && c != '\r';
}

/* Depth and number of values, and what cJSON is too kind about, without building anything. */
static int check_size(const char *s, size_t n, size_t max_values, const char **why)
{
    size_t depth = 0, values = 1;

    for (size_t i = 0; i < n;) {
        const char c = s[i++];

        if (c == '"') {
            i = skip_string(s, n, i);
            if (i == SIZE_MAX)
                return *why = "the body has a NUL character or a bad escape in a string", ERR_INVAL;
        } else if (c == '[' || c == '{') {
            values++;
            if (++depth > JSON_MAX_DEPTH)
                return *why = "the body is nested too deeply", ERR_LIMIT;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        } else if (c == ',') {
            values++;
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            i = skip_number(s, n, i - 1);
            if (i == SIZE_MAX)
                return *why = "the body has a number that JSON does not know", ERR_INVAL;
        } else if (is_control(c)) {
            return *why = "the body has a control character between its values", ERR_INVAL;
        }
        if (values > max_values)
            return *why = "the body has too many values", ERR_LIMIT;
    }
    return 0;
}

static bool is_blank(const char *s, const char *end)
{
    while (s < end && (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r'))
        s++;
    return s == end;
}

int json_parse(const char *text, size_t n, cJSON **out, const char **why)
{
    int rc = json_parse_up_to(text, n, JSON_MAX_VALUES, out, why);

    if (rc < 0)
        return rc;
    rc = json_names_unique(*out);
    if (rc < 0) {
        *why = "out of memory";
        cJSON_Delete(*out);
        *out = NULL;
    }
    return rc;
}

int json_parse_up_to(const char *text, size_t n, size_t max_values, cJSON **out, const char **why)
{
    const char *end = NULL;
    int rc;

    *out = NULL;
    if (n == 0)
        return *why = "the body is empty; a JSON object is expected", ERR_INVAL;
    if (!json_is_utf8(text, n))
        return *why = "the body is not valid UTF-8", ERR_INVAL;
    rc = check_size(text, n, max_values, why);
    if (rc < 0)
        return rc;
    json_watch();
    *out = cJSON_ParseWithLengthOpts(text, n, &end, 0);
    if (*out == NULL && json_is_incomplete())
        return *why = "out of memory", ERR_NOMEM;
    if (*out != NULL && is_blank(end, text + n))
        return 0;
    *why = *out == NULL ? "the body is not valid JSON" : "something follows the JSON value";
    cJSON_Delete(*out);
    *out = NULL;
    return ERR_INVAL;
}

static void add_escaped(struct buf *b, unsigned char c)
{
    switch (c) {
    case '"':
        buf_add(b, "\\\"", 2);
        break;
    case '\\':
        buf_add(b, "\\\\", 2);
        break;
    case '\n':
        buf_add(b, "\\n", 2);
        break;
    case '\r':
        buf_add(b, "\\r", 2);
        break;
    case '\t':
        buf_add(b, "\\t", 2);
        break;
    default:
        buf_printf(b, "\\u%04x", c);
    }
}

void json_add_string(struct buf *b, const char *text, size_t n)
{
    size_t done = 0;

    buf_add_char(b, '"');
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        buf_add(b, text + done, i - done);
        add_escaped(b, c);
        done = i + 1;
    }
    if (n > done)
        buf_add(b, text + done, n - done);
    buf_add_char(b, '"');
}

void json_add_cstring(struct buf *b, const char *text)
{
    json_add_string(b, text, strlen(text));
}

static bool reads_back(float value, int digits, char text[static 32])
{
    snprintf(text, 32, "%.*g", digits, (double)value);
    return strtof(text, NULL) == value;
}

void json_add_float(struct buf *b, float value)
{
    char text[32];
    int digits;

    if (!isfinite(value))
        value = value > 0 ? 9999.0f : -9999.0f;
    /* The fewest digits from 6 on that read back: 9 always do (IEEE 754 binary32), most floats want
     * 8 or 9, and where n digits read back more of them do too. */
    digits = reads_back(value, 8, text) ? 7 : 9;
    while (digits >= 6 && digits < 8 && reads_back(value, digits, text))
        digits--;
    digits = digits < 8 ? digits + 1 : digits;
    snprintf(text, sizeof(text), "%.*g", digits, (double)value);
    buf_add_str(b, text);
}
