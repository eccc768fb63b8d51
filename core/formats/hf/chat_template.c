/* core/formats/hf/chat_template.c - see hf_impl.h. */
#include "core/formats/hf/hf_impl.h"

#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf_folder.h"

#include <string.h>

#define FILE_NAME "chat_template.jinja"
#define MAX_FILE ((size_t)1 << 20) /* the longest in use have 20 KiB */

/* The one called "default" of several. */
static const char *default_of(const cJSON *list)
{
    const cJSON *each;

    cJSON_ArrayForEach(each, list)
    {
        const char *name = hf_text(each, "name");

        if (name != NULL && strcmp(name, "default") == 0)
            return hf_text(each, "template");
    }
    return NULL;
}

static int add_file(struct hf_folder *f)
{
    char *text = mem_calloc(1, MAX_FILE + 2);
    size_t n = MAX_FILE + 1;
    uint64_t size;
    int rc = text != NULL ? hf_read_bytes(f, FILE_NAME, 0, text, &n, &size)
                          : hf_fail(f, ERR_NOMEM, FILE_NAME, "out of memory");

    if (rc == 0 && n > MAX_FILE)
        rc = hf_fail(f, ERR_LIMIT, FILE_NAME, "has more than %zu bytes", MAX_FILE);
    else if (rc == 0 && (!json_is_utf8(text, n) || memchr(text, 0, n) != NULL))
        rc = hf_fail(f, ERR_FORMAT, FILE_NAME, "is not valid UTF-8");
    else if (rc == 0)
        gguf_writer_str(f->w, "tokenizer.chat_template", text);
    mem_free(text);
    return rc == ERR_NOENT ? 0 : rc;
}

int hf_template_add(struct hf_folder *f)
{
    const cJSON *t = hf_member(f->tokenizer_config, "chat_template");
    const char *text = cJSON_IsArray(t) ? default_of(t) : cJSON_GetStringValue(t);

    if (text == NULL)
        return add_file(f);
    gguf_writer_str(f->w, "tokenizer.chat_template", text);
    return 0;
}
