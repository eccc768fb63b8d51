/* server/api/params/params_resume.c - the fields of streams that can be continued, here or on
 * another server.
 *
 * `resumable` keeps a stream on this server. `resume` needs no state of a server: it has the
 * tokens, id, time and seed that the stream told its client, and a server with the same model
 * computes the rest of the same answer (api_request_resume.c).
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

#define MAX_REQUEST_ID 38 /* a UUID and more, after the longest prefix, "chatcmpl-" */

int params_parse_resumable(const struct field_args *a)
{
    a->p->has_resumable = true;
    if (field_bool(a->v, a->name, &a->p->resumable, a->e) < 0)
        return ERR_INVAL;
    if (a->p->resumable && !a->limits->keeps_streams)
        return params_refuse(a,
                             "is not supported: this server keeps no streams (set stream_keep_ms)");
    return 0;
}

static int take_tokens(const struct field_args *a, const cJSON *list)
{
    const char *name = "resume.tokens";
    const int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    struct resume_spec *r = &a->p->resume;

    mem_free(r->tokens); /* the field may have been read before */
    r->n = 0;
    r->tokens = mem_alloc(((size_t)n + 1) * sizeof(*r->tokens));
    if (r->tokens == NULL)
        return api_error_no_memory(a->e);
    return field_ids(list, name, a->limits->n_vocab, (uint32_t)n, r->tokens, &r->n, a->e);
}

/* May the id stand in an answer unescaped? Ids of other servers of this kind may, too. */
static bool is_answer_id(const char *id)
{
    const size_t n = strlen(id);

    return n <= PARAMS_MAX_ANSWER_ID &&
           id[strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")] ==
               '\0';
}

/* The answer's id is a prefix, such as chatcmpl-, followed by this. */
int params_parse_request_id(const struct field_args *a)
{
    if (!cJSON_IsString(a->v) || strlen(a->v->valuestring) > MAX_REQUEST_ID ||
        !is_answer_id(a->v->valuestring))
        return params_refuse(a, "must have at most %d letters, digits, - and _", MAX_REQUEST_ID);
    memcpy(a->p->request_id, a->v->valuestring, strlen(a->v->valuestring) + 1);
    return 0;
}

static int take_identity(const struct field_args *a, const cJSON *id, const cJSON *created)
{
    struct resume_spec *r = &a->p->resume;

    if (id != NULL && (!cJSON_IsString(id) || !is_answer_id(id->valuestring)))
        return api_error_set(a->e, 400, "resume.id", NULL,
                             "'resume.id' must be the id of an answer: at most %d letters, digits, "
                             "- and _",
                             PARAMS_MAX_ANSWER_ID);
    if (created != NULL && !field_is_int(created, 0, 9007199254740992.0))
        return api_error_set(a->e, 400, "resume.created", NULL,
                             "'resume.created' must be seconds since 1970");
    if (id != NULL)
        memcpy(r->id, id->valuestring, strlen(id->valuestring) + 1);
    if (created != NULL)
        r->created = (int64_t)created->valuedouble;
    return 0;
}

int params_parse_resume(const struct field_args *a)
{
    const cJSON *seed;

    if (!cJSON_IsObject(a->v))
        return params_refuse(a, "must be an object");
    seed = field_find(a->v, "seed");
    a->p->resume.is_on = true;
    if (take_tokens(a, field_find(a->v, "tokens")) < 0 ||
        take_identity(a, field_find(a->v, "id"), field_find(a->v, "created")) < 0)
        return ERR_INVAL;
    if (seed == NULL)
        return 0;
    a->p->has_seed = true; /* it wins over the body's seed, which may be missing */
    return field_seed(seed, "resume.seed", &a->p->sampling.seed, a->e);
}
