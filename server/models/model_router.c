/* server/models/model_router.c - see model_router.h.
 *
 * Linear searches over at most SERVER_MAX_MODELS models, one pass for each kind of name in the
 * order of their rank. Models that a reload has removed (is_gone) are skipped; their entries stay,
 * because indices and pointers of the others must not change. With one model every body goes to it,
 * and no name is compared.
 */
#include "server/models/model_router.h"

#include "core/base/name_list.h"
#include "core/json/json.h"
#include "server/adapters/adapter_set.h"
#include "server/api/body_scan.h"
#include "server/http/error.h"
#include "server/http/http_call.h"
#include "server/models/served_model.h"

#include <string.h>

#define MAX_NAME_TEXT 4096 /* most bytes of a name in a body; the parser handles longer ones */

static bool is_there(const struct served_model *h)
{
    return !h->life.is_gone;
}

/* Return the first model that is still served; the settings always list one. */
static struct served_model *first(struct served_model *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (is_there(&all[i]))
            return &all[i];
    return &all[0];
}

static struct served_model *find_exact(struct served_model *all, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (is_there(&all[i]) && strcmp(all[i].model.id, name) == 0)
            return &all[i];
    for (uint32_t i = 0; i < n; i++)
        if (is_there(&all[i]) && name_list_has(all[i].model.aliases, name))
            return &all[i];
    return strcmp(name, "default") == 0 ? first(all, n) : NULL;
}

/* True: an adapter of the model has the name. A model that is not loaded has only the settings'
 * list. */
static bool has_adapter(const struct server_model *m, const char *name)
{
    return m->adapters != NULL ? adapter_set_has(m->adapters, name)
                               : adapter_set_lists(m->adapter_list, name);
}

static struct served_model *find_as_written(struct served_model *all, uint32_t n, const char *name)
{
    struct served_model *found = find_exact(all, n, name);

    for (uint32_t i = 0; i < n && found == NULL; i++)
        if (is_there(&all[i]) && has_adapter(&all[i].model, name))
            found = &all[i];
    for (uint32_t i = 0; i < n && found == NULL; i++)
        if (is_there(&all[i]) && name_list_matches(all[i].model.aliases, name))
            found = &all[i];
    return found;
}

bool model_router_has_model(struct served_model *all, uint32_t n, const char *name)
{
    return find_exact(all, n, name) != NULL;
}

struct served_model *model_router_find(struct served_model *all, uint32_t n, const char *name)
{
    struct served_model *found = find_as_written(all, n, name);
    char bare[NAME_LIST_MAX_BARE];

    if (found == NULL && name_list_untag(name, bare))
        found = find_as_written(all, n, bare);
    return found;
}

void model_router_refuse(struct http_call *call, const char *name)
{
    struct api_error e;

    api_error_no_model(&e, name);
    http_call_reply_error(call, &e);
}

static struct served_model *find_or_refuse(struct served_model *all, uint32_t n,
                                           struct http_call *call, const char *name)
{
    struct served_model *found = model_router_find(all, n, name);

    if (found == NULL)
        model_router_refuse(call, name);
    return found;
}

struct served_model *model_router_by_query(struct served_model *all, uint32_t n,
                                           struct http_call *call)
{
    const char *name = http_call_query(call, "model");

    return name != NULL ? find_or_refuse(all, n, call, name) : first(all, n);
}

struct served_model *model_router_by_body(struct served_model *all, uint32_t n,
                                          struct http_call *call, const struct body_scan *scan)
{
    struct served_model *found;
    cJSON *name = NULL;
    const char *why;

    if (n == 1)
        return &all[0];
    if (scan->model == NULL || (scan->n_model == 4 && memcmp(scan->model, "null", 4) == 0))
        return model_router_by_query(all, n, call);
    if (scan->model[0] != '"' || scan->n_model > MAX_NAME_TEXT ||
        json_parse(scan->model, scan->n_model, &name, &why) < 0)
        return first(all, n);
    found = find_or_refuse(all, n, call, name->valuestring);
    cJSON_Delete(name);
    return found;
}
