/* server/choice.c - see choice.h. */
#include "server/choice.h"

#include "server/http.h"
#include "server/json.h"

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

void choice_init(struct choice *c, uint32_t index, const struct prompt *prompt,
                 const struct choice_rules *rules)
{
    *c = (struct choice){.index = index, .prompt = prompt, .rules = rules};
    detok_init(&c->detok, rules->tokenizer, prompt->at_start);
    stop_init(&c->stop, rules->stop);
    logprobs_init(&c->logprobs);
    buf_init(&c->text, HTTP_MAX_REPLY / 4);
    buf_init(&c->ids, HTTP_MAX_REPLY / 4);
    if (rules->echo)
        begin_echo(c);
}

void choice_release(struct choice *c)
{
    stop_release(&c->stop);
    logprobs_release(&c->logprobs);
    buf_release(&c->text);
    buf_release(&c->ids);
}

static void add_logprob(struct choice *c, const struct event *e)
{
    const struct logprob_entry entry = {.id = e->token,
                                        .logprob = &e->logprob,
                                        .top = e->top,
                                        .n_top = e->n_top,
                                        .offset = c->n_chars};

    logprobs_add(&c->logprobs, c->rules->tokenizer, &entry);
}

void choice_score(struct choice *c, const struct event *e)
{
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

bool choice_token(struct choice *c, const struct event *e, struct buf *scratch)
{
    if (c->has_stopped)
        return false;
    c->n_tokens++;
    add_id(c, e->token);
    if (c->rules->wants_logprobs)
        add_logprob(c, e);
    if (e->is_eog)
        return false;
    c->is_complete = e->is_complete;
    buf_clear(scratch);
    detok_feed(&c->detok, e->token, scratch);
    c->n_chars += json_n_chars(scratch->data, scratch->len);
    c->has_stopped = stop_feed(&c->stop, scratch->data, scratch->len,
                               c->n_tokens >= c->rules->min_tokens, &c->text);
    return c->has_stopped;
}

void choice_end(struct choice *c, enum finish finish, struct buf *scratch)
{
    if (c->has_stopped) {
        c->finish = FINISH_STOP;
        return;
    }
    /* Complete with the very last token: nothing was cut off. */
    c->finish = finish == FINISH_LENGTH && c->is_complete ? FINISH_STOP : finish;
    buf_clear(scratch);
    detok_finish(&c->detok, scratch);
    if (stop_feed(&c->stop, scratch->data, scratch->len, true, &c->text)) {
        c->finish = FINISH_STOP;
        return;
    }
    stop_flush(&c->stop, &c->text);
}

bool choice_has_news(const struct choice *c)
{
    return c->n_scores_due == 0 && c->text.len > 0;
}

static void render_prompt_ids(struct choice *c, struct buf *out)
{
    const struct token_list *ids = &c->prompt->ids;

    buf_add_str(out, ",\"prompt_token_ids\":");
    if (c->has_prompt_ids_sent) {
        buf_add_str(out, "null");
        return;
    }
    c->has_prompt_ids_sent = true;
    for (size_t i = 0; i < ids->n; i++)
        buf_printf(out, "%c%d", i > 0 ? ',' : '[', ids->ids[i]);
    buf_add_char(out, ']');
}

static double ms(uint64_t us)
{
    return (double)us / 1e3;
}

/* Where the time went. What is left over is the way between the engine and here; the parts add up
 * to the total. */
static void render_timings(const struct choice *c, struct buf *out)
{
    const struct event_times *t = &c->times;
    const uint64_t known = t->queue_us + t->prefill_us + t->decode_us + t->preempted_us;
    const uint64_t total = c->total_us > known ? c->total_us : known;

    buf_printf(out,
               ",\"timings\":{\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,"
               "\"preempted_ms\":%.3f,\"delivery_ms\":%.3f,\"total_ms\":%.3f,",
               ms(t->queue_us), ms(t->prefill_us), ms(t->decode_us), ms(t->preempted_us),
               ms(total - known), ms(total));
    buf_printf(out,
               "\"n_preempted\":%u,\"prompt_tokens\":%zu,\"cached_tokens\":%u,"
               "\"completion_tokens\":%u}",
               t->n_preempted, c->prompt->ids.n, t->n_cached, c->n_tokens);
}

void choice_render(struct choice *c, struct buf *out)
{
    buf_printf(out, "{\"index\":%u,\"text\":", c->index);
    json_add_string(out, c->text.data, c->text.len);
    if (c->finish == FINISH_NONE)
        buf_add_str(out, ",\"finish_reason\":null,\"logprobs\":");
    else
        buf_printf(out, ",\"finish_reason\":\"%s\",\"logprobs\":", finish_name(c->finish));
    if (c->logprobs.n > 0)
        logprobs_render(&c->logprobs, out);
    else
        buf_add_str(out, "null");
    if (c->rules->wants_ids) {
        buf_printf(out, ",\"token_ids\":[%s]", c->ids.len > 0 ? c->ids.data : "");
        render_prompt_ids(c, out);
    }
    if (c->rules->wants_timings && c->finish != FINISH_NONE)
        render_timings(c, out);
    buf_add_char(out, '}');
    buf_clear(&c->text);
    buf_clear(&c->ids);
    logprobs_clear(&c->logprobs);
}

int choice_error(const struct choice *c)
{
    const struct buf *bufs[] = {&c->text,
                                &c->ids,
                                &c->logprobs.tokens,
                                &c->logprobs.values,
                                &c->logprobs.tops,
                                &c->logprobs.offsets};

    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
        if (bufs[i]->err < 0)
            return bufs[i]->err;
    return 0;
}
