/* server/api/infill.c - see infill.h.
 *
 * The prompt is written from front to back into one list of tokens. The writer keeps the first
 * error, so no step has to check the one before it. A mark that the vocabulary lacks (TOKEN_NONE)
 * is left out; infill_is_known() checks the three that every prompt needs.
 */
#include "server/api/infill.h"

#include "core/base/buf.h"
#include "server/api/params/field.h"

#include <string.h>

struct writer { /* keeps the first error */
    const struct tokenizer *t;
    struct token_list *out;
    size_t max;
    struct budget *budget;
    int rc;
};

static void add_token(struct writer *w, int32_t id)
{
    if (w->rc == 0 && id != TOKEN_NONE)
        w->rc = token_list_add(w->out, id, w->max);
}

static void add_infill_text(struct writer *w, const char *text)
{
    if (w->rc == 0)
        w->rc = tokenizer_encode(w->t, text, strlen(text), 0, w->max, w->budget, w->out);
}

/* Begin a file's text, if the model has a token for files: the mark, and a name on a line of its
 * own. */
static void add_file_name(struct writer *w, int32_t mark, const char *name)
{
    struct buf line;

    if (mark == TOKEN_NONE)
        return;
    add_token(w, mark);
    buf_init(&line, SIZE_MAX);
    buf_printf(&line, "%s\n", name);
    if (line.err == 0)
        add_infill_text(w, line.data);
    else
        w->rc = line.err;
    buf_release(&line);
}

/* Add the other files. A file without a name gets one, and so do the repository and the file with
 * the gap, because the request does not name them. */
static void add_files(struct writer *w, const struct infill_tokens *gap, const cJSON *files)
{
    if (files == NULL || files->child == NULL)
        return;
    add_file_name(w, gap->repository, "project");
    for (const cJSON *it = files->child; it != NULL; it = it->next) {
        const cJSON *name = field_find(it, "filename");

        if (gap->file == TOKEN_NONE)
            add_infill_text(w, "\n\n--- snippet ---\n\n");
        add_file_name(w, gap->file, name != NULL ? name->valuestring : "file");
        add_infill_text(w, field_find(it, "text")->valuestring);
    }
    add_file_name(w, gap->file, "current");
}

/* Add a prompt that is a string or ids. */
static void add_infill_prompt(struct writer *w, const cJSON *v)
{
    if (cJSON_IsString(v)) {
        add_infill_text(w, v->valuestring);
        return;
    }
    for (const cJSON *it = v != NULL ? v->child : NULL; it != NULL; it = it->next)
        add_token(w, (int32_t)it->valuedouble);
}

bool infill_is_known(const struct tokenizer *t)
{
    const struct infill_tokens *gap = tokenizer_infill(t);

    return gap->prefix != TOKEN_NONE && gap->suffix != TOKEN_NONE && gap->middle != TOKEN_NONE;
}

int infill_encode(const struct tokenizer *t, const struct infill_spec *spec, const cJSON *prompt,
                  size_t max, struct budget *budget, struct token_list *out)
{
    const struct infill_tokens *gap = tokenizer_infill(t);
    struct writer w = {.t = t, .out = out, .max = max, .budget = budget};

    if (tokenizer_adds_bos(t))
        add_token(&w, tokenizer_bos(t));
    add_files(&w, gap, spec->extra);
    add_token(&w, gap->prefix);
    if (spec->prefix != NULL)
        add_infill_text(&w, spec->prefix);
    add_infill_prompt(&w, prompt);
    add_token(&w, gap->suffix);
    add_infill_text(&w, spec->suffix);
    add_token(&w, gap->middle);
    return w.rc;
}
