/* server/api/params/context_edits.c - see context_edits.h.
 *
 * Tool uses are cleared in two passes over the messages: the first counts those that may be
 * cleared, the second replaces the oldest until `keep` are left. All replaced results share one
 * placeholder part, so no text is copied. api_request_chat.c calls this after it has counted the
 * prompt's tokens, renders the result, and puts the messages back if an edit saves too few tokens.
 */
#include "server/api/params/context_edits.h"

#include "core/base/budget.h"
#include "core/base/err.h"
#include "server/api/params/conversation.h"

#include <string.h>

#define CLEARED "[This tool result was cleared to save room.]"

static bool names(const cJSON *list, const char *name)
{
    for (const cJSON *it = list != NULL ? list->child : NULL; it != NULL; it = it->next)
        if (cJSON_IsString(it) && strcmp(it->valuestring, name) == 0)
            return true;
    return false;
}

static uint32_t n_names(const cJSON *list)
{
    return list != NULL ? (uint32_t)cJSON_GetArraySize(list) : 0;
}

/* Find the call that the tool result in message i answers, among those of `caller`, the last
 * message before it with calls. NULL: there is none. */
static struct tool_call *call_of(const struct conversation *c, const struct chat_message *caller,
                                 uint32_t i)
{
    const char *id = c->messages[i].tool_call_id;

    for (uint32_t k = 0; caller != NULL && id != NULL && k < caller->n_calls; k++) {
        struct tool_call *call = &c->calls[caller->first_call + k];

        if (call->id != NULL && strcmp(call->id, id) == 0)
            return call;
    }
    return NULL;
}

/* ---- tool uses ---- */

struct uses {
    const struct context_edit *edit;
    struct conversation *c;
    struct budget *budget;
    uint32_t n_all, n_left; /* all uses; how many the second pass clears */
    uint32_t placeholder;   /* the part that replaces each result */
};

static void clear_use(const struct uses *u, struct chat_message *m, struct tool_call *call)
{
    static const cJSON nothing = {.type = cJSON_Object};

    m->first_part = u->placeholder;
    m->n_parts = 1;
    if (u->edit->clears_inputs && call != NULL &&
        (u->edit->inputs_of == NULL || names(u->edit->inputs_of, call->name)))
        call->input = &nothing;
}

/* Visit each tool use that has a result, oldest first. Without `clears`, count it in *n; else clear
 * it, and stop after n_left. */
static int walk(struct uses *u, bool clears, uint32_t *n)
{
    const uint64_t n_listed = 1 + n_names(u->edit->exclude) + n_names(u->edit->inputs_of);
    const struct chat_message *caller = NULL;

    for (uint32_t i = 0; i < u->c->n_messages; i++) {
        struct chat_message *m = &u->c->messages[i];
        struct tool_call *call;

        if (m->n_calls > 0)
            caller = m;
        if (strcmp(m->role, "tool") != 0)
            continue;
        if (budget_spend(u->budget, n_listed + (caller != NULL ? caller->n_calls : 0)) < 0)
            return budget_error(u->budget);
        call = call_of(u->c, caller, i);
        if (call != NULL && names(u->edit->exclude, call->name))
            continue;
        if (clears && *n == u->n_left)
            return 0;
        if (clears)
            clear_use(u, m, call);
        (*n)++;
    }
    return 0;
}

static uint32_t count_results(const struct conversation *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_messages; i++)
        n += strcmp(c->messages[i].role, "tool") == 0;
    return n;
}

static int clear_tool_uses(struct context_edit *edit, struct conversation *c, uint32_t n_tokens,
                           struct budget *budget)
{
    struct uses u = {.edit = edit, .c = c, .budget = budget, .placeholder = c->n_parts};
    uint32_t n = 0;
    int rc;

    if ((edit->counts_uses ? count_results(c) : n_tokens) <= edit->trigger)
        return 0;
    rc = walk(&u, false, &n);
    if (rc < 0 || n <= edit->keep)
        return rc;
    u.n_left = n - edit->keep;
    rc = conversation_add_part(c, CLEARED);
    return rc == 0 ? walk(&u, true, &edit->n_cleared) : rc;
}

/* ---- thoughts ---- */

/* Walk from the newest message to the oldest: the first `keep` turns found are those that stay. */
static void clear_thoughts(struct context_edit *edit, struct conversation *c)
{
    uint32_t n_turns = 0;
    bool is_counted = false;

    for (uint32_t i = c->n_messages; i-- > 0;) {
        struct chat_message *m = &c->messages[i];

        if (strcmp(m->role, "user") == 0)
            is_counted = false;
        if (m->reasoning == NULL)
            continue;
        if (!is_counted)
            n_turns++;
        is_counted = true;
        if (n_turns > edit->keep)
            m->reasoning = NULL;
    }
    if (edit->keep != CONTEXT_EDIT_KEEP_ALL && n_turns > edit->keep)
        edit->n_cleared = n_turns - edit->keep;
}

int context_edit_apply(struct context_edit *edit, struct conversation *c, uint32_t n_tokens,
                       struct budget *budget)
{
    edit->n_cleared = 0;
    if (edit->kind == CONTEXT_EDIT_TOOL_USES)
        return clear_tool_uses(edit, c, n_tokens, budget);
    clear_thoughts(edit, c);
    return 0;
}
