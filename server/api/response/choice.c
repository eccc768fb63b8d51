/* server/api/response/choice.c - turns a request's events into the output of one choice.
 *
 * A token passes four stages, each of which may hold bytes back: the detokenizer (incomplete
 * UTF-8), stop strings, the indent of lines, and for chats the parser of answers; choice_end()
 * flushes them in this order. Log-probabilities and ids are not held back, so they may be ahead of
 * the text. The completion calls this for each event of the engine, and choice_clear() after each
 * frame.
 */
#include "server/api/response/choice.h"

#include "core/json/json.h"
#include "server/api/response/reasoning.h"
#include "server/http/http_call.h"

#include <string.h>

/* Decodes one prompt token for its offset; the text itself is not needed. */
static void pass_prompt_token(struct choice *c, int32_t id, bool is_hidden)
{
    struct buf text;

    if (is_hidden)
        return;
    buf_init(&text, (size_t)1 << 20);
    detok_feed(&c->echo_detok, id, &text);
    c->n_chars += json_n_chars(text.data, text.len);
    buf_release(&text);
}

static void begin_echo(struct choice *c)
{
    const struct prompt *p = c->prompt;
    const int32_t first = p->ids.ids[0];

    buf_add(&c->text, p->text, p->n_text);
    if (!c->rules->wants_logprobs) {
        c->n_chars = json_n_chars(p->text, p->n_text);
        return;
    }
    detok_init(&c->echo_detok, c->rules->tokenizer, true);
    c->echo_detok.show_control = p->is_text; /* the text contains the names of control tokens */
    logprobs_add(&c->logprobs, c->rules->tokenizer, &(struct logprob_entry){.id = first});
    pass_prompt_token(c, first, p->has_added_bos);
    c->n_scores_due = (uint32_t)p->ids.n - 1;
}

void choice_init(struct choice *c, uint32_t index, struct prompt *prompt,
                 const struct choice_rules *rules)
{
    *c = (struct choice){.index = index, .prompt = prompt, .rules = rules};
    detok_init(&c->detok, rules->tokenizer, prompt->at_start);
    c->detok.show_control = rules->shows_special;
    stop_init(&c->stop, rules->stop);
    c->stop.keeps_found = rules->includes_stop;
    indent_init(&c->indent, rules->n_indent);
    logprobs_init(&c->logprobs);
    buf_init(&c->text, HTTP_MAX_REPLY / 4);
    buf_init(&c->ids, HTTP_MAX_REPLY / 4);
    buf_init(&c->entries, HTTP_MAX_REPLY);
    if (rules->wants_prompt_scores && prompt->scores.len == 0)
        buf_add_str(&prompt->scores, "null");
    if (rules->style != NULL && rules->has_forced_call)
        output_parser_init_forced(&c->output, rules->forced_name, rules->style, rules->tools,
                                  prompt->thinks);
    else if (rules->style != NULL)
        output_parser_init(&c->output, rules->style, rules->tools, rules->finds_calls,
                           prompt->thinks);
    if (rules->style != NULL && rules->insists)
        output_parser_insist(&c->output, rules->forced_name);
    if (rules->echo)
        begin_echo(c);
}

void choice_release(struct choice *c)
{
    stop_release(&c->stop);
    indent_release(&c->indent);
    logprobs_release(&c->logprobs);
    output_parser_release(&c->output);
    buf_release(&c->text);
    buf_release(&c->ids);
    token_list_release(&c->tokens);
    buf_release(&c->entries);
}

static uint32_t at_most(uint32_t n, uint32_t most)
{
    return n < most ? n : most;
}

