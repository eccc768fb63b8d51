/* server/api/params/params_adapter.c - the LoRA adapter that a body names; see params_impl.h.
 *
 * vLLM's clients name one as their model, llama-server's give numbers and scales in `lora`.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "core/base/name_list.h"

#include <string.h>

/* Take `name` if an adapter has it. As for models, Ollama's clients may append ":latest" to it. */
bool params_take_adapter(const struct field_args *a, const char *name)
{
    char bare[NAME_LIST_MAX_BARE];

    if (!adapter_set_has(a->limits->adapters, name)) {
        if (!name_list_untag(name, bare) || !adapter_set_has(a->limits->adapters, bare))
            return false;
        name = bare;
    }
    memcpy(a->p->adapter.name, name, strlen(name) + 1); /* an adapter's name fits */
    a->p->adapter.scale = 1.0f;
    a->p->is_adapter_model = true;
    return true;
}

int params_take_adapter_item(const struct adapter_set *set, const struct field_path *p,
                             const cJSON *item, struct adapter_choice *to)
{
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(item, "id");
    const cJSON *scale = cJSON_GetObjectItemCaseSensitive(item, "scale");
    char name[ADAPTER_SET_MAX_NAME + 1];

    if (!field_is_int(id, 0, UINT32_MAX - 1.0) ||
        !adapter_set_name(set, (uint32_t)id->valuedouble, name))
        return field_refuse(p, "id", "the id of an adapter (GET /lora-adapters)");
    if (!cJSON_IsNumber(scale) || !(scale->valuedouble >= -1000 && scale->valuedouble <= 1000))
        return field_refuse(p, "scale", "a number between -1000 and 1000");
    if ((float)scale->valuedouble == 0.0f)
        return 0;
    if (to->name[0] != '\0')
        return field_refuse(p, "scale",
                            "0: a request can use only one adapter, and another one is given");
    memcpy(to->name, name, sizeof(name));
    to->scale = (float)scale->valuedouble;
    return 0;
}

static int take_item(const struct field_args *a, const struct field_path *p, const cJSON *item)
{
    return params_take_adapter_item(a->limits->adapters, p, item, &a->p->adapter);
}

int params_parse_lora(const struct field_args *a)
{
    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list of objects with id and scale");
    a->p->has_lora = true;
    return params_take_each(a, take_item);
}
