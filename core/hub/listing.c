/* core/hub/listing.c - see listing.h.
 *
 * Entries are checked when they are added, so that every later function may use a path as it is:
 * relative, without "..", at most HUB_MAX_DEPTH folders. The array grows by doubling, is sorted
 * once, and is searched from the front, since a listing is searched a few times only.
 */
#include "core/hub/listing.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/hub/reference.h"
#include "core/json/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_hash(const char *text)
{
    const size_t n = strspn(text, "0123456789abcdef");

    return (n == 40 || n == 64) && text[n] == '\0';
}

static int grow_listing(struct hub_listing *l)
{
    const size_t room = l->room > 0 ? 2 * l->room : 64;
    struct hub_file *files;

    if (l->n < l->room)
        return 0;
    files = mem_realloc(l->files, room * sizeof(*files));
    if (files == NULL)
        return ERR_NOMEM;
    l->files = files;
    l->room = room;
    return 0;
}

int hub_listing_add(struct hub_listing *l, const char *path, uint64_t size, const char *hash,
                    char *err, size_t err_len)
{
    struct hub_file *f;
    char shown[120];

    if (!hub_path_is_safe(path))
        return hub_fail(ERR_FORMAT, err, err_len,
                        "the listing of the repository has an unsafe path: '%s'",
                        hub_printable(shown, sizeof(shown), path));
    if (l->n == HUB_MAX_FILES)
        return hub_fail(ERR_LIMIT, err, err_len, "the repository has more than %d files",
                        HUB_MAX_FILES);
    if (size > HUB_MAX_FILE_BYTES || (hash[0] != '\0' && !is_hash(hash)))
        return hub_fail(ERR_FORMAT, err, err_len,
                        "the listing of the repository has no size or no hash for '%s'",
                        hub_printable(shown, sizeof(shown), path));
    if (grow_listing(l) < 0)
        return hub_fail(ERR_NOMEM, err, err_len, "no memory for the listing of the repository");
    f = &l->files[l->n];
    memset(f, 0, sizeof(*f));
    f->path = mem_strdup(path);
    if (f->path == NULL)
        return hub_fail(ERR_NOMEM, err, err_len, "no memory for the listing of the repository");
    f->size = size;
    memcpy(f->hash, hash, strlen(hash));
    l->n++;
    return 0;
}

static const char *listed_text(const cJSON *o, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));

    return text != NULL ? text : "";
}

/* Return the size, or UINT64_MAX: it is not a whole number. */
static uint64_t size_of(const cJSON *o)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(o, "size");
    const double v = cJSON_IsNumber(m) ? m->valuedouble : -1.0;

    return v >= 0 && v <= (double)HUB_MAX_FILE_BYTES && v == floor(v) ? (uint64_t)v : UINT64_MAX;
}

/* Add an entry of a page. A file in git's large file storage has its size and hash in `lfs`; the
 * outer size and hash are those of its pointer file in git. Entries of folders are skipped. */
static int add_entry(struct hub_listing *l, const cJSON *entry, char *err, size_t err_len)
{
    const cJSON *lfs = cJSON_GetObjectItemCaseSensitive(entry, "lfs");
    const cJSON *from = cJSON_IsObject(lfs) ? lfs : entry;
    const char *hash = listed_text(from, "oid");

    if (!cJSON_IsObject(entry))
        return hub_fail(ERR_FORMAT, err, err_len,
                        "the listing of the repository has an entry that is not an object");
    if (strcmp(listed_text(entry, "type"), "file") != 0)
        return 0;
    return hub_listing_add(l, listed_text(entry, "path"), size_of(from),
                           hash[0] != '\0' ? hash : "?", err, err_len);
}

int hub_listing_add_page(struct hub_listing *l, const char *json, size_t n, char *err,
                         size_t err_len)
{
    const cJSON *entry;
    const char *why = "";
    cJSON *page;
    int rc = json_parse(json, n, &page, &why);

    if (rc < 0)
        return hub_fail(ERR_FORMAT, err, err_len, "the listing of the repository: %s", why);
    if (!cJSON_IsArray(page))
        rc = hub_fail(ERR_FORMAT, err, err_len, "the listing of the repository is not a JSON list");
    for (entry = page->child; rc == 0 && entry != NULL; entry = entry->next)
        rc = add_entry(l, entry, err, err_len);
    cJSON_Delete(page);
    return rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct hub_file *)a)->path, ((const struct hub_file *)b)->path);
}

void hub_listing_sort(struct hub_listing *l)
{
    if (l->n > 0)
        qsort(l->files, l->n, sizeof(*l->files), by_path);
}

struct hub_file *hub_listing_find(const struct hub_listing *l, const char *path)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->files[i].path, path) == 0)
            return &l->files[i];
    return NULL;
}

void hub_listing_release(struct hub_listing *l)
{
    for (size_t i = 0; i < l->n; i++)
        mem_free(l->files[i].path);
    mem_free(l->files);
    *l = (struct hub_listing){0};
}
