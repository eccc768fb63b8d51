/* server/api/api_request_drop.c - the oldest messages of a conversation that is too long are
 * dropped; see api_request_impl.h.
 *
 * Ollama's chats do so unless they say otherwise, OpenAI's Responses with truncation "auto". How
 * many messages have to go is found by rendering what would be left, and by halving: a conversation
 * of n messages is rendered some 2 log2(n) times.
 */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/api/response/response_writer.h"

#include <string.h>

struct dropping {
    struct api_request *p;
    const struct server_model *model;
    struct prompt *prompt;
    struct chat_message *all; /* the conversation as it was sent */
    uint32_t *stays;          /* for each message, see conversation_find_stays() */
    uint32_t n_all, most;     /* messages; and how many may be dropped */
};

/* Has the conversation failed, or is it there, but without room for `answer` tokens behind it? */
static bool is_too_long(const struct api_request *p, const struct server_model *model,
                        const struct prompt *prompt, uint32_t answer)
{
    const size_t n = prompt->ids.n + answer;

    if (p->error.status != 0)
        return p->error.code != NULL && strcmp(p->error.code, "context_length_exceeded") == 0;
    return n > api_request_context(p, model) || n > model->max_kv_tokens;
}

/* Of steps, or of memory: another try would not help. */
static bool has_run_out(const struct api_request *p)
{
    return budget_error(p->budget) < 0 || p->error.status >= 500;
}

/* The prompt of the conversation without its first n messages but for those that stay. */
static int take_without(const struct dropping *d, uint32_t n)
{
    struct api_request *p = d->p;

    memcpy(p->params.chat.messages, d->all, d->n_all * sizeof(*d->all));
    p->params.chat.n_messages = d->n_all;
    conversation_drop(&p->params.chat, d->stays, n);
    mem_free(d->prompt->text);
    token_list_release(&d->prompt->ids);
    *d->prompt = (struct prompt){0};
    p->error = (struct api_error){0};
    p->reason = REJECTION_INVALID;
    return api_request_take_turns(p, d->model, d->prompt);
}

/* From n on, the first number of messages behind which a user begins; at last, the most. */
static uint32_t next_turn(const struct dropping *d, uint32_t n)
{
    while (n < d->most && strcmp(d->all[n].role, "user") != 0)
        n++;
    return n;
}

/* The same as take_without(). A template may refuse what is left, as where no user begins: then the
 * messages before the next user go, too. *n says how many went. */
static int take_what_is_left(const struct dropping *d, uint32_t *n)
{
    const int rc = take_without(d, *n);
    const uint32_t next = next_turn(d, *n);

    if (rc == 0 || has_run_out(d->p) || is_too_long(d->p, d->model, d->prompt, 0) || next == *n)
        return rc;
    *n = next;
    return take_without(d, next);
}

/* As few as it takes to leave room for `answer` tokens; all that may go, where it takes more. */
static int drop_few(const struct dropping *d, uint32_t answer)
{
    uint32_t low = 1, high = d->most;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        uint32_t n = middle;
        const int rc = take_what_is_left(d, &n);

        if (rc < 0 && has_run_out(d->p))
            return rc;
        if (!is_too_long(d->p, d->model, d->prompt, answer))
            high = middle;
        else
            low = n < high ? n + 1 : high;
    }
    return take_what_is_left(d, &low);
}

/* Of Ollama's messages the last one stays, and is cut. Of a response's items the last one of the
 * user stays; where there is none, the last one that is no result of a call. */
static void find_most(struct dropping *d)
{
    const bool is_response = d->p->params.form == PARAMS_RESPONSES;
    uint32_t user = d->n_all;

    d->most = d->n_all - 1;
    while (is_response && user > 0 && strcmp(d->all[user - 1].role, "user") != 0)
        user--;
    if (is_response && user > 0) {
        d->stays[user - 1] = UINT32_MAX;
        d->most = d->n_all;
    }
    while (is_response && user == 0 && d->most > 0 && strcmp(d->all[d->most].role, "tool") == 0)
        d->most--;
}

/* Room is left for what the answer may have at most, or for a quarter of the context. */
static int drop_messages(struct dropping *d, int rc)
{
    const struct params *params = &d->p->params;
    const uint32_t most = api_request_context(d->p, d->model) / 4;
    const uint32_t answer = params->max_tokens < most ? params->max_tokens : most;

    if (conversation_find_stays(&params->chat, params->form == PARAMS_RESPONSES, d->stays) < 0)
        return api_request_no_memory(d->p);
    find_most(d);
    return d->most > 0 ? drop_few(d, answer) : rc;
}

int api_request_drop_messages(struct api_request *p, const struct server_model *model,
                              struct prompt *prompt, int rc)
{
    const struct conversation *c = &p->params.chat;
    struct dropping d = {.p = p, .model = model, .prompt = prompt, .n_all = c->n_messages};

    if (c->n_messages < 2 || !is_too_long(p, model, prompt, 1))
        return rc;
    d.all = mem_dup(c->messages, d.n_all * sizeof(*d.all));
    d.stays = mem_calloc(d.n_all, sizeof(*d.stays));
    if (d.all == NULL || d.stays == NULL)
        rc = api_request_no_memory(p);
    else
        rc = drop_messages(&d, rc);
    mem_free(d.all);
    mem_free(d.stays);
    return rc;
}