static void add_logprob(struct choice *c, const struct event *e)
{
    const struct logprob_entry entry = {.id = e->token,
                                        .logprob = &e->logprob,
                                        .top = e->top,
                                        .n_top = at_most(e->n_top, c->rules->n_top),
                                        .as_ids = c->rules->tokens_as_ids,
                                        .has_shares = c->rules->has_shares,
                                        .offset = c->n_chars};

    if (c->rules->style != NULL || c->rules->has_entries)
        logprobs_add_entry(&c->entries, c->rules->tokenizer, &entry, c->rules->has_entries);
    else
        logprobs_add(&c->logprobs, c->rules->tokenizer, &entry);
}

static void add_prompt_score(struct choice *c, const struct event *e)
{
    const struct logprob_entry entry = {.id = e->token,
                                        .logprob = &e->logprob,
                                        .top = e->top,
                                        .n_top = at_most(e->n_top, c->rules->n_prompt_top)};

    logprobs_add_ranked(&c->prompt->scores, c->rules->tokenizer, &entry, e->rank);
}

void choice_pass_prompt(struct choice *c)
{
    if (!c->rules->echo)
        return;
    c->n_scores_due = 0;
    c->n_chars = json_n_chars(c->prompt->text, c->prompt->n_text);
    logprobs_clear(&c->logprobs);
}

void choice_score(struct choice *c, const struct event *e)
{
    if (c->rules->wants_prompt_scores)
        add_prompt_score(c, e);
    if (c->n_scores_due == 0)
        return;
    add_logprob(c, e);
    pass_prompt_token(c, e->token, false);
    if (--c->n_scores_due == 0) /* decoding may differ: the text counts */
        c->n_chars = json_n_chars(c->prompt->text, c->prompt->n_text);
}

static void add_choice_id(struct choice *c, int32_t id)
{
    if (c->rules->wants_ids)
        buf_printf(&c->ids, c->ids.len > 0 ? ",%d" : "%d", id);
}

static bool is_preserved(const struct choice_rules *r, int32_t token)
{
    for (uint32_t i = 0; i < r->n_preserved; i++)
        if (r->preserved[i] == token)
            return true;
    return false;
}

/* Decides whether a control token is shown: it is not text, but may mark a thought or a call, or be
 * one that the client asked for. */
static void show_marks(struct choice *c, int32_t token)
{
    const struct choice_rules *r = c->rules;
    const char *piece;
    size_t n;

    if ((r->style == NULL && r->n_preserved == 0) || !tokenizer_is_control(r->tokenizer, token))
        return;
    piece = tokenizer_piece(r->tokenizer, token, &n);
    c->detok.show_control = r->shows_special || is_preserved(r, token) ||
                            (r->style != NULL && output_parser_is_mark(r->style, piece, n));
}

/* Passes decided text to the parser of a chat's answer. If one call is wanted, its end ends the
 * choice. */
static void pass_on(struct choice *c)
{
    const size_t n = c->output.text.len;

    if (c->rules->style == NULL)
        return;
    output_parser_feed(&c->output, c->text.data, c->text.len);
    reasoning_place(c, n, false);
    if (c->text.err == 0)
        buf_clear(&c->text);
    if (c->rules->has_one_call && c->output.n_calls > 0 && c->output.calls[0].is_over)
        c->has_stopped = true;
}

void choice_progress(struct choice *c, const struct event *e, uint64_t now_us)
{
    if (c->n_computed == 0)
        c->n_cached = e->rank;
    if (e->pos > c->n_computed) /* a preempted request computes tokens again */
        c->n_computed = e->pos;
    c->computed_us = now_us;
    c->has_progress = true;
}

/* Passes decoded text through stop strings and indent. */
static void take_choice_text(struct choice *c, const char *text, size_t n, bool is_armed)
{
    struct buf *to = c->rules->n_indent > 0 ? &c->indent.held : &c->text;

    c->has_stopped = stop_feed(&c->stop, text, n, is_armed, to);
    if (c->rules->n_indent > 0 && indent_pass(&c->indent, c->has_stopped, &c->text))
        c->has_run_out = true;
}

