/* server/api/chat/decision_text.c - see decision_text.h.
 *
 * An item's text loses the white space at its beginning, which is the indentation of its first
 * line. Recursion is bounded by JSON_MAX_DEPTH.
 */
#include "server/api/chat/decision_text.h"

#include <string.h>

#define MAX_TEXT ((size_t)64 << 20) /* bytes: a body has no more */

static bool is_nested(const cJSON *v)
{
    return cJSON_IsObject(v) || cJSON_IsArray(v);
}

static void add_blanks(struct buf *out, int depth)
{
    for (int i = 0; i < 2 * depth; i++)
        buf_add_char(out, ' ');
}

static void add_text(struct buf *out, const cJSON *v, int depth);

/* Append the text of a list's item behind "- ". */
static void add_list_item(struct buf *out, const cJSON *v, int depth)
{
    struct buf text;
    size_t n = 0;

    buf_init(&text, MAX_TEXT);
    add_text(&text, v, depth + 1);
    while (n < text.len && strchr(" \t\n\r", text.data[n]) != NULL)
        n++;
    add_blanks(out, depth);
    buf_add_str(out, "- ");
    buf_add(out, text.data + n, text.len - n);
    if (text.err < 0)
        out->err = text.err;
    buf_release(&text);
}

static void add_member(struct buf *out, const cJSON *v, int depth)
{
    add_blanks(out, depth);
    buf_add_str(out, v->string);
    buf_add_str(out, is_nested(v) ? ":\n" : ": ");
    add_text(out, v, is_nested(v) ? depth + 1 : 0);
}

static void add_text(struct buf *out, const cJSON *v, int depth)
{
    if (cJSON_IsString(v)) {
        buf_add_str(out, v->valuestring);
    } else if (cJSON_IsBool(v)) {
        buf_add_str(out, cJSON_IsTrue(v) ? "True" : "False");
    } else if (is_nested(v)) {
        for (const cJSON *it = v->child; it != NULL; it = it->next) {
            if (it != v->child)
                buf_add_char(out, '\n');
            if (cJSON_IsArray(v))
                add_list_item(out, it, depth);
            else
                add_member(out, it, depth);
        }
    } else if (v != NULL && !cJSON_IsNull(v)) {
        json_add_value(out, v);
    }
}

static bool is_name(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* Return the bytes of the name of a special token that text[0..n) begins with; 0: none. */
static size_t special_name(const char *text, size_t n)
{
    size_t i = 2;

    if (n < 5 || text[0] != '<' || text[1] != '|')
        return 0;
    while (i < n && is_name(text[i]))
        i++;
    return i > 2 && i + 1 < n && text[i] == '|' && text[i + 1] == '>' ? i + 2 : 0;
}

void decision_text_add(struct buf *out, const cJSON *v)
{
    static const char bar[] = "\xC2\xA6";
    struct buf text;

    buf_init(&text, MAX_TEXT);
    add_text(&text, v, 0);
    for (size_t i = 0; i < text.len;) {
        const size_t n = special_name(text.data + i, text.len - i);

        if (n == 0) {
            buf_add_char(out, text.data[i++]);
            continue;
        }
        buf_printf(out, "<%s%.*s%s>", bar, (int)(n - 4), text.data + i + 2, bar);
        i += n;
    }
    if (text.err < 0)
        out->err = text.err;
    buf_release(&text);
}
