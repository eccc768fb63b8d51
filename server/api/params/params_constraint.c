/* server/api/params/params_constraint.c - the fields that constrain what is generated: those of
 * llama-server, of OpenAI, and of vLLM under its new and its old names. Each field only leaves its
 * kind and value in struct constraint_spec, which server/api/constraint compiles later. One of them
 * at most may be set; llama-server's triggers make any of them lazy. */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <string.h>

int params_constrain(const struct field_args *a, const char *field, enum constraint_kind kind,
                     const cJSON *value)
{
    struct constraint_spec *w = &a->p->constraint;

    if (w->kind != CONSTRAINT_NONE)
        return api_error_set(a->e, 400, field, NULL, "'%s' and '%s' cannot be used together",
                             w->field, field);
    *w = (struct constraint_spec){.kind = kind, .field = field, .value = value};
    return 0;
}

/* llama-server takes "" for no grammar. */
int params_parse_grammar(const struct field_args *a)
{
    if (cJSON_IsString(a->v) && a->v->valuestring[0] == '\0')
        return 0;
    return params_constrain(a, "grammar", CONSTRAINT_GRAMMAR, a->v);
}

int params_parse_json_schema(const struct field_args *a)
{
    return params_constrain(a, a->name, CONSTRAINT_SCHEMA, a->v);
}

int params_parse_guided_regex(const struct field_args *a)
{
    return params_constrain(a, "guided_regex", CONSTRAINT_REGEX, a->v);
}

int params_parse_guided_choice(const struct field_args *a)
{
    return params_constrain(a, "guided_choice", CONSTRAINT_CHOICE, a->v);
}

int params_parse_guided_grammar(const struct field_args *a)
{
    return params_constrain(a, "guided_grammar", CONSTRAINT_GRAMMAR, a->v);
}

static int any_object(const struct field_args *a, const char *field, const cJSON *wanted)
{
    bool is_wanted = false;

    if (field_bool(wanted, field, &is_wanted, a->e) < 0)
        return ERR_INVAL;
    return is_wanted ? params_constrain(a, field, CONSTRAINT_JSON, NULL) : 0;
}

int params_parse_structured_outputs(const struct field_args *a)
{
    static const struct {
        const char *name, *field;
        enum constraint_kind kind;
    } members[] = {
        {"json", "structured_outputs.json", CONSTRAINT_SCHEMA},
        {"regex", "structured_outputs.regex", CONSTRAINT_REGEX},
        {"choice", "structured_outputs.choice", CONSTRAINT_CHOICE},
        {"grammar", "structured_outputs.grammar", CONSTRAINT_GRAMMAR},
    };
    const cJSON *v;
    int rc = 0;

    if (!cJSON_IsObject(a->v))
        return params_refuse(a, "must be an object");
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]) && rc == 0; i++) {
        v = field_find(a->v, members[i].name);
        if (v != NULL)
            rc = params_constrain(a, members[i].field, members[i].kind, v);
    }
    v = field_find(a->v, "json_object");
    if (rc == 0 && v != NULL)
        rc = any_object(a, "structured_outputs.json_object", v);
    v = field_find(a->v, "structural_tag");
    if (rc == 0 && v != NULL)
        rc = api_error_set(a->e, 400, a->name, NULL,
                           "'structured_outputs.structural_tag' is not supported");
    return rc;
}

/* OpenAI's chats have the schema in json_schema.schema, Responses beside the type; llama-server
 * takes it there, too. */
static int parse_schema_format(const struct field_args *a)
{
    const cJSON *outer = field_find(a->v, "json_schema");
    const cJSON *schema = field_find(cJSON_IsObject(outer) ? outer : a->v, "schema");

    if (schema == NULL)
        return api_error_set(a->e, 400, a->name, NULL, "'%s.%sschema' is required", a->name,
                             a->p->form == PARAMS_RESPONSES ? "" : "json_schema.");
    return params_constrain(a, a->name, CONSTRAINT_SCHEMA, schema);
}

int params_set_format(const struct field_args *a, const char *field, const cJSON *format)
{
    struct field_args in = *a;

    in.v = format;
    in.name = field;
    return params_parse_response_format(&in);
}

int params_parse_response_format(const struct field_args *a)
{
    const cJSON *type = cJSON_IsObject(a->v) ? field_find(a->v, "type") : NULL;
    const char *name = cJSON_IsString(type) ? type->valuestring : "";

    if (strcmp(name, "text") == 0)
        return 0;
    if (strcmp(name, "json_schema") == 0)
        return parse_schema_format(a);
    if (strcmp(name, "json_object") == 0) {
        if (field_find(a->v, "schema") != NULL)
            return parse_schema_format(a);
        return params_constrain(a, a->name, CONSTRAINT_JSON, NULL);
    }
    return params_refuse(a, "must be an object whose type is text, json_object or json_schema");
}

/* ---- lazy grammars ---- */

static int refuse_trigger(const struct field_args *a)
{
    return params_refuse(a,
                         "must hold at most %d objects with a type (0 token, 1 word, 2 pattern, 3 "
                         "pattern for all of the text) and a value of 1 to %d bytes, or, with type "
                         "0, a token id below %d",
                         CONSTRAINT_MAX_TRIGGERS, PARAMS_MAX_TRIGGER, a->limits->n_vocab);
}

static bool is_trigger(const struct field_args *a, const cJSON *it)
{
    const cJSON *type = cJSON_IsObject(it) ? field_find(it, "type") : NULL;
    const cJSON *value;

    if (type == NULL || !field_is_int(type, 0, CONSTRAINT_TRIGGER_COUNT - 1))
        return false;
    if (type->valueint == CONSTRAINT_TRIGGER_TOKEN) {
        value = field_find(it, "token");
        return value != NULL && field_is_int(value, 0, a->limits->n_vocab - 1);
    }
    value = field_find(it, "value");
    return cJSON_IsString(value) && value->valuestring[0] != '\0' &&
           strlen(value->valuestring) <= PARAMS_MAX_TRIGGER;
}

int params_parse_grammar_triggers(const struct field_args *a)
{
    const cJSON *it;

    if (!cJSON_IsArray(a->v) || cJSON_GetArraySize(a->v) > CONSTRAINT_MAX_TRIGGERS)
        return refuse_trigger(a);
    cJSON_ArrayForEach(it, a->v)
    {
        if (!is_trigger(a, it))
            return refuse_trigger(a);
    }
    a->p->triggers = a->v->child != NULL ? a->v : NULL;
    return 0;
}

int params_settle_lazy(struct params *p, struct api_error *e)
{
    if (!p->is_lazy || p->constraint.kind == CONSTRAINT_NONE)
        return 0;
    if (p->triggers == NULL)
        return api_error_set(
            e, 400, "grammar_triggers", NULL,
            "'grammar_lazy' requires 'grammar_triggers', at which the grammar begins");
    p->constraint.triggers = p->triggers;
    return 0;
}

bool params_has_answer_format(const struct params *p)
{
    static const char *const fields[] = {"response_format", "text.format", "output_config.format",
                                         "output_format", "format"};

    if (p->constraint.kind != CONSTRAINT_SCHEMA && p->constraint.kind != CONSTRAINT_JSON)
        return false;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strcmp(fields[i], p->constraint.field) == 0)
            return p->constraint.triggers == NULL;
    return false;
}
