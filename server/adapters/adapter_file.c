/* server/adapters/adapter_file.c - see adapter_file.h.
 *
 * The kind of the path decides among three formats: a file is GGUF; a folder with
 * adapter_config.json is PEFT's, converted while it is opened; any other folder must have one GGUF
 * file. A client's path is resolved with realpath() and compared with the resolved folder, so that
 * no link leads outside.
 */
#include "server/adapters/adapter_file.h"

#include "core/formats/gguf/gguf.h"
#include "core/formats/hf/peft.h"
#include "core/formats/model_folder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(ADAPTER_FILE_MAX_PATH >= PATH_MAX, "realpath() writes so much");

static bool is_peft(const char *folder)
{
    char path[ADAPTER_FILE_MAX_PATH + sizeof(PEFT_CONFIG) + 1];

    snprintf(path, sizeof(path), "%s/%s", folder, PEFT_CONFIG);
    return access(path, F_OK) == 0;
}

int adapter_file_open(struct gguf **out, const char *path, char *err, size_t err_len)
{
    char file[MODEL_FOLDER_MAX_PATH];
    bool is_hf;
    int rc;

    *out = NULL;
    if (!model_folder_is(path))
        return gguf_open(out, path, err, err_len);
    if (is_peft(path))
        return peft_open(out, path, err, err_len);
    rc = model_folder_find(path, file, &is_hf, err, err_len);
    return rc == 0 ? gguf_open(out, file, err, err_len) : rc;
}

bool adapter_file_find(const char *folder, const char *path, char found[ADAPTER_FILE_MAX_PATH])
{
    char root[ADAPTER_FILE_MAX_PATH], wanted[2 * ADAPTER_FILE_MAX_PATH + 2];
    size_t n;

    if (realpath(folder, root) == NULL || strlen(path) >= ADAPTER_FILE_MAX_PATH)
        return false;
    n = strlen(root);
    if (path[0] == '/')
        snprintf(wanted, sizeof(wanted), "%s", path);
    else
        snprintf(wanted, sizeof(wanted), "%s/%s", root, path);
    return realpath(wanted, found) != NULL && strncmp(found, root, n) == 0 &&
           (found[n] == '/' || (n == 1 && root[0] == '/'));
}
