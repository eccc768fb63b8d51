/* server/api/chat/decision_template.h - the prompt of a question in the form that a model was
 * trained for.
 *
 * The file of such a model has a template named "systemone" beside those for chats. It gets the
 * variables that llama.cpp gives it: `type` ("choice", "score" or "noul"), `id`, `instructions`,
 * `state`, `options` (a list of `key`, `description` and, in some families, `label`), `images` (an
 * empty list) and, in one family, `questions`. Values stay JSON: the template itself writes those
 * that are not strings.
 *
 * As in chats, a name of a special token becomes that token only if it stands in the template's own
 * text.
 *
 * Thread: a template is read-only after creation: any number of threads may render it at once.
 * Memory: a rendering is bounded by VALUE_POOL_MAX and CHAT_MAX_PROMPT and frees everything.
 */
#ifndef SERVER_API_CHAT_DECISION_TEMPLATE_H
#define SERVER_API_CHAT_DECISION_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/api/params/decision_set.h"

#define DECISION_TEMPLATE "systemone" /* the template's name in a file */
#define DECISION_LABEL_BYTES 4 /* of the longest label, with its NUL */

struct api_error;
struct budget;
struct buf;
struct params;
struct spans;
struct template;

/* How a family's template takes its values. */
struct decision_form {
    bool is_no_first;     /* of yes and no, no is the first option */
    bool lists_questions; /* the template gets all questions of the call */
    bool sorts_keys;      /* the keys of objects are sorted */
    bool is_text; /* values are plain text (decision_text.h), without names of special tokens */
};

/* One prompt: a question with its options in an order. */
struct decision_ask {
    const struct params *params; /* with decisions.state */
    const struct decision_question *question;
    uint32_t order;
    const char (*labels)[DECISION_LABEL_BYTES]; /* of the options by place; NULL: the template gets
                                                 * none */
    const char *marker; /* text that no value may have: it becomes a blank; NULL: none */
};

/* The option that stands at `place` in an order. */
uint32_t decision_form_option(const struct decision_form *form, const struct decision_question *q,
                              uint32_t order, uint32_t place);

/* Append the prompt to `out`, and to `own` the spans of it that may name special tokens. Spends
 * steps of the budget (NULL: as many as a request has). 0, or a negative ERR_* with *e filled. */
int decision_template_render(const struct template *t, const struct decision_form *form,
                             const struct decision_ask *ask, struct budget *budget, struct buf *out,
                             struct spans *own, struct api_error *e);

#endif
