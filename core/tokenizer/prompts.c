/* core/tokenizer/prompts.c - texts that a model wants before its inputs, by name; see vocab.h.
 *
 * sentence-transformers saves them beside an embedding model ("query": "query: "). The keys are
 * Quire's own: two lists, of names and of texts in the same order. Names and texts come from
 * outside: they have a limit, and no NUL bytes.
 */
#include "core/tokenizer/vocab.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/tokenizer.h"

#include <string.h>

#define KEY_NAMES "tokenizer.prompt_names"
#define KEY_TEXTS "tokenizer.prompt_texts"
#define MAX_PROMPTS 256
#define MAX_PROMPT_TEXT 4096 /* bytes of a name or text */

static int copy_prompt_text(struct vocab *v, const struct gguf *g, struct gguf_str s, char **out,
                            char *err, size_t err_len)
{
    if (s.len > MAX_PROMPT_TEXT || memchr(s.data, '\0', s.len) != NULL)
        return text_fail(g, ERR_FORMAT, err, err_len,
                         "prompt %zu has a NUL byte or is longer than %d bytes", v->n_prompts,
                         MAX_PROMPT_TEXT);
    *out = mem_calloc(s.len + 1, 1);
    if (*out == NULL)
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for the prompts");
    memcpy(*out, s.data, s.len);
    return 0;
}

int vocab_load_prompts(struct vocab *v, const struct gguf *g, char *err, size_t err_len)
{
    const struct gguf_kv *names, *texts;
    int rc = gguf_get_array(g, KEY_NAMES, GGUF_STRING, &names, err, err_len);

    if (rc != 0)
        return rc == ERR_NOENT ? 0 : rc;
    rc = gguf_get_array(g, KEY_TEXTS, GGUF_STRING, &texts, err, err_len);
    if (rc != 0 || texts->count != names->count || names->count > MAX_PROMPTS)
        return text_fail(g, ERR_FORMAT, err, err_len,
                         KEY_NAMES " and " KEY_TEXTS " are not lists of the same length, at most "
                                   "%d",
                         MAX_PROMPTS);
    v->prompts = mem_calloc(names->count + 1, sizeof(*v->prompts));
    if (v->prompts == NULL)
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for the prompts");
    for (uint64_t i = 0; i < names->count && rc == 0; i++) {
        struct text_prompt *p = &v->prompts[v->n_prompts++]; /* counted first, so that it is freed
                                                              * after an error */

        rc = copy_prompt_text(v, g, gguf_array_str(names, i), &p->name, err, err_len);
        if (rc == 0)
            rc = copy_prompt_text(v, g, gguf_array_str(texts, i), &p->text, err, err_len);
    }
    return rc;
}

void vocab_release_prompts(struct vocab *v)
{
    for (size_t i = 0; i < v->n_prompts; i++) {
        mem_free(v->prompts[i].name);
        mem_free(v->prompts[i].text);
    }
    mem_free(v->prompts);
}
