/* server/api/params/params_cohere.c - the fields of Cohere's /v2/embed.
 *
 * A body has `texts`, or `inputs`, whose contents are parts; the parts of an input are joined into
 * one text. Lengths are tokens with the special tokens that the tokenizer adds.
 * https://docs.cohere.com/reference/embed
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "core/tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

#define MAX_PRIORITY 999

struct cohere_name {
    const char *name;
    unsigned value;
};

/* Find the value of the name; `names` ends with one that is NULL. False: there is none. */
static bool find_cohere_name(const struct cohere_name *names, const cJSON *v, unsigned *value)
{
    const char *name = cJSON_GetStringValue(v);

    for (; name != NULL && names->name != NULL; names++)
        if (strcmp(names->name, name) == 0) {
            *value = names->value;
            return true;
        }
    return false;
}

/* ---- texts ---- */

static int count_cohere_texts(const struct field_args *a, const char *what)
{
    const int n = cJSON_IsArray(a->v) ? cJSON_GetArraySize(a->v) : 0;

    if (n == 0)
        return params_refuse(a, "must be a list of %s, and not be empty", what);
    if (n > PARAMS_MAX_TEXTS)
        return params_refuse(a, "must hold at most %d texts", PARAMS_MAX_TEXTS);
    if (a->p->prompt != NULL)
        return params_refuse(a, "and 'texts' cannot be used together");
    a->p->has_inputs = strcmp(a->name, "inputs") == 0;
    a->p->prompt = a->v;
    a->p->is_prompt_list = true;
    a->p->n_prompts = (uint32_t)n;
    return 0;
}

int params_parse_cohere_texts(const struct field_args *a)
{
    for (const cJSON *it = a->v->child; cJSON_IsArray(a->v) && it != NULL; it = it->next)
        if (!cJSON_IsString(it))
            return params_refuse(a, "must hold strings");
    return count_cohere_texts(a, "strings");
}

/* Append a part's text, behind a line end if it is not the input's first. */
static int join_part(const struct field_path *at, const cJSON *part, bool is_first,
                     struct buf *text)
{
    const char *type = field_need_text(at, part, "type"), *more;

    if (type == NULL)
        return ERR_INVAL;
    if (strcmp(type, "text") != 0)
        return field_refuse(at, "type", "text, for this model takes no images");
    more = field_need_text(at, part, "text");
    if (more == NULL)
        return ERR_INVAL;
    if (!is_first)
        buf_add_char(text, '\n');
    buf_add_str(text, more);
    return 0;
}

static int join_input(const struct field_args *a, const struct field_path *at, const cJSON *input,
                      struct buf *text)
{
    const cJSON *content = field_find(input, "content");
    int i = 0;

    if (!cJSON_IsArray(content) || content->child == NULL)
        return field_refuse(at, "content", "a list of parts, and not empty");
    for (const cJSON *it = content->child; it != NULL; it = it->next, i++) {
        const struct field_path part = field_path_in(at, "content", i);

        if (join_part(&part, it, i == 0, text) < 0)
            return ERR_INVAL;
    }
    buf_add_char(text, '\0');
    return text->err < 0 ? api_error_no_memory(a->e) : 0;
}

static int add_joined(const struct field_args *a, const struct buf *text)
{
    cJSON *v = cJSON_CreateString(text->data);

    if (v == NULL || !cJSON_AddItemToArray(a->p->joined_texts, v)) {
        cJSON_Delete(v);
        return api_error_no_memory(a->e);
    }
    return 0;
}

int params_parse_cohere_inputs(const struct field_args *a)
{
    struct buf text;
    int rc = count_cohere_texts(a, "objects with a 'content'"), i = 0;

    if (rc < 0)
        return rc;
    a->p->joined_texts = cJSON_CreateArray();
    if (a->p->joined_texts == NULL)
        return api_error_no_memory(a->e);
    buf_init(&text, PARAMS_MAX_PREDICTION);
    for (const cJSON *it = a->v->child; rc == 0 && it != NULL; it = it->next, i++) {
        const struct field_path at = field_path(a->name, i, a->e);

        buf_clear(&text);
        rc = join_input(a, &at, it, &text);
        if (rc == 0)
            rc = add_joined(a, &text);
    }
    buf_release(&text);
    a->p->prompt = a->p->joined_texts;
    return rc;
}

/* ---- what is made of them ---- */

int params_parse_input_type(const struct field_args *a)
{
    a->p->input_type = cJSON_GetStringValue(a->v);
    return a->p->input_type != NULL ? 0 : params_refuse(a, "must be a string");
}

int params_parse_embedding_types(const struct field_args *a)
{
    static const struct cohere_name names[] = {{"float", EMBEDDING_FLOAT},
                                               {"int8", EMBEDDING_INT8},
                                               {"uint8", EMBEDDING_UINT8},
                                               {"binary", EMBEDDING_BINARY},
                                               {"ubinary", EMBEDDING_UBINARY},
                                               {"base64", EMBEDDING_BASE64},
                                               {NULL, 0}};
    unsigned all = 0, type;

    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list");
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        if (!find_cohere_name(names, it, &type))
            return params_refuse(a, "must hold float, int8, uint8, binary, ubinary or base64");
        all |= type;
    }
    if (all != 0) /* an empty list means the default */
        a->p->embedding_types = all;
    return 0;
}

