/* server/infill.c - see infill.h. */
#include "server/infill.h"

#include <string.h>

struct writer { /* the first error stays */
    const struct tokenizer *t;
    struct token_list *out;
    size_t max;
    int rc;
};

static void add_token(struct writer *w, int32_t id)
{
    if (w->rc == 0 && id != TOKEN_NONE)
        w->rc = token_list_add(w->out, id, w->max);
}

static void add_text(struct writer *w, const char *text)
{
    if (w->rc == 0)
        w->rc = tokenizer_encode(w->t, text, strlen(text), 0, w->max, w->out);
}

/* A string, or ids. */
static void add_prompt(struct writer *w, const cJSON *v)
{
    if (cJSON_IsString(v)) {
        add_text(w, v->valuestring);
        return;
    }
    for (const cJSON *it = v->child; it != NULL; it = it->next)
        add_token(w, (int32_t)it->valuedouble);
}

bool infill_is_known(const struct tokenizer *t)
{
    const struct infill_tokens *gap = tokenizer_infill(t);

    return gap->prefix != TOKEN_NONE && gap->suffix != TOKEN_NONE && gap->middle != TOKEN_NONE;
}

int infill_encode(const struct tokenizer *t, const struct infill_wish *wish, const cJSON *prompt,
                  size_t max, struct token_list *out)
{
    const struct infill_tokens *gap = tokenizer_infill(t);
    struct writer w = {.t = t, .out = out, .max = max};

    if (tokenizer_adds_bos(t))
        add_token(&w, tokenizer_bos(t));
    add_token(&w, gap->prefix);
    add_prompt(&w, prompt);
    add_token(&w, gap->suffix);
    add_text(&w, wish->suffix);
    add_token(&w, gap->middle);
    return w.rc;
}
