/* server/api/completion/completion_stream.c - numbers and keeps the frames of a completion's
 * stream, and adds the comments with which another server can resume it; see completion_impl.h. */
#include "server/api/completion/completion_impl.h"

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "server/api/completion/stream_pings.h"
#include "server/http/http_call.h"
#include "server/storage/stream_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PING ": ping\n\n"

static bool is_lines(const struct completion *c)
{
    return c->api.request.wire_format->stream_type != NULL;
}

static const char *stream_content_type(const struct completion *c)
{
    const char *type = c->api.request.wire_format->stream_type;

    return type != NULL ? type : "text/event-stream";
}

/* ---- what `resume` takes ---- */

bool completion_can_be_resumed(const struct completion *c)
{
    return c->rules.keeps_tokens && c->n_choices == 1 &&
           (c->api.request.params.form & PARAMS_COMPLETIONS) != 0 &&
           c->api.request.params.sampling.mirostat_tau <= 0 &&
           c->choices[0].tokens.n == c->choices[0].n_tokens; /* no token was lost */
}

/* {"seed":…,"id":…,"created":…, without the brace that closes it */
static void open_resume(const struct completion *c, struct buf *out)
{
    buf_printf(out, "{\"seed\":%" PRIu64 ",\"id\":\"%s\",\"created\":%" PRId64,
               c->api.request.params.sampling.seed, c->answer.id, c->answer.created);
}

static void add_ids(const struct token_list *tokens, size_t from, size_t to, struct buf *out)
{
    for (size_t i = from; i < to; i++)
        buf_printf(out, i > from ? ",%d" : "%d", tokens->ids[i]);
}

/* Append `resume` with the tokens up to the latest frame. Later tokens, whose text was held back,
 * are computed and sent again, with their log-probabilities. */
static bool add_resume(const struct completion *c, struct buf *out)
{
    if (!completion_can_be_resumed(c))
        return false;
    open_resume(c, out);
    buf_add_str(out, ",\"tokens\":[");
    add_ids(&c->choices[0].tokens, 0, c->frames.n_sent, out);
    buf_add_str(out, "]}");
    return out->err == 0;
}

/* ---- numbers and comments ---- */

/* Return the length of the first of the frames at `at`. */
static size_t n_of_frame(const struct completion *c, const char *at, size_t n)
{
    const char *end = is_lines(c) ? memmem(at, n, "\n", 1) : memmem(at, n, "\n\n", 2);

    return end != NULL ? (size_t)(end - at) + (is_lines(c) ? 1 : 2) : n;
}

/* Append the comments that follow a frame's number: for the first frame the answer's id and seed;
 * for the last one of those that were written together the tokens since the previous comment. */
static void add_comments(struct completion *c, bool is_last, struct buf *out)
{
    const struct token_list *tokens = &c->choices[0].tokens;

    if (c->frames.next == 0 && completion_can_be_resumed(c)) {
        buf_add_str(out, ": resume ");
        open_resume(c, out);
        buf_add_str(out, "}\n");
    }
    if (!is_last || !c->frames.tells_tokens || !completion_can_be_resumed(c) ||
        c->answer.current == NULL || c->frames.n_sent == tokens->n)
        return;
    buf_add_str(out, ": tokens ");
    add_ids(tokens, c->frames.n_sent, tokens->n, out);
    buf_add_char(out, '\n');
}

/* Number the engine client's frames, which go to `numbered`. Returns how many they are. */
static uint64_t number_frames(struct completion *c, struct buf *numbered)
{
    const struct buf *frame = &c->api.engine->frame;
    const uint64_t first = c->frames.next;

    buf_clear(numbered);
    for (size_t at = 0, n; at < frame->len; at += n) {
        n = n_of_frame(c, frame->data + at, frame->len - at);
        if (!is_lines(c)) {
            buf_printf(numbered, "id: %" PRIu64 "\n", c->frames.next);
            add_comments(c, at + n == frame->len, numbered);
        }
        buf_add(numbered, frame->data + at, n);
        c->frames.next++;
    }
    return c->frames.next - first;
}

/* ---- writing ---- */

