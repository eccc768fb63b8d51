/* config/adapters.c - see adapters.h.
 *
 * adapters_next() reads one item in place and moves the caller's pointer past it; nothing is
 * allocated, so the list can be walked again wherever it is needed. Duplicates are found by walking
 * the rest of the list for each item: lists are short, and are checked once at the start.
 */
#include "config/adapters.h"

#include "core/base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BLANKS " \t"

static size_t trimmed(const char *text, size_t n)
{
    while (n > 0 && strchr(BLANKS, text[n - 1]) != NULL)
        n--;
    return n;
}

static int refuse_adapter_item(const char *item, size_t n, char *err, size_t err_len)
{
    snprintf(
        err, err_len,
        "'adapters' must be NAME=PATH items separated by commas, got '%.*s'; " MODELS_NAME_RULE,
        n < 200 ? (int)n : 200, item);
    return ERR_INVAL;
}

int adapters_next(const char **text, struct model_item *out, char *err, size_t err_len)
{
    const char *item = *text, *path;
    size_t n, n_name, n_path;

    if (item == NULL)
        return 0;
    item += strspn(item, BLANKS);
    n = strcspn(item, ",");
    if (n == 0 && item[0] == '\0') {
        *text = NULL;
        return 0;
    }
    path = memchr(item, '=', n);
    if (path == NULL)
        return refuse_adapter_item(item, n, err, err_len);
    n_name = trimmed(item, (size_t)(path - item));
    path += 1 + strspn(path + 1, BLANKS);
    n_path = path < item + n ? trimmed(path, (size_t)(item + n - path)) : 0;
    if (!models_is_name(item, n_name) || n_path == 0 || n_path > MODELS_MAX_PATH)
        return refuse_adapter_item(item, n, err, err_len);
    snprintf(out->name, sizeof(out->name), "%.*s", (int)n_name, item);
    snprintf(out->path, sizeof(out->path), "%.*s", (int)n_path, path);
    *text = item[n] == ',' ? item + n + 1 : NULL;
    return 1;
}

static bool has_later(const char *text, const char *name)
{
    struct model_item item;
    char err[8];

    while (adapters_next(&text, &item, err, sizeof(err)) > 0)
        if (strcmp(item.name, name) == 0)
            return true;
    return false;
}

int adapters_check(const char *text, char *err, size_t err_len)
{
    struct model_item item;
    int n = 0, rc;

    while ((rc = adapters_next(&text, &item, err, err_len)) > 0) {
        if (++n > ADAPTERS_MAX) {
            snprintf(err, err_len, "'adapters' lists more than %d adapters", ADAPTERS_MAX);
            return ERR_INVAL;
        }
        if (has_later(text, item.name)) {
            snprintf(err, err_len, "'adapters' has two adapters with the name '%s'", item.name);
            return ERR_INVAL;
        }
    }
    return rc < 0 ? rc : n;
}
