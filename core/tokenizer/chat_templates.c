/* core/tokenizer/chat_templates.c - the chat templates of a file, by name; see vocab.h.
 *
 * tokenizer.chat_template is the one called "default", tokenizer.chat_template.NAME another one.
 * The template named "rerank" is not for chats and is kept apart. Templates are copied
 * NUL-terminated and sorted by name; they are parsed elsewhere, by the server.
 */
#include "core/tokenizer/vocab.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "tokenizer.chat_template"
#define MAX_TEMPLATE (1u << 20) /* in bytes; the longest in use have 20 KiB */
#define MAX_TEMPLATES 32        /* files in use have at most 3 */

static char *copy_gguf_text(struct gguf_str s)
{
    char *text = mem_alloc(s.len + 1);

    if (text == NULL)
        return NULL;
    memcpy(text, s.data, s.len);
    text[s.len] = '\0';
    return text;
}

static int read_template(const struct gguf *g, const char *key, char **out, char *err,
                         size_t err_len)
{
    struct gguf_str s;
    const int rc = gguf_get_str(g, key, &s, err, err_len);

    if (rc != 0)
        return rc;
    if (s.len > MAX_TEMPLATE || memchr(s.data, '\0', s.len) != NULL)
        return text_fail(g, ERR_FORMAT, err, err_len,
                         "%s has a NUL byte or is longer than %u bytes", key, MAX_TEMPLATE);
    *out = copy_gguf_text(s);
    return *out != NULL ? 0 : text_fail(g, ERR_NOMEM, err, err_len, "no memory for %s", key);
}

/* True: the key is that of a chat template; *name is its name, or "default" if the key has none. */
static bool names_template(struct gguf_str key, struct gguf_str *name)
{
    const size_t n = strlen(KEY);

    if (key.len < n || memcmp(key.data, KEY, n) != 0)
        return false;
    *name = (struct gguf_str){"default", 7};
    if (key.len > n + 1 && key.data[n] == '.')
        *name = (struct gguf_str){key.data + n + 1, key.len - n - 1};
    else if (key.len > n)
        return false;
    return name->len != 6 || memcmp(name->data, "rerank", 6) != 0;
}

static int add_named_template(struct vocab *v, const struct gguf *g, struct gguf_str key,
                              struct gguf_str name, char *err, size_t err_len)
{
    struct chat_template *t = &v->chat_templates[v->n_chat_templates];
    char text[GGUF_MAX_NAME];

    if (v->n_chat_templates == MAX_TEMPLATES)
        return text_fail(g, ERR_LIMIT, err, err_len, "there are more than %d chat templates",
                         MAX_TEMPLATES);
    v->n_chat_templates++; /* counted first, so that vocab_release_templates() frees it after an
                            * error */
    snprintf(text, sizeof(text), "%.*s", (int)key.len, key.data);
    t->name = copy_gguf_text(name);
    if (t->name == NULL)
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for %s", text);
    return read_template(g, text, &t->text, err, err_len);
}

static int compare_templates(const void *a, const void *b)
{
    return strcmp(((const struct chat_template *)a)->name, ((const struct chat_template *)b)->name);
}

int vocab_load_templates(struct vocab *v, const struct gguf *g, char *err, size_t err_len)
{
    int rc = read_template(g, KEY ".rerank", &v->rerank_template, err, err_len);

    if (rc != 0 && rc != ERR_NOENT)
        return rc;
    v->chat_templates = mem_calloc(MAX_TEMPLATES, sizeof(*v->chat_templates));
    if (v->chat_templates == NULL)
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for the chat templates");
    rc = 0;
    for (uint64_t i = 0; rc == 0 && i < gguf_n_kv(g); i++) {
        const struct gguf_str key = gguf_kv_at(g, i)->key;
        struct gguf_str name;

        if (names_template(key, &name))
            rc = add_named_template(v, g, key, name, err, err_len);
    }
    if (rc == 0)
        qsort(v->chat_templates, v->n_chat_templates, sizeof(*v->chat_templates),
              compare_templates);
    return rc;
}

void vocab_release_templates(struct vocab *v)
{
    for (size_t i = 0; i < v->n_chat_templates; i++) {
        mem_free(v->chat_templates[i].name);
        mem_free(v->chat_templates[i].text);
    }
    mem_free(v->chat_templates);
    mem_free(v->rerank_template);
}