/* Called when the client reads too slowly, or there is no memory: end the stream. */
static void cut_frame(struct completion *c, int rc)
{
    struct http_call *call = completion_take_call(c);
    char id[280];

    log_warn("http", "event=stream_cut id=%s reason=%s",
             log_quote(id, sizeof(id), c->api.request_id),
             rc == ERR_LIMIT ? "slow_reader" : err_name(rc));
    completion_abandon(c);
    if (call != NULL)
        http_call_abort(call);
    if (c->stream != NULL)
        completion_drop_stream(c);
}

/* Send the engine client's frame, which may be empty at a stream's end. In a resumed answer, frames
 * that were sent before are only counted. */
static int write_frame(struct completion *c)
{
    struct buf *frame = &c->api.engine->frame, *out = frame;
    uint64_t n_frames = 0;

    if (frame->err < 0 || frame->len == 0)
        return frame->err;
    if (c->frames.are_numbered) {
        out = &c->api.engine->numbered;
        n_frames = number_frames(c, out);
    }
    c->frames.n_sent = c->choices[0].tokens.n;
    if (out->err < 0 || c->frames.are_past)
        return out->err;
    stream_pings_note(c->api.engine->shared->pings, &c->ping);
    if (c->stream == NULL)
        return http_call_write(c->api.call, out->data, out->len);
    kept_stream_write(c->stream, out->data, out->len, n_frames);
    return 0;
}

static void send_frame(struct completion *c)
{
    const int rc = write_frame(c);

    if (rc < 0)
        cut_frame(c, rc);
}

void completion_send_choice(struct completion *c, struct choice *choice)
{
    buf_clear(&c->api.engine->frame);
    c->answer.current = choice;
    if (c->api.request.params.continuous_usage)
        completion_count_usage(c);
    c->answer.wire_format->frame(&c->answer, choice, &c->api.engine->frame);
    send_frame(c);
}

/* End the stream: no frame follows. */
static void end_stream(struct completion *c)
{
    struct http_call *call = c->api.call;
    struct kept_stream *stream = c->stream;

    c->api.call = NULL;
    c->stream = NULL;
    stream_pings_remove(&c->ping);
    if (stream != NULL)
        kept_stream_end(stream);
    else if (call != NULL)
        http_call_end(call);
}

void completion_end_stream(struct completion *c, const struct buf *tail)
{
    struct buf *frame = &c->api.engine->frame;

    buf_clear(frame);
    c->answer.current = NULL;
    if (tail == NULL)
        c->answer.wire_format->close(&c->answer, frame);
    else if (tail->err < 0)
        frame->err = tail->err;
    else
        buf_add(frame, tail->data, tail->len);
    send_frame(c);
    completion_save_end(c, false);
    if (completion_has_client(c))
        end_stream(c);
}

void completion_fail_stream(struct completion *c, struct http_call *call, const struct api_error *e)
{
    struct buf *frame = &c->api.engine->frame;
    struct buf resume;
    struct api_error error = *e;

    buf_init(&resume, HTTP_MAX_REPLY);
    if (c->api.engine->is_stopping && add_resume(c, &resume)) {
        error.code = "resumable";
        error.resume = &resume;
    }
    buf_clear(frame);
    c->answer.current = NULL;
    c->api.request.wire_format->failure(&error, frame);
    buf_release(&resume);
    c->api.call = call;
    send_frame(c);
    completion_save_end(c, true);
    if (completion_has_client(c))
        end_stream(c);
}

/* ---- the beginning ---- */

static void on_stopped(void *ud)
{
    struct completion *c = ud;

    c->stream = NULL;
    c->saving.request = NULL;
    stream_pings_remove(&c->ping);
    completion_abandon(c);
}

void completion_drop_stream(struct completion *c)
{
    kept_stream_drop(c->stream); /* which calls on_stopped() */
}

bool completion_wants_stream_kept(const struct completion *c)
{
    const struct params *p = &c->api.request.params;

    return c->api.engine->shared->streams != NULL && p->stream && (p->form & PARAMS_POOLED) == 0 &&
           (p->resumable || p->background || c->conversation[0] != '\0');
}

