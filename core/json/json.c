/* core/json/json.c - see json.h.
 *
 * A request's body goes through one scan without allocation (UTF-8, depth, number of values,
 * strings, numbers, control characters) before cJSON builds its tree, because cJSON accepts more
 * than JSON and sets no limits. Then repeated names are removed and numbers get their text. cJSON's
 * allocator is replaced before main(), with a flag for each thread, since many of its calls report
 * no failure.
 */
#include "core/json/json.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json_names.h"
#include "core/json/json_number.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

/* ---- memory ---- */

static _Thread_local bool has_lost; /* an allocation for this thread's trees has failed */

static void *allocate_node(size_t bytes)
{
    void *p = mem_alloc(bytes);

    has_lost = has_lost || p == NULL;
    return p;
}

__attribute__((constructor)) static void hook_allocator(void)
{
    cJSON_Hooks hooks = {.malloc_fn = allocate_node, .free_fn = mem_free};

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

/* True: s[i..n) is a \uXXXX of any character but NUL. cJSON would read other letters as zeros. */
static bool is_unit(const char *s, size_t n, size_t i)
{
    if (n - i < 6 || memcmp(s + i, "\\u0000", 6) == 0)
        return false;
    for (size_t k = i + 2; k < i + 6; k++)
        if (strchr("0123456789abcdefABCDEF", s[k]) == NULL || s[k] == '\0')
            return false;
    return true;
}

/* Skip a string; i is after its opening quote. Returns the index after the closing quote, n if
 * there is none, SIZE_MAX for a NUL or an escape that JSON does not have. */
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

/* True: JSON allows the character only in strings, escaped. cJSON takes it for a space. */
static bool is_control(char c)
{
    return (unsigned char)c < ' ' && c != '\t' && c != '\n' && c != '\r';
}

struct numbers {      /* kinds of numbers in a text */
    bool any_literal; /* one whose double does not tell how it was written */
    bool any_long;    /* one that cJSON cannot read as a whole */
};

/* Check the number at *i and move *i past it. */
static int check_number(const char *s, size_t n, size_t *i, struct numbers *found, const char **why)
{
    const size_t from = *i, end = json_number_skip(s, n, from), length = end - from;

    if (end == SIZE_MAX)
        return *why = "the body has a number that JSON does not know", ERR_INVAL;
    if (length - (s[from] == '-') > JSON_MAX_INT_DIGITS &&
        json_number_is_whole_text(s + from, length))
        return *why = "the body has a whole number of more than 4300 digits", ERR_LIMIT;
    found->any_literal = found->any_literal || !json_number_is_short_text(s + from, length);
    found->any_long = found->any_long || json_number_is_long_text(length);
    *i = end;
    return 0;
}

/* Check depth, number of values, and errors that cJSON accepts, without building anything. */
static int check_size(const char *s, size_t n, size_t max_values, struct numbers *found,
                      const char **why)
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
            int rc;

            i--;
            rc = check_number(s, n, &i, found, why);
            if (rc < 0)
                return rc;
        } else if (is_control(c)) {
            return *why = "the body has a control character between its values", ERR_INVAL;
        }
        if (values > max_values)
            return *why = "the body has too many values", ERR_LIMIT;
    }
    return 0;
}

static bool is_json_blank(const char *s, const char *end)
{
    while (s < end && (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r'))
        s++;
    return s == end;
}

/* Build the tree of text[0..n), which cJSON can read. */
static int build_tree(const char *text, size_t n, cJSON **out, const char **why)
{
    const char *end = NULL;

    json_watch();
    *out = cJSON_ParseWithLengthOpts(text, n, &end, 0);
    if (*out == NULL && json_is_incomplete())
        return *why = "out of memory", ERR_NOMEM;
    if (*out != NULL && is_json_blank(end, text + n))
        return 0;
    *why = *out == NULL ? "the body is not valid JSON" : "something follows the JSON value";
    cJSON_Delete(*out);
    *out = NULL;
    return ERR_INVAL;
}

/* Build the tree of a text with numbers that are too long for cJSON: it reads a copy with zeros in
 * their place, and json_number_keep() gives them their values. */
static int build_tree_of_copy(const char *text, size_t n, cJSON **out, const char **why)
{
    char *copy = mem_dup(text, n);
    int rc;

    if (copy == NULL)
        return *why = "out of memory", ERR_NOMEM;
    json_number_blank_long(copy, n);
    rc = build_tree(copy, n, out, why);
    mem_free(copy);
    return rc;
}

static int check_text(const char *text, size_t n, size_t max_values, struct numbers *found,
                      const char **why)
{
    if (n == 0)
        return *why = "the body is empty; a JSON object is expected", ERR_INVAL;
    if (!json_is_utf8(text, n))
        return *why = "the body is not valid UTF-8", ERR_INVAL;
    return check_size(text, n, max_values, found, why);
}

int json_parse(const char *text, size_t n, cJSON **out, const char **why)
{
    struct numbers found = {0};
    int rc = check_text(text, n, JSON_MAX_VALUES, &found, why);

    *out = NULL;
    if (rc == 0)
        rc = found.any_long ? build_tree_of_copy(text, n, out, why) : build_tree(text, n, out, why);
    if (rc < 0)
        return rc;
    if (found.any_literal)
        rc = json_number_keep(*out, text, n);
    if (rc == 0)
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
    struct numbers found = {0};
    const int rc = check_text(text, n, max_values, &found, why);

    *out = NULL;
    return rc < 0 ? rc : build_tree(text, n, out, why);
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

static int add_members(struct buf *b, const cJSON *of)
{
    const bool is_object = cJSON_IsObject(of);

    buf_add_char(b, is_object ? '{' : '[');
    for (const cJSON *it = of->child; it != NULL && b->err == 0; it = it->next) {
        if (it != of->child)
            buf_add_char(b, ',');
        if (is_object) {
            json_add_cstring(b, it->string);
            buf_add_char(b, ':');
        }
        json_add_value(b, it);
    }
    return buf_add_char(b, is_object ? '}' : ']');
}

int json_add_value(struct buf *b, const cJSON *v)
{
    if (cJSON_IsObject(v) || cJSON_IsArray(v))
        return add_members(b, v);
    if (cJSON_IsNumber(v))
        json_add_number(b, v);
    else if (cJSON_IsString(v))
        json_add_cstring(b, v->valuestring);
    else
        buf_add_str(b, cJSON_IsTrue(v) ? "true" : cJSON_IsFalse(v) ? "false" : "null");
    return b->err;
}

char *json_value_text(const cJSON *v)
{
    struct buf b;
    char *text;
    size_t n;

    buf_init(&b, SIZE_MAX / 2);
    text = json_add_value(&b, v) == 0 ? buf_detach(&b, &n) : NULL;
    buf_release(&b);
    return text;
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
    /* The fewest digits from 6 on that read back: 9 always do (IEEE 754 binary32), most floats need
     * 8 or 9, and where n digits read back more digits do too. */
    digits = reads_back(value, 8, text) ? 7 : 9;
    while (digits >= 6 && digits < 8 && reads_back(value, digits, text))
        digits--;
    digits = digits < 8 ? digits + 1 : digits;
    snprintf(text, sizeof(text), "%.*g", digits, (double)value);
    buf_add_str(b, text);
}
