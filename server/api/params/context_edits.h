/* server/api/params/context_edits.h - Anthropic's context_management: what is taken out of a
 * conversation before the model reads it.
 *
 * A client sends its whole conversation with each request, and says with an edit what of it is too
 * old to be worth its tokens: results of tools, or thoughts. A tool use is a call with its result;
 * a turn of thoughts is what the assistant thought between two messages of the user, results of
 * tools being none.
 *
 * Thread: any.
 * Memory: edits borrow the lists of names from the body's JSON tree, or from nothing once they are
 *         applied. What takes the place of what is cleared is static.
 * Errors: ERR_NOMEM, or the budget's where looking for calls takes too many steps.
 */
#ifndef SERVER_API_PARAMS_CONTEXT_EDITS_H
#define SERVER_API_PARAMS_CONTEXT_EDITS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/json.h"

#define CONTEXT_EDITS_MAX 2 /* each kind once */
#define CONTEXT_EDIT_KEEP_ALL UINT32_MAX

struct budget;
struct conversation;

enum context_edit_kind { CONTEXT_EDIT_TOOL_USES, CONTEXT_EDIT_THINKING };

struct context_edit {
    enum context_edit_kind kind;
    bool counts_uses;        /* `trigger` is of tool uses, not of tokens of the prompt */
    uint32_t trigger;        /* with more than so many it is applied */
    uint32_t keep;           /* of the newest tool uses, or turns of thoughts; or KEEP_ALL */
    uint32_t clear_at_least; /* tokens; else it is not applied */
    const cJSON *exclude;    /* names of tools whose uses stay; NULL: none */
    bool clears_inputs;      /* of the calls, too: */
    const cJSON *inputs_of;  /* of these tools; NULL: of all */
    uint32_t n_cleared;      /* tool uses, or turns, that were cleared; 0: it was not applied */
    uint32_t n_tokens;       /* by which the prompt is shorter */
};

struct context_edits {
    bool is_wanted; /* the body has them, if an empty list */
    uint32_t n;
    uint32_t n_original; /* tokens of the prompt before them */
    struct context_edit list[CONTEXT_EDITS_MAX];
};

/* Take out what the edit clears of a conversation whose prompt has n_tokens. Its n_cleared says how
 * much that was; 0: the conversation is as it was. */
int context_edit_apply(struct context_edit *edit, struct conversation *c, uint32_t n_tokens,
                       struct budget *budget);

#endif
