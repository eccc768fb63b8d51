/* config/models.c - see models.h.
 *
 * The setting stays one text; models_next() reads an item in place, and models_get() and
 * models_find() walk the list from its start, which is fast enough for 128 items. An item is
 * NAME=PATH unless what precedes its first '=' begins like a path, and a name that is not given is
 * made from the path.
 */
#include "config/models.h"

#include "core/base/err.h"
#include "core/base/file_stem.h"
#include "core/base/fixed_text.h"
#include "core/hub/reference.h"

#include <stdio.h>
#include <string.h>

struct span {
    const char *text;
    size_t len;
};

static bool is_list_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct span trim(const char *text, size_t len)
{
    while (len > 0 && is_list_blank(text[len - 1]))
        len--;
    while (len > 0 && is_list_blank(*text)) {
        text++;
        len--;
    }
    return (struct span){text, len};
}

/* True: the text begins like a path (/a/b, ./b, ../b, ~/b, hf:OWNER/NAME). A name with slashes does
 * not. */
static bool begins_path(const char *text, size_t len)
{
    static const char *const heads[] = {"/", "./", "../", "~/", "hf:"};

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        if (len >= strlen(heads[i]) && memcmp(text, heads[i], strlen(heads[i])) == 0)
            return true;
    return false;
}

/* Names appear in URLs, metrics, logs and section heads, so their characters are restricted. */
bool models_is_name(const char *name, size_t len)
{
    if (len == 0 || len > MODELS_MAX_NAME)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (name[i] <= ' ' || name[i] >= 0x7f || strchr(",=[]\"'`\\", name[i]) != NULL)
            return false;
        if (name[i] == '/' && (i == 0 || i + 1 == len || name[i - 1] == '/'))
            return false;
    }
    return !begins_path(name, len);
}

/* Return the '=' that ends the item's name, or NULL: the item is a path. */
static const char *end_of_name(struct span item)
{
    const char *eq = memchr(item.text, '=', item.len);

    return eq != NULL && !begins_path(item.text, (size_t)(eq - item.text)) ? eq : NULL;
}

/* Return how many bytes of an item an error sentence shows. */
static int shown(struct span item)
{
    return item.len < 200 ? (int)item.len : 200;
}

static int take_name(struct model_item *out, struct span name, struct span item, char *err,
                     size_t err_len)
{
    if (!models_is_name(name.text, name.len)) {
        snprintf(err, err_len,
                 "'model': '%.*s' has no valid name before the '=': " MODELS_NAME_RULE
                 "; a path with a '=' begins with ./",
                 shown(item), item.text);
        return ERR_INVAL;
    }
    memcpy(out->name, name.text, name.len);
    out->name[name.len] = '\0';
    return 0;
}

static void name_after_path(struct model_item *out)
{
    const char *stem;
    const size_t len = hub_reference_is(out->path) ? hub_reference_name(out->path, &stem)
                                                   : file_stem(out->path, &stem);

    snprintf(out->name, sizeof(out->name), "%.*s", len > 0 ? (int)len : (int)strlen(MODELS_DEMO),
             len > 0 ? stem : MODELS_DEMO);
}

static int take_item(struct model_item *out, struct span item, char *err, size_t err_len)
{
    const char *eq = end_of_name(item);
    struct span path = item;
    int rc = 0;

    if (eq != NULL) {
        rc = take_name(out, trim(item.text, (size_t)(eq - item.text)), item, err, err_len);
        path = trim(eq + 1, item.len - (size_t)(eq + 1 - item.text));
    }
    if (rc < 0)
        return rc;
    if (path.len > MODELS_MAX_PATH) {
        snprintf(err, err_len, "'model': a path may have at most %d bytes, not %zu: '%.*s...'",
                 MODELS_MAX_PATH, path.len, shown(path), path.text);
        return ERR_INVAL;
    }
    memcpy(out->path, path.text, path.len);
    out->path[path.len] = '\0';
    if (eq == NULL)
        name_after_path(out);
    return 0;
}

/* True: the item is empty by mistake. "" alone is the demo model, but an empty item next to a comma
 * is an error. */
static bool is_slip(struct span item, const char *end)
{
    return *end == ',' && (item.len == 0 || trim(end + 1, strlen(end + 1)).len == 0);
}

int models_next(const char **text, struct model_item *out, char *err, size_t err_len)
{
    const char *start = *text, *end;
    struct span item;
    int rc;

    if (start == NULL)
        return 0;
    end = start + strcspn(start, ",");
    item = trim(start, (size_t)(end - start));
    if (is_slip(item, end)) {
        snprintf(err, err_len,
                 "'model' has an empty item: models are PATH or NAME=PATH separated by commas, got "
                 "'%.200s'",
                 start);
        return ERR_INVAL;
    }
    rc = take_item(out, item, err, err_len);
    if (rc < 0)
        return rc;
    *text = *end == ',' ? end + 1 : NULL;
    return 1;
}

int models_find(const char *text, const char *name)
{
    struct model_item item;
    char err[8];
    int i = 0;

    while (models_next(&text, &item, err, sizeof(err)) > 0) {
        if (strcmp(item.name, name) == 0)
            return i;
        i++;
    }
    return -1;
}

int models_check(const char *text, char *err, size_t err_len)
{
    struct model_item item;
    int n = 0, rc;

    while ((rc = models_next(&text, &item, err, err_len)) > 0) {
        if (++n > MODELS_MAX) {
            snprintf(err, err_len, "'model' lists more than %d models", MODELS_MAX);
            return ERR_INVAL;
        }
        if (models_find(text, item.name) >= 0) {
            snprintf(err, err_len,
                     "'model' has two models with the name '%s': give one of them another name "
                     "with NAME=PATH",
                     item.name);
            return ERR_INVAL;
        }
    }
    return rc < 0 ? rc : n;
}

void models_get(const char *text, uint32_t i, struct model_item *out)
{
    char err[8];

    for (uint32_t k = 0; k <= i; k++)
        if (models_next(&text, out, err, sizeof(err)) <= 0)
            return;
}

void models_names(const char *text, char *out, size_t size)
{
    struct fixed_text names;
    struct model_item item;
    char err[8];

    fixed_text_init(&names, out, size);
    while (models_next(&text, &item, err, sizeof(err)) > 0)
        if (!fixed_text_add(&names, "%s%s", names.len > 0 ? ", " : "", item.name))
            return;
}

/* A name that was made from a path may have any characters; it is left out, and made again from the
 * same path. */
void models_text(const struct model_item *item, char out[MODELS_MAX_TEXT])
{
    if (item->path[0] == '\0' && strcmp(item->name, MODELS_DEMO) == 0)
        out[0] = '\0';
    else if (models_is_name(item->name, strlen(item->name)))
        snprintf(out, MODELS_MAX_TEXT, "%s=%s", item->name, item->path);
    else
        snprintf(out, MODELS_MAX_TEXT, "%s", item->path);
}
