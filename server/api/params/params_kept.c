/* server/api/params/params_kept.c - the fields of OpenAI's Responses about kept responses.
 *
 * Nothing is read from a database here: the checks need only the settings (params_limits), and the
 * items of an earlier response were fetched before this parse (kept_input.h), after a first look at
 * the body had found its id.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <string.h>

#define NOT_KEPT "is not supported: this server keeps no responses (set responses_db)"

/* The response's items are already in limits->kept; `input` takes them. */
int params_parse_previous_response_id(const struct field_args *a)
{
    if (!cJSON_IsString(a->v) || a->v->valuestring[0] == '\0' ||
        strlen(a->v->valuestring) > PARAMS_MAX_RESPONSE_ID)
        return params_refuse(a, "must be the id of a response");
    if (!a->limits->keeps)
        return params_refuse(a, NOT_KEPT);
    memcpy(a->p->previous_id, a->v->valuestring, strlen(a->v->valuestring) + 1);
    return 0;
}

int params_parse_store(const struct field_args *a)
{
    bool wanted = false;

    if (field_bool(a->v, a->name, &wanted, a->e) < 0)
        return ERR_INVAL;
    a->p->store = wanted && a->limits->keeps;
    return 0;
}

int params_parse_background(const struct field_args *a)
{
    if (field_bool(a->v, a->name, &a->p->background, a->e) < 0)
        return ERR_INVAL;
    if (!a->p->background)
        return 0;
    if (!a->limits->keeps)
        return params_refuse(a, NOT_KEPT);
    if (!a->p->store)
        return params_refuse(a, "requires 'store': true");
    if (a->p->stream && !a->limits->keeps_streams)
        return params_refuse(
            a, "and 'stream' cannot be used together, because this server keeps no streams (set "
               "stream_keep_ms): GET the response until it is completed");
    return 0;
}
