/* core/formats/model_folder.c - see model_folder.h.
 *
 * One pass over the directory counts the models: every .gguf that is not a later part of a split
 * one, and config.json for a transformers folder. Names are collected as they are found, so that
 * with several models the sentence can list them and the user name one.
 */
#include "core/formats/model_folder.h"

#include "core/base/buf.h"
#include "core/base/err.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_LISTED 1024 /* bytes of the names in the sentence */

struct found {
    unsigned n;
    bool is_hf;
    char name[256];    /* name of the last model found */
    struct buf listed; /* names of all models, as many as fit */
};

bool model_folder_is(const char *path)
{
    struct stat st;

    return path[0] != '\0' && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* True: the name is of part 2 or later of a split model; only its first part counts. */
static bool is_later_part(const char *name)
{
    const size_t len = strlen(name);
    unsigned no, count;
    int end = 0;

    return len > 20 && sscanf(name + len - 20, "-%5u-of-%5u.gguf%n", &no, &count, &end) == 2 &&
           end == 20 && no > 1;
}

static void add_found(struct found *found, const char *name, bool is_hf)
{
    buf_printf(&found->listed, "%s%s", found->n > 0 ? ", " : "", name);
    snprintf(found->name, sizeof(found->name), "%s", name);
    found->is_hf = is_hf;
    found->n++;
}

static void consider(struct found *found, const char *name)
{
    const size_t len = strlen(name);

    if (strcmp(name, "config.json") == 0)
        add_found(found, "config.json with safetensors", true);
    else if (len > 5 && strcmp(name + len - 5, ".gguf") == 0 && name[0] != '.' &&
             !is_later_part(name))
        add_found(found, name, false);
}

static int list(struct found *found, const char *folder, char *err, size_t err_len)
{
    DIR *d = opendir(folder);
    const struct dirent *e;

    if (d == NULL) {
        snprintf(err, err_len, "%s: cannot open: %s", folder, strerror(errno));
        return ERR_IO;
    }
    while ((e = readdir(d)) != NULL)
        consider(found, e->d_name);
    closedir(d);
    return 0;
}

static int choose_file(const struct found *found, const char *folder, int len,
                       char path[MODEL_FOLDER_MAX_PATH], char *err, size_t err_len)
{
    int n;

    if (found->n == 0) {
        snprintf(err, err_len,
                 "%.*s: the folder contains no model (neither a .gguf file nor config.json)", len,
                 folder);
        return ERR_NOENT;
    }
    if (found->n > 1) {
        snprintf(err, err_len,
                 "%.*s: the folder contains %u models; give the path of one of them ('model' may "
                 "list several, separated by commas): %s%s",
                 len, folder, found->n, found->listed.data, found->listed.err != 0 ? ", ..." : "");
        return ERR_INVAL;
    }
    n = found->is_hf ? snprintf(path, MODEL_FOLDER_MAX_PATH, "%.*s", len, folder)
                     : snprintf(path, MODEL_FOLDER_MAX_PATH, "%.*s/%s", len, folder, found->name);
    if (n >= 0 && n < MODEL_FOLDER_MAX_PATH)
        return 0;
    snprintf(err, err_len, "%.200s...: the path is too long", folder);
    return ERR_LIMIT;
}

int model_folder_find(const char *folder, char path[MODEL_FOLDER_MAX_PATH], bool *is_hf, char *err,
                      size_t err_len)
{
    struct found found = {0};
    size_t len = strlen(folder);
    int rc;

    while (len > 1 && folder[len - 1] == '/')
        len--;
    buf_init(&found.listed, MAX_LISTED);
    rc = list(&found, folder, err, err_len);
    if (rc == 0)
        rc = choose_file(&found, folder, (int)len, path, err, err_len);
    *is_hf = found.is_hf;
    buf_release(&found.listed);
    return rc;
}
