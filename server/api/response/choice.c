/* server/api/response/choice.c - see choice.h. */
#include "server/api/response/choice.h"

#include "core/base/json.h"
#include "server/http/http_call.h"

#include <string.h>

/* Decode one prompt token for its offset; the result itself is not needed. */
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
    c->echo_detok.show_control = p->is_text; /* they were written out in the text */
    logprobs_add(&c->logprobs, c->rules->tokenizer, &(struct logprob_entry){.id = first});
    pass_prompt_token(c, first, p->has_added_bos);
    c->n_scores_due = (uint32_t)p->ids.n - 1;
}

void choice_init(struct choice *c, uint32_t index, struct prompt *prompt,
                 const struct choice_rules *rules)
{
    *c = (struct choice){.index = index, .prompt = prompt, .rules = rules};
    detok_init(&c->detok, rules->tokenizer, prompt->at_start);
    stop_init(&c->stop, rules->stop);
    logprobs_init(&c->logprobs);
    buf_init(&c->text, HTTP_MAX_REPLY / 4);
    buf_init(&c->ids, HTTP_MAX_REPLY / 4);
    buf_init(&c->entries, HTTP_MAX_REPLY);
    if (rules->wants_prompt_scores && prompt->scores.len == 0)
        buf_add_str(&prompt->scores, "null");
    if (rules->style != NULL && rules->has_forced_call)
        output_parser_init_forced(&c->output, rules->forced_name);
    else if (rules->style != NULL)
        output_parser_init(&c->output, rules->style, rules->finds_calls, prompt->thinks);
    if (rules->echo)
        begin_echo(c);
}

void choice_release(struct choice *c)
{
    stop_release(&c->stop);
    logprobs_release(&c->logprobs);
    output_parser_release(&c->output);
    buf_release(&c->text);
    buf_release(&c->ids);
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

void choice_score(struct choice *c, const struct event *e)
{
    if (c->rules->wants_prompt_scores)
        add_prompt_score(c, e);
    if (c->n_scores_due == 0)
        return;
    add_logprob(c, e);
    pass_prompt_token(c, e->token, false);
    if (--c->n_scores_due == 0) /* where decoding is not the text's exact inverse, the text holds */
        c->n_chars = json_n_chars(c->prompt->text, c->prompt->n_text);
}

static void add_id(struct choice *c, int32_t id)
{
    if (c->rules->wants_ids)
        buf_printf(&c->ids, c->ids.len > 0 ? ",%d" : "%d", id);
}

/* Control tokens are no text, but a model may mark its thoughts and calls with some. */
static void show_marks(struct choice *c, int32_t token)
{
    const struct tokenizer *t = c->rules->tokenizer;
    const char *piece;
    size_t n;

    if (c->rules->style == NULL || !tokenizer_is_control(t, token))
        return;
    piece = tokenizer_piece(t, token, &n);
    c->detok.show_control = output_parser_is_mark(c->rules->style, piece, n);
}

/* What is certain goes on to be taken apart. */
static void pass_on(struct choice *c)
{
    if (c->rules->style == NULL)
        return;
    output_parser_feed(&c->output, c->text.data, c->text.len);
    if (c->text.err == 0)
        buf_clear(&c->text);
}

bool choice_token(struct choice *c, const struct event *e, struct buf *scratch)
{
    if (c->has_stopped)
        return false;
    c->n_tokens++;
    c->sum_logprob += (double)e->logprob;
    if (c->rules->style != NULL && output_parser_is_thinking(&c->output))
        c->n_thinking++;
    add_id(c, e->token);
    if (c->rules->wants_logprobs)
        add_logprob(c, e);
    if (e->is_eog)
        return false;
    c->is_complete = e->is_complete;
    buf_clear(scratch);
    show_marks(c, e->token);
    detok_feed(&c->detok, e->token, scratch);
    c->n_chars += json_n_chars(scratch->data, scratch->len);
    c->has_new_line = c->has_new_line ||
                      (scratch->len > 0 && memchr(scratch->data, '\n', scratch->len) != NULL);
    c->has_stopped = stop_feed(&c->stop, scratch->data, scratch->len,
                               c->n_tokens >= c->rules->min_tokens, &c->text);
    pass_on(c);
    return c->has_stopped;
}

/* The text's last bytes; a stop string may end in them. */
static enum finish finish_text(struct choice *c, enum finish finish, struct buf *scratch)
{
    if (c->has_stopped)
        return FINISH_STOP;
    buf_clear(scratch);
    detok_finish(&c->detok, scratch);
    if (stop_feed(&c->stop, scratch->data, scratch->len, true, &c->text))
        return FINISH_STOP;
    stop_flush(&c->stop, &c->text);
    return finish;
}

void choice_end(struct choice *c, enum finish finish, struct buf *scratch)
{
    if (finish == FINISH_LENGTH && c->is_complete) /* with the very last token: nothing was cut */
        finish = FINISH_STOP;
    c->finish = finish_text(c, finish, scratch);
    pass_on(c);
    if (c->rules->style != NULL)
        output_parser_end(&c->output);
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
    if (c->rules->style != NULL) {
        buf_clear(&c->output.text);
        buf_clear(&c->output.thought);
        c->output.n_sent = c->output.n_calls;
    }
}

const char *choice_finish_name(const struct choice *c)
{
    if (c->finish == FINISH_NONE)
        return NULL;
    if (c->finish == FINISH_STOP && c->output.n_calls > 0)
        return "tool_calls";
    return finish_name(c->finish);
}

int choice_error(const struct choice *c)
{
    const struct buf *bufs[] = {&c->text,
                                &c->ids,
                                &c->entries,
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