bool choice_token(struct choice *c, const struct event *e, struct buf *scratch)
{
    bool thinks;

    if (c->has_stopped || c->has_run_out)
        return false;
    c->n_tokens++;
    c->n_predicted = e->n_predicted;
    c->sum_logprob += (double)e->logprob;
    thinks = c->rules->style != NULL && output_parser_is_thinking(&c->output);
    c->n_thinking += thinks;
    add_choice_id(c, e->token);
    if (c->rules->keeps_tokens && token_list_add(&c->tokens, e->token, SIZE_MAX) < 0)
        token_list_release(&c->tokens);
    if (c->rules->wants_logprobs && !c->is_past && !(thinks && c->rules->skips_thoughts))
        add_logprob(c, e);
    if (e->is_eog)
        return false;
    c->is_complete = e->is_complete;
    buf_clear(scratch);
    show_marks(c, e->token);
    detok_feed(&c->detok, e->token, scratch);
    c->n_chars += json_n_chars(scratch->data, scratch->len);
    c->has_new_line =
        c->has_new_line || (scratch->len > 0 && memchr(scratch->data, '\n', scratch->len) != NULL);
    /* Stop strings count in the answer only: a thought may contain them. */
    take_choice_text(c, scratch->data, scratch->len,
                     c->n_tokens >= c->rules->min_tokens && !thinks);
    pass_on(c);
    return c->has_stopped || c->has_run_out;
}

/* Flushes the last bytes of the text, in which a stop string may end; returns the finish. */
static enum finish finish_text(struct choice *c, enum finish finish, struct buf *scratch)
{
    if (c->has_stopped || c->has_run_out)
        return c->has_stopped ? FINISH_STOP : FINISH_LENGTH;
    buf_clear(scratch);
    detok_finish(&c->detok, scratch);
    take_choice_text(c, scratch->data, scratch->len, true);
    if (c->has_stopped || c->has_run_out)
        return c->has_stopped ? FINISH_STOP : FINISH_LENGTH;
    stop_flush(&c->stop, c->rules->n_indent > 0 ? &c->indent.held : &c->text);
    if (c->rules->n_indent > 0 && indent_pass(&c->indent, true, &c->text))
        return FINISH_LENGTH;
    return finish;
}

void choice_end(struct choice *c, enum finish finish, struct buf *scratch)
{
    size_t n;

    if (finish == FINISH_LENGTH && c->is_complete) /* nothing was cut */
        finish = FINISH_STOP;
    c->finish = finish_text(c, finish, scratch);
    pass_on(c);
    if (c->rules->style == NULL)
        return;
    n = c->output.text.len;
    output_parser_end(&c->output);
    reasoning_place(c, n, true);
}

bool choice_has_output(const struct choice *c)
{
    if (c->rules->style != NULL)
        return output_parser_has_more(&c->output);
    return c->n_scores_due == 0 && c->text.len > 0;
}

void choice_clear(struct choice *c)
{
    buf_clear(&c->text);
    buf_clear(&c->ids);
    buf_clear(&c->entries);
    logprobs_clear(&c->logprobs);
    if (c->rules->style != NULL)
        output_parser_clear(&c->output);
}

const char *choice_finish_name(const struct choice *c)
{
    if (c->finish == FINISH_NONE)
        return NULL;
    if (c->finish == FINISH_STOP && c->output.n_calls > 0 &&
        output_parser_calls_are_whole(&c->output))
        return c->rules->has_functions ? "function_call" : "tool_calls";
    return finish_name(c->finish);
}

int choice_error(const struct choice *c)
{
    const struct buf *bufs[] = {&c->text,
                                &c->ids,
                                &c->entries,
                                &c->indent.held,
                                &c->prompt->scores,
                                &c->logprobs.tokens,
                                &c->logprobs.values,
                                &c->logprobs.tops,
                                &c->logprobs.offsets};

    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
        if (bufs[i]->err < 0)
            return bufs[i]->err;
    return c->rules->style != NULL ? output_parser_error(&c->output) : 0;
}
