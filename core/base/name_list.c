/* core/base/name_list.c - see name_list.h.
 *
 * Items are slices of the text, trimmed on the fly, so nothing is allocated and a list may be read
 * anywhere. Patterns are matched with one saved position, that of the last '*': going further back
 * could not help, so the cost is bounded by the product of both lengths, whatever a client sends as
 * a name.
 */
#include "core/base/name_list.h"

#include <string.h>

static bool is_name_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct name_list_item trim(const char *text, size_t len)
{
    while (len > 0 && is_name_blank(text[len - 1]))
        len--;
    while (len > 0 && is_name_blank(*text)) {
        text++;
        len--;
    }
    return (struct name_list_item){text, len};
}

bool name_list_next(const char **text, struct name_list_item *out)
{
    size_t len;

    if (*text == NULL)
        return false;
    len = strcspn(*text, ",");
    *out = trim(*text, len);
    if ((*text)[len] == '\0') {
        const bool is_empty = out->len == 0;

        *text = NULL;
        return !is_empty;
    }
    *text += len + 1;
    return true;
}

static bool is_listed_name(const struct name_list_item *item)
{
    if (item->len == 0 || item->len > NAME_LIST_MAX_NAME)
        return false;
    for (size_t i = 0; i < item->len; i++)
        if (item->text[i] <= ' ' || item->text[i] >= 0x7f ||
            strchr("=[]\"'`\\", item->text[i]) != NULL)
            return false;
    return true;
}

bool name_list_is_valid(const char *text)
{
    const size_t n = strlen(text);
    struct name_list_item item;

    if (n > NAME_LIST_MAX_TEXT)
        return false;
    if (trim(text, n).len == 0)
        return true;
    for (const char *at = text; at != NULL;) { /* each text between two commas is a name */
        name_list_next(&at, &item);
        if (!is_listed_name(&item))
            return false;
    }
    return true;
}

bool name_list_is_pattern(const struct name_list_item *item)
{
    return memchr(item->text, '*', item->len) != NULL;
}

bool name_list_has(const char *list, const char *name)
{
    const size_t n = strlen(name);
    struct name_list_item item;

    while (name_list_next(&list, &item))
        if (item.len == n && memcmp(item.text, name, n) == 0)
            return true;
    return false;
}

/* Match greedily; on a mismatch go back to the last '*', the only one that can still help. */
static bool is_match(const struct name_list_item *pattern, const char *name)
{
    const char *at = pattern->text, *end = at + pattern->len;
    const char *star = NULL, *resume = NULL;

    while (*name != '\0') {
        if (at < end && *at == '*') {
            star = at++;
            resume = name;
        } else if (at < end && *at == *name) {
            at++;
            name++;
        } else if (star != NULL) {
            at = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (at < end && *at == '*')
        at++;
    return at == end;
}

bool name_list_matches(const char *list, const char *name)
{
    struct name_list_item item;

    while (name_list_next(&list, &item))
        if (name_list_is_pattern(&item) && is_match(&item, name))
            return true;
    return false;
}

bool name_list_untag(const char *name, char out[NAME_LIST_MAX_BARE])
{
    static const char tag[] = ":latest";
    const size_t n = strlen(name), n_tag = sizeof(tag) - 1;

    if (n <= n_tag || n - n_tag >= NAME_LIST_MAX_BARE || strcmp(name + n - n_tag, tag) != 0)
        return false;
    memcpy(out, name, n - n_tag);
    out[n - n_tag] = '\0';
    return true;
}