int completion_keep_stream(struct completion *c)
{
    struct stream_start start = {.owner = c->api.tenant,
                                 .id = c->answer.id,
                                 .conversation = c->conversation,
                                 .type = stream_content_type(c),
                                 .is_lines = is_lines(c),
                                 .is_alone = c->api.request.params.background,
                                 .is_restored = c->api.request.params.resume.is_restored,
                                 .first_frame = c->frames.next,
                                 .stop = on_stopped,
                                 .ud = c};

    completion_save_stream(c, &start);
    return stream_store_add(&c->stream, c->api.engine->shared->streams, &start);
}

static void on_silence(struct stream_ping *ping)
{
    struct completion *c = list_entry(ping, struct completion, ping);

    if (c->stream != NULL)
        kept_stream_comment(c->stream, PING, strlen(PING));
    else if (c->api.call != NULL && http_call_n_waiting(c->api.call) == 0)
        (void)http_call_write(c->api.call, PING, strlen(PING)); /* an error is ignored: the client
                                                                 * does not need it */
}

static void set_seed_header(struct completion *c)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, c->api.request.params.sampling.seed);
    http_call_set_header(c->api.call, "X-Seed", text);
}

/* From here on the client reads the kept stream. */
static void hand_over(struct completion *c)
{
    struct http_call *call = c->api.call;
    struct api_error error;

    c->api.call = NULL;
    if (kept_stream_read(c->stream, call, (int64_t)c->frames.next - 1, &error) < 0)
        http_call_abort(call);
}

/* Answer the local call of a restored stream: its clients read the kept stream with calls of their
 * own. */
static void answer_restored(struct completion *c)
{
    struct http_call *call = c->api.call;
    struct buf none = {0};

    c->api.call = NULL;
    http_call_reply(call, 204, "", &none);
}

void completion_begin_stream(struct completion *c)
{
    if (c->frames.are_numbered)
        set_seed_header(c);
    if (!is_lines(c)) {
        c->ping.ping = on_silence;
        stream_pings_note(c->api.engine->shared->pings, &c->ping);
    }
    if (c->api.request.params.resume.is_restored) {
        answer_restored(c);
    } else if (c->stream != NULL) {
        hand_over(c);
    } else {
        http_call_set_header(c->api.call, "Cache-Control", "no-cache");
        http_call_stream(c->api.call, stream_content_type(c));
    }
    for (uint32_t i = 0; i < c->n_choices && completion_has_client(c); i++)
        if (choice_has_output(&c->choices[i])) /* an echo without scores */
            completion_send_choice(c, &c->choices[i]);
}

/* ---- an answer that is gone on with ---- */

/* Make the frames of tokens that were sent before. write_frame() only counts them, and everything
 * that depends on them advances: held-back text, frame numbers, calls and thoughts. */
static void send_output(struct completion *c, struct choice *choice)
{
    if (c->api.request.params.stream && choice_has_output(choice))
        completion_send_choice(c, choice);
}

static void pass_tokens(struct completion *c, uint32_t from, uint32_t to)
{
    const struct resume_spec *resume = &c->api.request.params.resume;
    struct choice *choice = &c->choices[0];
    struct event e = {.kind = EVENT_TOKEN};

    choice->is_past = true;
    for (uint32_t i = from; i < to && !choice->has_stopped; i++) {
        const bool is_last = i + 1 == resume->n;

        e.token = resume->tokens[i];
        e.pos = i;
        e.is_eog = is_last && c->api.request.resume_is_eog;
        e.is_complete = is_last && c->api.request.resume_is_complete;
        if (choice_token(choice, &e, &c->api.engine->scratch))
            break;
        send_output(c, choice);
    }
    choice->is_past = false;
}

void completion_pass_tokens(struct completion *c)
{
    const struct resume_spec *resume = &c->api.request.params.resume;
    struct choice *choice = &c->choices[0];

    if (resume->is_restored && !resume->has_past)
        return;
    c->frames.are_past = true;
    choice_pass_prompt(choice);
    send_output(c, choice);
    pass_tokens(c, 0, resume->is_restored ? resume->n_past : resume->n);
    if (!c->api.request.params.stream)
        choice_clear(choice);
    c->frames.are_past = false;
}

void completion_restore_tokens(struct completion *c)
{
    const struct resume_spec *resume = &c->api.request.params.resume;

    send_output(c, &c->choices[0]); /* an echo */
    pass_tokens(c, resume->n_past, resume->n);
}
