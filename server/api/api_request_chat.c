/* server/api/api_request_chat.c - a conversation as tokens; see api_request_impl.h.
 *
 * The template renders the conversation, and the text is tokenized with the spans that the template
 * itself wrote (`own`): only these may name special tokens. Ollama's `context` goes before the
 * tokens. Anthropic's edits and the dropping of old messages change the conversation and render it
 * again.
 */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/chat/chat.h"
#include "server/api/response/response_writer.h"

#include <string.h>

/* True: thoughts are off, whatever the template writes. */
static bool has_no_thoughts(const struct params *params)
{
    return !chat_wants_thoughts(params) || params->thinking_budget == 0;
}

/* Let the sampler follow thoughts if a constraint waits for their end, they have a budget, or the
 * client may end them. */
static void begin_thought(const struct api_request *p, const struct chat *chat,
                          const struct buf *text, struct prompt *prompt)
{
    const struct params *params = &p->params;
    const struct chat_marks marks = chat_marks(chat);
    /* A model rarely opens another thought after a finished one in the prompt, unless thoughts are
     * off: then one is expected anyway. */
    const bool may_open = params->add_generation_prompt && !params->continue_final_message &&
                          (has_no_thoughts(params) || !output_parser_prompt_has_thought(
                                                          chat_style(chat), text->data, text->len));

    prompt->thought = (struct thought){.open = marks.open, .close = marks.close};
    prompt->thought.n_left = has_no_thoughts(params) ? 0 : params->thinking_budget;
    if (marks.close == TOKEN_NONE)
        return;
    if (p->constraint == NULL && prompt->thought.n_left == THOUGHT_NO_LIMIT &&
        !params->reasoning_control)
        return;
    if (prompt->thinks)
        prompt->thought.phase = THOUGHT_OPEN;
    else if (may_open)
        prompt->thought.phase = THOUGHT_MAY_OPEN;
}

static void close_thought(const struct output_style *style, struct prompt *prompt, struct buf *text,
                          struct spans *own)
{
    const size_t n = text->len;

    output_parser_close_thought(style, text);
    spans_add(own, n, text->len);
    prompt->thinks = false;
}

static void skip_thought(const struct params *params, const struct output_style *style,
                         struct buf *text, struct spans *own)
{
    const bool may_call = params->chat.n_tools > 0 && params->tool_choice != TOOL_CHOICE_NONE;
    const size_t n = text->len;

    if (!params->add_generation_prompt || params->continue_final_message)
        return;
    output_parser_skip_thought(style, may_call, text);
    if (text->len > n)
        spans_add(own, n, text->len);
}

/* Called if thoughts are off: close the thought that the template opened, or write the text by
 * which the model skips it. */
static void end_thoughts(const struct params *params, const struct output_style *style,
                         struct prompt *prompt, struct buf *text, struct spans *own)
{
    if (prompt->thinks)
        close_thought(style, prompt, text, own);
    else
        skip_thought(params, style, text, own);
}

/* Render the text that the model reads. A thought that the template opens is closed if thoughts are
 * off. It is also closed if a constraint applies to the content and the sampler cannot see where a
 * thought ends, but not for a lazy grammar, which waits for its trigger. The server writes the text
 * that ends it. */
static int render_chat(struct api_request *p, const struct server_model *model,
                       struct prompt *prompt, struct buf *text, struct spans *own)
{
    const struct chat *chat = chat_for(model->chat, &p->params);
    const struct output_style *style = chat_style(chat);
    int rc = chat_render(chat, &p->params, p->budget, text, own, &p->error);

    if (rc == 0 && text->data == NULL && buf_add_str(text, "") < 0)
        rc = api_request_no_memory(p);
    if (rc < 0)
        return rc;
    prompt->thinks = output_parser_prompt_thinks(style, text->data, text->len);
    if (has_no_thoughts(&p->params))
        end_thoughts(&p->params, style, prompt, text, own);
    begin_thought(p, chat, text, prompt);
    if (prompt->thinks && p->constraint != NULL && p->params.constraint.triggers == NULL &&
        prompt->thought.phase == THOUGHT_NONE)
        close_thought(style, prompt, text, own);
    return text->err < 0 || own->err < 0 ? api_request_no_memory(p) : 0;
}

/* Put the tokens of Ollama's `context` first. They begin with BOS, so the BOS of the prompt is
 * removed. */
static int put_context_first(struct api_request *p, const struct server_model *model,
                             struct prompt *prompt)
{
    const size_t context = api_request_context(p, model);
    const size_t max = api_request_may_cut(p) ? SIZE_MAX : context;
    const int32_t bos = tokenizer_bos(model->tokenizer);
    const size_t from = bos != TOKEN_NONE && prompt->ids.ids[0] == bos;
    struct token_list all = {0};
    int rc = 0;

