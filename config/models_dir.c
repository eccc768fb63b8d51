/* config/models_dir.c - see models_dir.h.
 *
 * scandir() returns the names sorted, so the order of models does not depend on the file system. An
 * entry is judged by its name and by a look into a folder, no file is opened: a folder with many
 * models costs little at the start. Unusable paths are skipped, because one stray file must not
 * stop the server.
 */
#include "config/models_dir.h"

#include "config/models.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Return the length of a folder's path without slashes at its end. */
static size_t folder_len(const char *folder)
{
    size_t n = strlen(folder);

    while (n > 1 && folder[n - 1] == '/')
        n--;
    return n;
}

bool models_dir_has(const char *folder, const char *path)
{
    const size_t n = folder_len(folder);

    return n > 0 && strncmp(path, folder, n) == 0 && path[n] == '/' &&
           strchr(path + n + 1, '/') == NULL;
}

/* True: the file is a part of a split model, but not its first. */
static bool is_later_part(const char *name, size_t len)
{
    unsigned no, count;
    int end = 0;

    return len > 20 && sscanf(name + len - 20, "-%5u-of-%5u.gguf%n", &no, &count, &end) == 2 &&
           end == 20 && no != 1;
}

static bool is_gguf(const char *name)
{
    const size_t len = strlen(name);

    return name[0] != '.' && len > 5 && strcmp(name + len - 5, ".gguf") == 0 &&
           strncmp(name, "mmproj", 6) != 0 && !is_later_part(name, len);
}

static bool holds_model(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;
    bool found = false;

    while (d != NULL && !found && (e = readdir(d)) != NULL)
        found = is_gguf(e->d_name) || strcmp(e->d_name, "config.json") == 0;
    if (d != NULL)
        closedir(d);
    return found;
}

static bool is_model(const char *path, const char *name)
{
    struct stat st;

    if (name[0] == '.' || stat(path, &st) != 0)
        return false;
    return S_ISDIR(st.st_mode) ? holds_model(path) : S_ISREG(st.st_mode) && is_gguf(name);
}

/* Append a path to the list, unless the list cannot hold it or has its name already. */
static void add_model_path(const char *path, struct buf *list)
{
    const char *text = path;
    struct model_item item;
    char err[8];

    if (strchr(path, ',') != NULL || models_next(&text, &item, err, sizeof(err)) <= 0 ||
        (list->len > 0 && models_find(list->data, item.name) >= 0))
        return;
    buf_printf(list, "%s%s", list->len > 0 ? "," : "", path);
}

static void consider(const char *folder, const char *name, struct buf *list)
{
    char path[MODELS_MAX_PATH + 1];
    const int n = snprintf(path, sizeof(path), "%.*s/%s", (int)folder_len(folder), folder, name);

    if (n < (int)sizeof(path) && is_model(path, name))
        add_model_path(path, list);
}

int models_dir_add(const char *folder, struct buf *list, char *err, size_t err_len)
{
    struct dirent **names;
    const int n = scandir(folder, &names, NULL, alphasort);

    if (n < 0) {
        snprintf(err, err_len, "cannot read 'models_dir' '%.300s': %s", folder, strerror(errno));
        return ERR_INVAL;
    }
    for (int i = 0; i < n; i++) {
        consider(folder, names[i]->d_name, list);
        mem_free(names[i]);
    }
    mem_free(names);
    if (list->err == 0)
        return 0;
    snprintf(err, err_len, "'models_dir' '%.300s' contains too many models", folder);
    return list->err;
}
