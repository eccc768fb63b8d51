/* server/api/params/params_drafts.c - the fields of speculative decoding: they change how soon an
 * answer is there, and nothing else.
 *
 * The parts of `prediction` are joined in one buffer here and tokenized together later, so that the
 * guess has no token boundaries where the client cut its parts.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <string.h>

int params_parse_speculation(const struct field_args *a)
{
    bool is_on = true;

    if (field_bool(a->v, a->name, &is_on, a->e) < 0)
        return ERR_INVAL;
    a->p->without_drafts = !is_on;
    return 0;
}

static int add_prediction_text(const struct field_args *a, const char *text)
{
    return buf_add(&a->p->prediction, text, strlen(text)) < 0 ? api_error_no_memory(a->e) : 0;
}

static int add_prediction_part(const struct field_args *a, const cJSON *part)
{
    const char *type = field_text(part, "type"), *text = field_text(part, "text");

    if (type == NULL || strcmp(type, "text") != 0 || text == NULL)
        return params_refuse(a, "must hold parts of the type 'text', with a text each");
    return add_prediction_text(a, text);
}

/* {"type":"content","content":"…"}, or a list of texts as in a message. */
int params_parse_prediction(const struct field_args *a)
{
    const char *type = cJSON_IsObject(a->v) ? field_text(a->v, "type") : NULL;
    const cJSON *content = type != NULL ? field_find(a->v, "content") : NULL, *part = NULL;

    buf_clear(&a->p->prediction); /* the field may have been read before */
    if (type == NULL || strcmp(type, "content") != 0)
        return params_refuse(a, "must be an object of the type 'content'");
    if (cJSON_IsString(content))
        return add_prediction_text(a, content->valuestring);
    if (!cJSON_IsArray(content))
        return params_refuse(a, "must have a 'content': a text, or a list of texts");
    cJSON_ArrayForEach(part, content) if (add_prediction_part(a, part) < 0) return ERR_INVAL;
    return 0;
}
