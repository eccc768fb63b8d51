/* server/api/completion/completion_answer.c - the answer without a stream: one JSON object,
 * rendered when all choices have ended; see completion_impl.h.
 *
 * The I/O thread renders a short answer itself. A long one (vectors of many tokens, the
 * log-probabilities of a long prompt) would block it for seconds: a thread of the answer pool
 * renders it, and stops when the client disconnects. Nothing else uses the choices then, because
 * all have ended.
 */
#include "server/api/completion/completion_impl.h"

#include "core/base/list.h"
#include "server/http/http_call.h"

#include <string.h>
#include <xxhash.h>

/* Bytes of an answer that the I/O thread writes in a few milliseconds, also if they are numbers of
 * vectors. */
#define SHORT_ANSWER ((uint64_t)32 << 10)

/* ---- which choices ---- */

/* Return the mean log-probability of the choice's tokens; without tokens 0, the highest
 * possible. */
static double mean_logprob(const struct choice *c)
{
    return c->n_tokens > 0 ? c->sum_logprob / c->n_tokens : 0;
}

/* Move choices[from] to index `to`, and the choices between by one. */
static void choice_move(struct choice *choices, uint32_t to, uint32_t from)
{
    const struct choice moved = choices[from];

    for (; from > to; from--)
        choices[from] = choices[from - 1];
    choices[to] = moved;
}

/* Sort each group of n_each choices by mean log-probability, best first, and move the first n of
 * each group to the front of the array, numbered from 0 on. Equal choices keep their order. */
static void take_best(struct choice *choices, uint32_t n_prompts, uint32_t n_each, uint32_t n)
{
    for (uint32_t i = 0; i < n_prompts * n; i++) {
        const uint32_t end = (i / n + 1) * n_each; /* end of the prompt's choices, which moves do
                                                    * not change */
        uint32_t best = end - n_each + i % n;

        for (uint32_t k = best + 1; k < end; k++)
            if (mean_logprob(&choices[k]) > mean_logprob(&choices[best]))
                best = k;
        choice_move(choices, i, best);
        choices[i].index = i;
    }
}

/* ---- the bytes ---- */

/* Return the bytes that scores of late interaction read again and again; 0: there are none. */
static uint64_t compared_bytes(const struct params *p, const struct prompt *prompt)
{
    return (p->form & PARAMS_PAIRS) != 0 && prompt->is_each ? prompt->pooled_bytes : 0;
}

/* Estimate the answer's bytes from above, without the escapes of JSON; vectors that it is computed
 * from count too. */
static uint64_t answer_bytes(const struct completion *c)
{
    const struct params *p = &c->api.request.params;
    uint64_t bytes = c->api.request.echo.len;

    for (uint32_t i = 0; i < c->answer.n_choices; i++)
        bytes += request_memory_of_choice(&c->choices[i]) + c->choices[i].prompt->scores.len +
                 request_memory_of_vectors(p, c->choices[i].prompt) +
                 compared_bytes(p, c->choices[i].prompt);
    return bytes;
}

static void answer_reply(struct completion *c)
{
    struct http_call *call = c->api.call;

    c->api.call = NULL;
    if (call != NULL)
        http_call_reply(call, 200, "application/json", &c->whole);
    completion_advance(c, COMPLETION_END);
}

static void render_work(struct worker_job *job)
{
    struct api_call *api = list_entry(job, struct api_call, job);
    struct completion *c = list_entry(api, struct completion, api);

    c->answer.canceled = &job->canceled;
    if (!atomic_load(&job->canceled))
        c->answer.wire_format->whole(&c->answer, &c->whole);
}

static void render_done(struct worker_job *job)
{
    struct api_call *api = list_entry(job, struct api_call, job);

    answer_reply(list_entry(api, struct completion, api));
}

static void render_on_pool(struct completion *c)
{
    struct worker_job *job = &c->api.job;
    struct api_error error;

    job->work = render_work;
    job->done = render_done;
    job->name = "completion.rendered";
    job->owner = XXH3_64bits(c->api.tenant, strlen(c->api.tenant));
    if (worker_pool_post(c->api.engine->shared->answer_pool, job) == 0)
        return;
    api_error_set(&error, 429, NULL, "queue_full", "too many large answers are being written");
    completion_fail(c, &error);
    completion_advance(c, COMPLETION_END);
}

void completion_answer_whole(struct completion *c)
{
    const struct params *p = &c->api.request.params;

    if (p->n_each > p->n)
        take_best(c->choices, p->n_prompts, p->n_each, p->n);
    c->answer.n_choices = p->n_prompts * p->n;
    if (answer_bytes(c) > SHORT_ANSWER) {
        render_on_pool(c);
        return;
    }
    c->answer.wire_format->whole(&c->answer, &c->whole);
    answer_reply(c);
}
