/* server/api/completion/control_call.c - see control_call.h.
 *
 * The router offers the order to one model after another. A model looks for the caller's tenant and
 * the answer's id in its engine client's index of completions, so that another tenant's id is not
 * found.
 */
#include "server/api/completion/control_call.h"

#include "core/base/err.h"
#include "core/json/json.h"
#include "server/api/completion/completion_impl.h"
#include "server/api/params/field.h"
#include "server/auth/auth.h"
#include "server/http/http_call.h"

#include <string.h>

#define MAX_REPLY 256

/* ---- the body ---- */

static int read_order_members(struct control_order *o, struct api_error *e)
{
    const char *action = field_text(o->body, "action");

    o->id = field_text(o->body, "id");
    if (o->id == NULL || o->id[0] == '\0')
        return api_error_set(e, 400, "id", NULL,
                             "missing completion id: 'id' must be the id of a completion");
    if (action == NULL || strcmp(action, "reasoning_end") != 0)
        return api_error_set(e, 400, "action", NULL,
                             "unknown control action: 'action' must be reasoning_end");
    return 0;
}

int control_order_read(struct control_order *o, struct http_call *call, struct api_error *e)
{
    if (http_call_json(call, &o->body, e) < 0)
        return ERR_INVAL;
    if (!cJSON_IsObject(o->body))
        return api_error_set(e, 400, NULL, NULL, "the body must be a JSON object");
    return read_order_members(o, e);
}

void control_order_release(struct control_order *o)
{
    cJSON_Delete(o->body);
    *o = (struct control_order){0};
}

/* ---- the answer ---- */

static void answer(struct http_call *call, const char *message)
{
    struct buf out;

    buf_init(&out, MAX_REPLY);
    buf_printf(&out, "{\"success\":%s", message == NULL ? "true" : "false");
    if (message != NULL) {
        buf_add_str(&out, ",\"message\":");
        json_add_cstring(&out, message);
    }
    buf_add_char(&out, '}');
    http_call_reply(call, 200, "application/json", &out);
}

void control_call_answer_unknown(struct http_call *call)
{
    answer(call, "no active completion for this id");
}

/* ---- the completion ---- */

/* True: the engine still computes the choice. */
static bool is_running(const struct choice *choice)
{
    return choice->id != 0 && !choice->is_cancelled;
}

static bool runs(const struct completion *c)
{
    for (uint32_t i = 0; i < c->n_choices; i++)
        if (is_running(&c->choices[i]))
            return true;
    return false;
}

static struct completion *find_completion(struct engine_client *engine, const char *tenant,
                                          const char *id)
{
    struct hash_walk walk = {.hash = hash_of_texts(tenant, id)};
    struct completion *c;

    while ((c = (struct completion *)hash_index_next(&engine->completions, &walk)) != NULL)
        if (strcmp(c->answer.id, id) == 0 && strcmp(c->api.tenant, tenant) == 0 && runs(c))
            return c;
    return NULL;
}

/* True: the engine follows the completion's thoughts, and the client may end them. */
static bool is_controlled(const struct completion *c)
{
    return c->api.request.params.reasoning_control &&
           c->choices[0].prompt->thought.phase != THOUGHT_NONE;
}

static void end_thoughts(struct completion *c)
{
    for (uint32_t i = 0; i < c->n_choices; i++) {
        struct choice *choice = &c->choices[i];

        if (!is_running(choice) || choice->is_thought_ended)
            continue;
        choice->is_thought_ended = true;
        engine_client_end_thought(c->api.engine, choice->id);
    }
}

bool control_call_take(struct engine_client *engine, struct http_call *call,
                       const struct control_order *o)
{
    char tenant[WEIGHTS_MAX_NAME + 2];
    struct completion *c;

    auth_tenant(call, engine->shared->options->tenant_header, tenant, sizeof(tenant));
    c = find_completion(engine, tenant, o->id);
    if (c == NULL)
        return false;
    if (is_controlled(c)) {
        end_thoughts(c);
        answer(call, NULL);
    } else {
        answer(call, c->api.request.params.reasoning_control
                         ? "this completion has no reasoning that can be ended: the model does not "
                           "reason, or the tags around its reasoning are not tokens"
                         : "reasoning control not enabled for this completion");
    }
    return true;
}
