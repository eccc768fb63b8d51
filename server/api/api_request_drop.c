/* server/api/api_request_drop.c - drops the oldest messages of a conversation that is too long; see
 * api_request_impl.h.
 *
 * Ollama's chats do so by default, OpenAI's Responses with truncation "auto". The length of the
 * remaining prompt is only known after rendering, so the number of dropped messages is found by
 * binary search: a conversation of n messages is rendered some 2 log2(n) times.
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
    uint32_t n_all, most;     /* all messages; how many may be dropped */
};

/* True: the conversation exceeds the context, or leaves no room in it for `answer` tokens. */
static bool is_too_long(const struct api_request *p, const struct server_model *model,
                        const struct prompt *prompt, uint32_t answer)
{
    const size_t n = prompt->ids.n + answer;

    if (p->error.status != 0)
        return p->error.code != NULL && strcmp(p->error.code, "context_length_exceeded") == 0;
    return n > api_request_context(p, model) || n > model->max_kv_tokens;
}

/* True: the request has run out of steps or memory, so that another try would not help. */
static bool has_run_out(const struct api_request *p)
{
    return budget_error(p->budget) < 0 || p->error.status >= 500;
}

/* Make the prompt without the first n messages, except those of them that always stay. */
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

/* Return the smallest number >= n of dropped messages that leaves a user's message first; else the
 * most that may be dropped. */
static uint32_t next_turn(const struct dropping *d, uint32_t n)
{
    while (n < d->most && strcmp(d->all[n].role, "user") != 0)
        n++;
    return n;
}

/* As take_without(), but if the template refuses the rest, for example because no user begins it,
 * drop the messages before the next user's, too. *n: how many were dropped. */
static int take_what_is_left(const struct dropping *d, uint32_t *n)
{
    const int rc = take_without(d, *n);
    const uint32_t next = next_turn(d, *n);

    if (rc == 0 || has_run_out(d->p) || is_too_long(d->p, d->model, d->prompt, 0) || next == *n)
        return rc;
    *n = next;
    return take_without(d, next);
}

/* Drop the fewest messages that leave room for `answer` tokens; all that may be dropped, if even
 * that is too few. */
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

/* Find how many messages may be dropped. Ollama's last message stays, and is cut. The last user's
 * message of a response stays or, if there is none, the last one that is not a tool's result. */
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

/* Leave room for the answer's max_tokens, but not for more than a quarter of the context. */
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