int params_parse_cohere_truncate(const struct field_args *a)
{
    static const struct cohere_name names[] = {
        {"END", TEXT_CUT_END}, {"START", TEXT_CUT_START}, {"NONE", TEXT_CUT_NONE}, {NULL, 0}};
    unsigned value;

    if (!find_cohere_name(names, a->v, &value))
        return params_refuse(a, "must be NONE, START or END");
    a->p->text_cut = (enum text_cut)value;
    return 0;
}

/* Cohere serves lower numbers first, and 0 is what all calls have that say nothing. */
int params_parse_cohere_priority(const struct field_args *a)
{
    if (!field_is_int(a->v, 0, MAX_PRIORITY))
        return params_refuse(a, "must be a whole number between 0 and %d", MAX_PRIORITY);
    a->p->has_priority = true;
    a->p->priority = a->v->valuedouble > 0 ? PRIORITY_LOW : PRIORITY_NORMAL;
    return 0;
}

/* ---- the model's prompts ---- */

/* Names that models give the prompts of Cohere's input types; the first that a model has is
 * taken. */
static const struct {
    const char *type, *names[3];
} input_types[] = {{"search_query", {"search_query", "query", NULL}},
                   {"search_document", {"search_document", "document", "passage"}},
                   {"classification", {"classification", "Classification", NULL}},
                   {"clustering", {"clustering", "Clustering", NULL}}};
#define N_INPUT_TYPES (sizeof(input_types) / sizeof(input_types[0]))

static const char *prompt_of_name(const struct text_prompt *prompts, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(prompts[i].name, name) == 0)
            return prompts[i].text;
    return NULL;
}

/* Find the prompt of the input type: one of that name, or of a name that models give it. *is_type:
 * it is one of Cohere's types. */
static const char *prompt_of_type(const struct text_prompt *prompts, size_t n, const char *type,
                                  bool *is_type)
{
    const char *text = prompt_of_name(prompts, n, type);

    *is_type = false;
    for (size_t i = 0; i < N_INPUT_TYPES; i++) {
        if (strcmp(type, input_types[i].type) != 0)
            continue;
        *is_type = true;
        for (size_t k = 0; k < 3 && text == NULL && input_types[i].names[k] != NULL; k++)
            text = prompt_of_name(prompts, n, input_types[i].names[k]);
    }
    return text;
}

static int refuse_input_type(const struct text_prompt *prompts, size_t n, struct api_error *e)
{
    char names[160] = "";
    size_t len = 0;

    if (n == 0)
        return api_error_set(e, 400, "input_type", NULL,
                             "'input_type' must be search_document, search_query, classification "
                             "or clustering");
    for (size_t i = 0; i < n && len < sizeof(names); i++)
        len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i > 0 ? ", " : "",
                                prompts[i].name);
    return api_error_set(e, 400, "input_type", NULL,
                         "'input_type' must be one that the model has a prompt for: %s", names);
}

/* Put the text before each of the prompts. */
static int add_before(struct params *p, const char *before, struct api_error *e)
{
    cJSON *list = cJSON_CreateArray();
    struct buf text;
    int rc = list != NULL ? 0 : api_error_no_memory(e);

    buf_init(&text, PARAMS_MAX_PREDICTION);
    for (const cJSON *it = p->prompt->child; rc == 0 && it != NULL; it = it->next) {
        buf_clear(&text);
        buf_add_str(&text, before);
        buf_add_str(&text, it->valuestring);
        buf_add_char(&text, '\0');
        rc = text.err == 0 && json_put(list, NULL, cJSON_CreateString(text.data))
                 ? 0
                 : api_error_no_memory(e);
    }
    buf_release(&text);
    cJSON_Delete(p->joined_texts);
    p->prompt = p->joined_texts = list;
    return rc;
}

/* A model without prompts has none to choose among, so Cohere's types have no effect there. */
static int take_input_type(struct params *p, const struct params_limits *limits,
                           struct api_error *e)
{
    size_t n;
    const struct text_prompt *prompts = tokenizer_prompts(limits->tokenizer, &n);
    bool is_type = false;
    const char *text;

    if (p->input_type == NULL)
        return 0;
    text = prompt_of_type(prompts, n, p->input_type, &is_type);
    if (text == NULL && (n > 0 || !is_type))
        return refuse_input_type(prompts, n, e);
    return text != NULL && text[0] != '\0' ? add_before(p, text, e) : 0;
}

/* Bits of eight numbers make a byte. */
static bool has_odd_bits(const struct params *p, uint32_t n_embd)
{
    const unsigned bits = EMBEDDING_BINARY | EMBEDDING_UBINARY;

    return (p->embedding_types & bits) != 0 && (p->dimensions > 0 ? p->dimensions : n_embd) % 8 > 0;
}

int params_settle_cohere(struct params *p, const struct params_limits *limits, struct api_error *e)
{
    if (p->prompt == NULL)
        return api_error_set(e, 400, "texts", NULL, "'texts' or 'inputs' is required");
    if (take_input_type(p, limits, e) < 0)
        return ERR_INVAL;
    if (has_odd_bits(p, limits->n_embd))
        return api_error_set(e, 400, "embedding_types", NULL,
                             "'embedding_types' binary and ubinary need a number of dimensions "
                             "that is a multiple of 8: set 'output_dimension'");
    p->cuts_end = p->text_cut == TEXT_CUT_END;
    if (p->text_cut != TEXT_CUT_NONE)
        p->max_prompt = p->max_text > 0 ? p->max_text : UINT32_MAX;
    return 0;
}
