/* server/api/api_request_breakpoints.c - the places of cache breakpoints in a prompt's tokens; see
 * api_request_impl.h.
 *
 * A breakpoint stands between two texts of the conversation. The same template renders the same
 * conversation once more, in which each text behind the breakpoint begins with another character:
 * what both renderings begin with is the text up to the breakpoint, whatever the template writes
 * between the messages, and wherever it writes tools and system messages. The tokens of that
 * beginning that are also those of the prompt are the prefix to be pinned.
 *
 * A breakpoint never makes a request fail: the search has half of the steps that the request has
 * left, and a breakpoint that they do not suffice for is dropped, which the usage tells. Only where
 * the body would be parsed again with more steps, it is.
 */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/chat/chat.h"
#include "server/api/response/response_writer.h"

#include <string.h>

struct placing {
    struct api_request *p;
    const struct server_model *model;
    struct prompt *prompt;
    struct budget budget;
};

/* ---- the other conversation ---- */

/* A text that differs from this one in its first character. */
static const char *other_text(const char *text)
{
    return text[0] == 'x' ? "y" : "x";
}

/* Return the text up to the breakpoint within it, and a different character; NULL: no memory. */
static char *cut_text(const char *text, size_t n)
{
    char *cut = mem_alloc(n + 2);

    if (cut == NULL)
        return NULL;
    memcpy(cut, text, n);
    memcpy(cut + n, other_text(text + n), 2);
    return cut;
}

/* Render the conversation with other texts behind the breakpoint, and without the beginning of an
 * answer. */
static int render_other(struct placing *w, const struct cache_breakpoint *b, struct buf *text,
                        struct spans *own)
{
    struct params *params = &w->p->params;
    struct conversation *c = &params->chat;
    const char **given = c->parts, **parts = mem_dup(given, c->n_parts * sizeof(*given));
    const bool adds = params->add_generation_prompt, continues = params->continue_final_message;
    struct api_error error = {0};
    char *cut = NULL;
    int rc = parts != NULL ? 0 : ERR_NOMEM;

    for (uint32_t i = b->n_parts; rc == 0 && i < c->n_parts; i++)
        parts[i] = other_text(given[i]);
    if (rc == 0 && b->n_parts > 0 && b->n_bytes < strlen(given[b->n_parts - 1])) {
        cut = cut_text(given[b->n_parts - 1], b->n_bytes);
        parts[b->n_parts - 1] = cut;
        rc = cut != NULL ? 0 : ERR_NOMEM;
    }
    if (rc == 0) {
        c->parts = parts;
        params->add_generation_prompt = params->continue_final_message = false;
        rc = chat_render(chat_for(w->model->chat, params), params, &w->budget, text, own, &error);
        c->parts = given;
        params->add_generation_prompt = adds;
        params->continue_final_message = continues;
    }
    mem_free((void *)parts);
    mem_free(cut);
    return rc;
}

/* ---- places ---- */

/* The bytes that the prompt and the other rendering begin with, in whole characters. */
static size_t common_bytes(const struct prompt *prompt, const struct buf *other)
{
    const size_t most = prompt->n_text < other->len ? prompt->n_text : other->len;
    size_t n = 0;

    while (n < most && prompt->text[n] == other->data[n])
        n++;
    while (n > 0 && n < prompt->n_text && ((unsigned char)prompt->text[n] & 0xC0) == 0x80)
        n--;
    return n;
}

static uint32_t common_tokens(const struct token_list *a, const struct token_list *b)
{
    size_t n = 0;

    while (n < a->n && n < b->n && a->ids[n] == b->ids[n])
        n++;
    return (uint32_t)n;
}

/* Tokenize a beginning of the prompt as the prompt was; a failure is no error of the request. */
static int encode_begin(struct placing *w, struct prompt *begin, const struct spans *own)
{
    struct budget *given = w->p->budget;
    const enum rejection reason = w->p->reason;
    int rc;

    w->p->budget = &w->budget;
    rc = api_request_encode_text(w->p, w->model, begin, own);
    w->p->budget = given;
    if (rc < 0) {
        w->p->error = (struct api_error){0};
        w->p->reason = reason;
    }
    return rc;
}

/* Count the prompt's tokens before the breakpoint, into *n. */
static int place_breakpoint(struct placing *w, const struct cache_breakpoint *b, uint32_t *n)
{
    struct prompt begin = {0};
    struct spans own = {0};
    struct buf text;
    int rc;

    *n = 0;
    buf_init(&text, CHAT_MAX_PROMPT);
    rc = render_other(w, b, &text, &own);
    if (rc == 0 && text.len > 0) {
        begin.text = text.data;
        begin.n_text = common_bytes(w->prompt, &text);
        spans_cut(&own, begin.n_text);
        rc = encode_begin(w, &begin, &own);
        *n = rc == 0 ? common_tokens(&w->prompt->ids, &begin.ids) : 0;
    }
    token_list_release(&begin.ids);
    spans_release(&own);
    buf_release(&text);
    return rc;
}

/* Enter a pin into the prompt's, in ascending order; of two at one place the longer one stays. */
static void add_pin(struct prompt *prompt, uint32_t n_tokens, uint64_t ttl_us)
{
    uint32_t at = prompt->n_pins;

    while (at > 0 && prompt->pins[at - 1].n_tokens > n_tokens)
        at--;
    if (at > 0 && prompt->pins[at - 1].n_tokens == n_tokens) {
        if (prompt->pins[at - 1].ttl_us < ttl_us)
            prompt->pins[at - 1].ttl_us = ttl_us;
        return;
    }
    memmove(prompt->pins + at + 1, prompt->pins + at,
            (prompt->n_pins - at) * sizeof(*prompt->pins));
    prompt->pins[at] = (struct request_pin){n_tokens, ttl_us};
    prompt->n_pins++;
}

int api_request_place_breakpoints(struct api_request *p, const struct server_model *model,
                                  struct prompt *prompt)
{
    const struct conversation *c = &p->params.chat;
    struct placing w = {.p = p, .model = model, .prompt = prompt};
    uint64_t most = BUDGET_REQUEST_STEPS;

    _Static_assert((int)CONVERSATION_MAX_BREAKPOINTS == (int)REQUEST_MAX_PINS,
                   "each breakpoint can become a pin");
    if (!model->pins_prefixes || prompt->text == NULL || p->wire_format->answer != NULL)
        return 0;
    if (p->budget != NULL)
        most = p->budget->steps_left / 2;
    w.budget = (struct budget){.steps_left = most,
                               .canceled = p->budget != NULL ? p->budget->canceled : NULL};
    for (uint32_t i = 0; i < c->n_breakpoints; i++) {
        uint32_t n;

        if (place_breakpoint(&w, &c->breakpoints[i], &n) == 0 && n > 0)
            add_pin(prompt, n, c->breakpoints[i].ttl_s * UINT64_C(1000000));
    }
    (void)budget_spend(p->budget, most - w.budget.steps_left);
    if (w.budget.err < 0 && p->is_trial && p->budget != NULL) {
        p->budget->err = w.budget.err;
        return api_request_cannot_encode(p);
    }
    return 0;
}