    for (const cJSON *it = p->params.context->child; rc == 0 && it != NULL; it = it->next)
        rc = token_list_add(&all, (int32_t)it->valuedouble, max);
    for (size_t i = from; rc == 0 && i < prompt->ids.n; i++)
        rc = token_list_add(&all, prompt->ids.ids[i], max);
    token_list_release(&prompt->ids);
    prompt->ids = all;
    if (rc == ERR_LIMIT)
        return api_request_too_long(p, model, 0);
    return rc < 0 ? api_request_no_memory(p) : 0;
}

/* Render the conversation and tokenize it. The template itself writes all special tokens, BOS
 * included. */
int api_request_take_turns(struct api_request *p, const struct server_model *model,
                           struct prompt *prompt)
{
    struct spans own = {0};
    struct buf text;
    int rc;

    buf_init(&text, CHAT_MAX_PROMPT);
    rc = render_chat(p, model, prompt, &text, &own);
    if (rc == 0) {
        prompt->text = buf_detach(&text, &prompt->n_text);
        rc = api_request_encode_text(p, model, prompt, &own);
    }
    if (rc == 0 && p->params.context != NULL)
        rc = put_context_first(p, model, prompt);
    buf_release(&text);
    spans_release(&own);
    return rc;
}

static void drop_prompt(struct prompt *prompt)
{
    mem_free(prompt->text);
    token_list_release(&prompt->ids);
    *prompt = (struct prompt){0};
}

/* Replace *prompt by the prompt of the edited conversation. If the edit saves too few tokens,
 * *prompt stays and the edit counts as not applied. */
static int take_edited(struct api_request *p, const struct server_model *model,
                       struct prompt *prompt, struct context_edit *edit)
{
    struct prompt edited = {0};
    const int rc = api_request_take_turns(p, model, &edited);
    size_t saved;

    if (rc < 0) {
        drop_prompt(&edited);
        return rc;
    }
    saved = prompt->ids.n > edited.ids.n ? prompt->ids.n - edited.ids.n : 0;
    if (saved < edit->clear_at_least) {
        edit->n_cleared = 0;
        drop_prompt(&edited);
        return 0;
    }
    edit->n_tokens = (uint32_t)saved;
    drop_prompt(prompt);
    *prompt = edited;
    return 0;
}

static int apply_edit(struct api_request *p, const struct server_model *model,
                      struct prompt *prompt, struct context_edit *edit)
{
    struct conversation *c = &p->params.chat;
    struct chat_message *messages = mem_dup(c->messages, c->n_messages * sizeof(*messages));
    struct tool_call *calls = NULL;
    int rc = messages != NULL ? 0 : ERR_NOMEM;

    if (c->n_calls > 0 && (calls = mem_dup(c->calls, c->n_calls * sizeof(*calls))) == NULL)
        rc = ERR_NOMEM;
    if (rc == 0)
        rc = context_edit_apply(edit, c, (uint32_t)prompt->ids.n, p->budget);
    if (rc < 0)
        rc = budget_error(p->budget) < 0 ? api_request_cannot_encode(p) : api_request_no_memory(p);
    else if (edit->n_cleared > 0)
        rc = take_edited(p, model, prompt, edit);
    if (rc == 0 && edit->n_cleared == 0) {
        memcpy(c->messages, messages, c->n_messages * sizeof(*messages));
        for (uint32_t i = 0; i < c->n_calls; i++)
            c->calls[i] = calls[i];
    }
    mem_free(messages);
    mem_free(calls);
    return rc;
}

static int apply_edits(struct api_request *p, const struct server_model *model,
                       struct prompt *prompt)
{
    struct context_edits *edits = &p->params.edits;
    int rc = 0;

    edits->n_original = (uint32_t)prompt->ids.n;
    for (uint32_t i = 0; rc == 0 && i < edits->n; i++)
        rc = apply_edit(p, model, prompt, &edits->list[i]);
    for (uint32_t i = 0; i < edits->n; i++) /* they point into the JSON tree */
        edits->list[i].exclude = edits->list[i].inputs_of = NULL;
    return rc;
}

int api_request_take_chat(struct api_request *p, const struct server_model *model,
                          struct prompt *prompt)
{
    const int rc = api_request_take_turns(p, model, prompt);

    if (rc == 0 && p->params.edits.is_wanted)
        return apply_edits(p, model, prompt);
    return p->params.drops_messages ? api_request_drop_messages(p, model, prompt, rc) : rc;
}
