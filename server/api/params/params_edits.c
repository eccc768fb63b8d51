/* server/api/params/params_edits.c - the field context_management of Anthropic's bodies. It is only
 * read here: context_edits.c applies the edits, once the prompt's tokens are counted.
 *
 * https://docs.anthropic.com/en/docs/build-with-claude/context-editing
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <string.h>

#define DEFAULT_TRIGGER 100000 /* Anthropic's defaults, as the next two */
#define DEFAULT_KEEP_USES 3
#define DEFAULT_KEEP_TURNS 1

static bool has_type(const cJSON *v, const char *type)
{
    const char *given = field_text(v, "type");

    return given != NULL && strcmp(given, type) == 0;
}

/* {"type":"input_tokens","value":30000} */
static int take_amount(const struct field_path *p, const cJSON *edit, const char *member,
                       const char *type, uint32_t least, uint32_t *out)
{
    const struct field_path in = field_path_in(p, member, -1);
    const cJSON *v = field_find(edit, member);

    if (v == NULL)
        return 0;
    if (!has_type(v, type))
        return field_refuse(&in, "type", type);
    if (!field_is_int(field_find(v, "value"), least, INT32_MAX))
        return field_refuse(&in, "value",
                            least > 0 ? "an integer of at least 1" : "an integer of at least 0");
    *out = (uint32_t)field_find(v, "value")->valuedouble;
    return 0;
}

/* Take a list of tool names; *out is NULL when there is none. */
static int take_names(const struct field_path *p, const cJSON *edit, const char *member,
                      const cJSON **out)
{
    const cJSON *v = field_find(edit, member);

    if (v != NULL && !cJSON_IsArray(v))
        return field_refuse(p, member, "a list of tool names");
    for (const cJSON *it = v != NULL ? v->child : NULL; it != NULL; it = it->next)
        if (!cJSON_IsString(it))
            return field_refuse(p, member, "a list of tool names");
    *out = v;
    return 0;
}

static int take_inputs(const struct field_path *p, const cJSON *edit, struct context_edit *out)
{
    const cJSON *v = field_find(edit, "clear_tool_inputs");

    out->clears_inputs = v != NULL && !cJSON_IsFalse(v);
    if (v == NULL || cJSON_IsBool(v))
        return 0;
    return take_names(p, edit, "clear_tool_inputs", &out->inputs_of);
}

static int take_tool_uses(const struct field_path *p, const cJSON *edit, struct context_edit *out)
{
    out->kind = CONTEXT_EDIT_TOOL_USES;
    out->trigger = DEFAULT_TRIGGER;
    out->keep = DEFAULT_KEEP_USES;
    out->counts_uses = has_type(field_find(edit, "trigger"), "tool_uses");
    if (take_amount(p, edit, "trigger", out->counts_uses ? "tool_uses" : "input_tokens", 1,
                    &out->trigger) < 0 ||
        take_amount(p, edit, "keep", "tool_uses", 0, &out->keep) < 0 ||
        take_amount(p, edit, "clear_at_least", "input_tokens", 0, &out->clear_at_least) < 0 ||
        take_names(p, edit, "exclude_tools", &out->exclude) < 0)
        return ERR_INVAL;
    return take_inputs(p, edit, out);
}

/* "keep": "all", {"type":"all"} or {"type":"thinking_turns","value":2} */
static int take_thinking(const struct field_path *p, const cJSON *edit, struct context_edit *out)
{
    const cJSON *keep = field_find(edit, "keep");

    out->kind = CONTEXT_EDIT_THINKING;
    out->keep = DEFAULT_KEEP_TURNS;
    if (has_type(keep, "all") || (cJSON_IsString(keep) && strcmp(keep->valuestring, "all") == 0)) {
        out->keep = CONTEXT_EDIT_KEEP_ALL;
        return 0;
    }
    return take_amount(p, edit, "keep", "thinking_turns", 1, &out->keep);
}

static const struct kind {
    const char *type;
    int (*take)(const struct field_path *p, const cJSON *edit, struct context_edit *out);
} kinds[CONTEXT_EDITS_MAX] = {
    {"clear_tool_uses_20250919", take_tool_uses},
    {"clear_thinking_20251015", take_thinking},
};

static int take_edit(const struct field_args *a, const struct field_path *p, const cJSON *edit)
{
    struct context_edits *edits = &a->p->edits;
    const char *type = field_need_text(p, edit, "type");
    size_t i = 0;

    if (type == NULL)
        return ERR_INVAL;
    while (i < CONTEXT_EDITS_MAX && strcmp(kinds[i].type, type) != 0)
        i++;
    if (i == CONTEXT_EDITS_MAX)
        return field_refuse(p, "type", "clear_tool_uses_20250919 or clear_thinking_20251015");
    if (edits->n == CONTEXT_EDITS_MAX || (edits->n == 1 && edits->list[0].kind == i))
        return field_refuse(p, "type", "different from the types of the edits before it");
    return kinds[i].take(p, edit, &edits->list[edits->n++]);
}

int params_parse_context_management(const struct field_args *a)
{
    const cJSON *edits = field_find(a->v, "edits");
    const struct field_path own = field_path(a->name, -1, a->e);
    int i = 0;

    if (!cJSON_IsObject(a->v) || (edits != NULL && !cJSON_IsArray(edits)))
        return params_refuse(a, "must be an object with a list of edits");
    a->p->edits.is_wanted = true;
    for (const cJSON *it = edits != NULL ? edits->child : NULL; it != NULL; it = it->next) {
        const struct field_path p = field_path_in(&own, "edits", i++);

        if (take_edit(a, &p, it) < 0)
            return ERR_INVAL;
    }
    return 0;
}
