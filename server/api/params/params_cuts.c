/* server/api/params/params_cuts.c - typical_p, XTC, mirostat and DRY, under llama-server's
 * names.
 *
 * The defaults are llama-server's and are set before the body is read, so a body that only turns a
 * sampler on gets them for the rest. params_settle_sampling() then clears the values of samplers
 * that stayed off: the engine takes a mirostat_tau above 0 as on.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <stdio.h>
#include <string.h>

void params_set_sampling_defaults(struct params *p)
{
    static const char *const breakers[] = {"\n", ":", "\"", "*"};

    p->sampling.xtc_threshold = 0.1f;
    p->sampling.mirostat_tau = 5;
    p->sampling.mirostat_eta = 0.1f;
    p->sampling.dry_base = 1.75f;
    p->sampling.dry_allowed_length = 2;
    p->sampling.dry_last_n = UINT32_MAX;
    for (size_t i = 0; i < sizeof(breakers) / sizeof(breakers[0]); i++)
        snprintf(p->breakers[p->n_breakers++], sizeof(p->breakers[0]), "%s", breakers[i]);
}

void params_settle_sampling(struct params *p)
{
    if (!p->has_mirostat)
        p->sampling.mirostat_tau = 0;
    if (p->sampling.dry_multiplier == 0)
        p->n_breakers = 0;
}

int params_parse_mirostat(const struct field_args *a)
{
    if (!field_is_int(a->v, 0, 0) && !field_is_int(a->v, 2, 2))
        return params_refuse(a, "must be 0 for off or 2: the first version is not supported");
    a->p->has_mirostat = a->v->valuedouble != 0;
    return 0;
}

/* -1: the whole text; 0 turns DRY off. */
int params_parse_dry_penalty_last_n(const struct field_args *a)
{
    if (!field_is_int(a->v, -1, INT32_MAX))
        return params_refuse(a, "must be an integer, -1 for the whole text");
    a->p->sampling.dry_last_n = a->v->valuedouble < 0 ? UINT32_MAX : (uint32_t)a->v->valuedouble;
    return 0;
}

int params_parse_dry_sequence_breakers(const struct field_args *a)
{
    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list of strings");
    a->p->n_breakers = 0;
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        const size_t n = cJSON_IsString(it) ? strlen(it->valuestring) : 0;

        if (n == 0 || n > PARAMS_MAX_BREAKER || a->p->n_breakers == PARAMS_MAX_BREAKERS)
            return params_refuse(a, "must hold at most %d strings of 1 to %d bytes",
                                 PARAMS_MAX_BREAKERS, PARAMS_MAX_BREAKER);
        memcpy(a->p->breakers[a->p->n_breakers++], it->valuestring, n + 1);
    }
    return 0;
}
