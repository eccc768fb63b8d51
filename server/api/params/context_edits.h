/* server/api/params/context_edits.h - Anthropic's context_management: edits that shorten a
 * conversation before the model reads it.
 *
 * A client sends its whole conversation with each request. An edit names the part that is too old
 * to be worth its tokens: tool results or thoughts. A tool use is a call with its result. A turn of
 * thoughts is all that the assistant thought between two messages of the user; a tool result does
 * not end a turn.
 *
 * Thread: any.
 * Memory: edits borrow their lists of tool names from the body's JSON tree; once they are applied,
 *         they borrow nothing. The text that replaces a cleared result is static.
 * Errors: ERR_NOMEM, or the budget's error when the search for calls takes too many steps.
 */
#ifndef SERVER_API_PARAMS_CONTEXT_EDITS_H
#define SERVER_API_PARAMS_CONTEXT_EDITS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json/json.h"

#define CONTEXT_EDITS_MAX 2 /* each kind once */
#define CONTEXT_EDIT_KEEP_ALL UINT32_MAX

struct budget;
struct conversation;

enum context_edit_kind { CONTEXT_EDIT_TOOL_USES, CONTEXT_EDIT_THINKING };

struct context_edit {
    enum context_edit_kind kind;
    bool counts_uses;        /* `trigger` counts tool uses, not tokens of the prompt */
    uint32_t trigger;        /* the edit is applied above this count */
    uint32_t keep;           /* newest tool uses or turns that stay, or KEEP_ALL */
    uint32_t clear_at_least; /* tokens; an edit that saves fewer is not applied */
    const cJSON *exclude;    /* names of tools whose uses stay; NULL: none */
    bool clears_inputs;      /* the inputs of cleared calls go, too */
    const cJSON *inputs_of;  /* tools whose inputs go; NULL: all */
    uint32_t n_cleared;      /* tool uses or turns that were cleared; 0: the edit was not applied */
    uint32_t n_tokens;       /* tokens that the edit saved */
};

struct context_edits {
    bool is_wanted; /* the body has the field, perhaps with an empty list */
    uint32_t n;
    uint32_t n_original; /* tokens of the prompt before any edit */
    struct context_edit list[CONTEXT_EDITS_MAX];
};

/* Apply the edit to a conversation whose prompt has n_tokens tokens. edit->n_cleared says how many
 * uses or turns were cleared; 0: the conversation is unchanged. */
int context_edit_apply(struct context_edit *edit, struct conversation *c, uint32_t n_tokens,
                       struct budget *budget);

#endif
