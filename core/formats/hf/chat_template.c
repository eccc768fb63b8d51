/* core/formats/hf/chat_template.c - chat templates of a folder as GGUF keys; see hf_impl.h.
 *
 * Read as transformers does: chat_template.jinja is the template called "default",
 * additional_chat_templates/NAME.jinja another one. Without these files, "chat_template" of
 * tokenizer_config.json is a template, or a list of {"name": …, "template": …}.
 */
#include "core/formats/hf/hf_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf_folder.h"
#include "core/json/json.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "chat_template.jinja"
#define FOLDER "additional_chat_templates"
#define END ".jinja"
#define KEY "tokenizer.chat_template"
#define MAX_FILE ((size_t)1 << 20) /* the longest in use have 20 KiB */
#define MAX_NAME 64
#define MAX_FILES 32

/* True: the name has only letters, digits, - and _, as keys of GGUF files need. */
static bool is_template_name(const char *name, size_t n)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_";

    return n > 0 && n <= MAX_NAME && strspn(name, letters) >= n;
}

static int add_template(struct hf_folder *f, const char *file, const char *name, const char *text)
{
    char key[sizeof(KEY) + MAX_NAME + 1], shown[MAX_NAME];

    if (strcmp(name, "default") == 0)
        snprintf(key, sizeof(key), KEY);
    else if (is_template_name(name, strlen(name)))
        snprintf(key, sizeof(key), KEY ".%s", name);
    else
        return hf_fail(f, ERR_UNSUPPORTED, file,
                       "the name of a chat template is '%s': 1 to %d letters, digits, - and _ are "
                       "supported",
                       hf_printable(shown, sizeof(shown), name), MAX_NAME);
    gguf_writer_str(f->w, key, text);
    return 0;
}

/* Add a file's template. ERR_NOENT: there is no such file. */
static int add_file(struct hf_folder *f, const char *file, const char *name)
{
    char *text = mem_calloc(1, MAX_FILE + 2);
    size_t n = MAX_FILE + 1;
    uint64_t size;
    int rc = text != NULL ? hf_read_bytes(f, file, 0, text, &n, &size)
                          : hf_fail(f, ERR_NOMEM, file, "out of memory");

    if (rc == 0 && n > MAX_FILE)
        rc = hf_fail(f, ERR_LIMIT, file, "has more than %zu bytes", MAX_FILE);
    else if (rc == 0 && (!json_is_utf8(text, n) || memchr(text, 0, n) != NULL))
        rc = hf_fail(f, ERR_FORMAT, file, "is not valid UTF-8");
    else if (rc == 0)
        rc = add_template(f, file, name, text);
    mem_free(text);
    return rc;
}

/* ---- files ---- */

/* Return the bytes of the name before ".jinja", or 0: the file is not a template. */
static size_t name_len(const char *file)
{
    const size_t n = strlen(file), end = strlen(END);

    return n > end && strcmp(file + n - end, END) == 0 && file[0] != '.' ? n - end : 0;
}

static int add_named_file(struct hf_folder *f, const char *file)
{
    char path[sizeof(FOLDER) + NAME_MAX + 2], name[NAME_MAX + 1];

    snprintf(path, sizeof(path), FOLDER "/%s", file);
    snprintf(name, sizeof(name), "%.*s", (int)name_len(file), file);
    return add_file(f, path, name);
}

static int add_folder(struct hf_folder *f, uint32_t *n)
{
    char path[HF_MAX_PATH];
    const struct dirent *e;
    DIR *d;
    int rc = hf_path(f, FOLDER, path);

    *n = 0;
    d = rc == 0 ? opendir(path) : NULL;
    if (rc == 0 && d == NULL && errno != ENOENT)
        rc = hf_fail(f, ERR_IO, FOLDER, "cannot open: %s", strerror(errno));
    while (rc == 0 && d != NULL && (e = readdir(d)) != NULL) {
        if (name_len(e->d_name) == 0)
            continue;
        if (++*n > MAX_FILES)
            rc = hf_fail(f, ERR_LIMIT, FOLDER, "there are more than %d chat templates", MAX_FILES);
        else
            rc = add_named_file(f, e->d_name);
    }
    if (d != NULL)
        closedir(d);
    return rc;
}

/* ---- tokenizer_config.json ---- */

static int add_template_list(struct hf_folder *f, const cJSON *list)
{
    const cJSON *each;
    int rc = 0;

    cJSON_ArrayForEach(each, list)
    {
        const char *name = hf_text(each, "name"), *text = hf_text(each, "template");

        if (name == NULL || text == NULL)
            return hf_fail(f, ERR_FORMAT, HF_TOKENIZER_CONFIG,
                           "an element of 'chat_template' has no 'name' or no 'template'");
        rc = add_template(f, HF_TOKENIZER_CONFIG, name, text);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int hf_template_add(struct hf_folder *f)
{
    const cJSON *t = hf_member(f->tokenizer_config, "chat_template");
    int rc = add_file(f, FILE_NAME, "default");
    const bool has_file = rc == 0;
    uint32_t n = 0;

    if (rc == 0 || rc == ERR_NOENT)
        rc = add_folder(f, &n);
    if (rc < 0 || has_file || n > 0)
        return rc;
    if (cJSON_IsArray(t))
        return add_template_list(f, t);
    return cJSON_IsString(t) ? add_template(f, HF_TOKENIZER_CONFIG, "default", t->valuestring) : 0;
}
