/* server/cli/generate.c - `quire generate`: continues a text on the terminal.
 *
 * It uses the same path as a request over HTTP: a request is posted to the queue, the engine thread
 * computes it, and events are taken from the queue and printed until the end.
 */
#include "server/cli/command.h"

#include "config/config.h"
#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/tokenizer/tokenizer.h"
#include "scheduler/engine_loop.h"
#include "server/models/instance.h"

#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#define NOT_GIVEN INT64_MIN /* an integer that was not given; other numbers: NAN */

struct spec {
    const char *prompt;
    int64_t max_tokens, top_k, seed;
    double temperature, top_p, min_p;
};

static void print_generate_help(void)
{
    fputs("quire generate --prompt TEXT [settings]\n"
          "  --max-tokens N    most tokens to generate [256]\n"
          "  --temperature T   0: always the most probable token [0.8]\n"
          "  --top-p P         [0.95]\n"
          "  --top-k K         0: off [0]\n"
          "  --min-p P         [0]\n"
          "  --seed N          [0]\n"
          "An option that is not given has the value of the settings, else of the model's file,\n"
          "else the one in []. The continuation is printed as it is generated, and the speed on\n"
          "standard error. The settings of quire serve are accepted, such as --model.\n",
          stdout);
}

static bool read_spec(int *argc, char **argv, struct spec *w)
{
    *w = (struct spec){.max_tokens = NOT_GIVEN, .top_k = NOT_GIVEN,
                       .temperature = NAN, .top_p = NAN, .min_p = NAN};
    return command_take_value(argc, argv, "--prompt", &w->prompt) &&
           command_take_int(argc, argv, "--max-tokens", 1, INT32_MAX / 16, &w->max_tokens) &&
           command_take_float(argc, argv, "--temperature", 0, 2, &w->temperature) &&
           command_take_float(argc, argv, "--top-p", 0, 1, &w->top_p) &&
           command_take_int(argc, argv, "--top-k", 0, INT32_MAX, &w->top_k) &&
           command_take_float(argc, argv, "--min-p", 0, 1, &w->min_p) &&
           command_take_int(argc, argv, "--seed", INT64_MIN, INT64_MAX, &w->seed);
}

static void or_default(double *value, const struct sampling_defaults *d,
                       enum sampling_default what, double own)
{
    if (isnan(*value))
        *value = sampling_defaults_get(d, what, own);
}

static void or_whole_default(int64_t *value, const struct sampling_defaults *d,
                             enum sampling_default what, double own)
{
    if (*value == NOT_GIVEN)
        *value = (int64_t)sampling_defaults_get(d, what, own);
}

/* Set the options that were not given on the command line to the defaults. */
static void complete_spec(struct spec *w, const struct sampling_defaults *d)
{
    or_whole_default(&w->max_tokens, d, SAMPLING_MAX_TOKENS, 256);
    or_whole_default(&w->top_k, d, SAMPLING_TOP_K, 0);
    or_default(&w->temperature, d, SAMPLING_TEMPERATURE, 0.8);
    or_default(&w->top_p, d, SAMPLING_TOP_P, 0.95);
    or_default(&w->min_p, d, SAMPLING_MIN_P, 0);
    w->top_k = w->top_k > 0 ? w->top_k : 0;
}

/* Set the parameters that have no flag. */
static void set_others(struct sampling *s, const struct sampling_defaults *d)
{
    s->repetition_penalty = (float)sampling_defaults_get(d, SAMPLING_REPETITION_PENALTY, 1);
    s->presence_penalty = (float)sampling_defaults_get(d, SAMPLING_PRESENCE_PENALTY, 0);
    s->frequency_penalty = (float)sampling_defaults_get(d, SAMPLING_FREQUENCY_PENALTY, 0);
    s->xtc_probability = (float)sampling_defaults_get(d, SAMPLING_XTC_PROBABILITY, 0);
    s->xtc_threshold = (float)sampling_defaults_get(d, SAMPLING_XTC_THRESHOLD, 0.1);
    if (sampling_defaults_get(d, SAMPLING_MIROSTAT, 0) != 0) {
        s->mirostat_tau = (float)sampling_defaults_get(d, SAMPLING_MIROSTAT_TAU, 5);
        s->mirostat_eta = (float)sampling_defaults_get(d, SAMPLING_MIROSTAT_ETA, 0.1);
    }
}

/* Make a request of the prompt; *out is NULL on failure, which has been reported. */
static void make_generate_request(const struct instance *e, const struct spec *w,
                                  struct request **out)
{
    struct token_list ids = {0};
    struct request_size size = {0};
    struct sampling others = {0};
    const uint32_t room = e->sched.max_context;
    int rc = tokenizer_encode(e->tokenizer, w->prompt, strlen(w->prompt),
                              TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, room, NULL, &ids);

    *out = NULL;
    if (rc == 0 && (ids.n == 0 || ids.n >= room))
        rc = ERR_LIMIT;
    if (rc == 0) {
        size.n_prompt = (uint32_t)ids.n;
        size.max_tokens = (uint32_t)w->max_tokens;
        if (size.max_tokens > room - size.n_prompt)
            size.max_tokens = room - size.n_prompt;
        set_others(&others, &e->sampling);
        size.penalties = sampling_has_penalty(&others);
        rc = request_create(out, &size);
    }
    if (rc == 0) {
        struct request *r = *out;

        r->id = 1;
        r->arrival_us = clock_us();
        memcpy(r->ids, ids.ids, ids.n * sizeof(*ids.ids));
        set_others(&r->sampling, &e->sampling);
        r->mirostat_mu = 2 * r->sampling.mirostat_tau;
        r->sampling.temperature = (float)w->temperature;
        r->sampling.top_p = (float)w->top_p;
        r->sampling.top_k = (int32_t)w->top_k;
        r->sampling.min_p = (float)w->min_p;
        r->sampling.seed = (uint64_t)w->seed;
    } else {
        command_fail(EXIT_FAILED, "the prompt (%zu tokens, context %u): %s", ids.n, room,
                     err_text(rc));
    }
    token_list_release(&ids);
}

static void on_generate_wake(void *ud)
{
    sem_post(ud);
}

static void print_token(struct detok *d, struct buf *text, const struct event *e)
{
    if (e->is_eog || detok_feed(d, e->token, text) < 0 || text->len == 0)
        return;
    fwrite(text->data, 1, text->len, stdout);
    fflush(stdout);
    buf_clear(text);
}

/* Print events until the end; returns how the request ended. */
static enum finish follow_answer(const struct instance *e, struct queue *q, sem_t *wake)
{
    enum finish finish = FINISH_NONE;
    struct event events[16];
    uint64_t first_us = 0;
    uint32_t n_tokens = 0;
    struct detok detok;
    struct buf text;

    detok_init(&detok, e->tokenizer, false);
    buf_init(&text, 1 << 20);
    while (finish == FINISH_NONE) {
        const size_t n = queue_take_events(q, events, 16);

        for (size_t i = 0; i < n; i++) {
            if (events[i].kind == EVENT_END) {
                finish = events[i].finish;
                continue;
            }
            first_us = n_tokens++ == 0 ? clock_us() : first_us;
            print_token(&detok, &text, &events[i]);
        }
        if (n == 0)
            sem_wait(wake);
    }
    if (detok_finish(&detok, &text) == 0 && text.len > 0)
        fwrite(text.data, 1, text.len, stdout);
    putchar('\n');
    buf_release(&text);
    if (n_tokens > 1)
        fprintf(stderr, "%u tokens, %.1f a second, finish: %s\n", n_tokens,
                (n_tokens - 1) * 1e6 / (double)(clock_us() - first_us), finish_name(finish));
    return finish;
}

static int run_generate(struct instance *e, const struct config *c, struct request *r)
{
    struct engine_loop_options options = {
        .sched = e->sched, .runner = e->runner, .kv_options = &e->cache, .kv = e->kv};
    struct queue *queue = NULL;
    struct engine_loop *loop = NULL;
    sem_t wake;
    const struct queue_options qo = {
        .max_outstanding = 1,
        .max_events = e->sched.max_batch_tokens + 16,
        .wake = on_generate_wake,
        .wake_ud = &wake,
    };
    enum finish finish = FINISH_ERROR;

    sem_init(&wake, 0, 0);
    options.step_target_ms = (uint32_t)c->step_target_ms;
    options.eog = tokenizer_eog(e->tokenizer, &options.n_eog);
    if (queue_create(&queue, &qo) == 0) {
        options.queue = queue;
        if (engine_loop_create(&loop, &options) == 0 && engine_loop_start(loop) == 0) {
            if (queue_post(queue, r) == 0) {
                r = NULL; /* the engine owns it now */
                finish = follow_answer(e, queue, &wake);
            }
            queue_close(queue, true);
            engine_loop_join(loop);
        }
    }
    request_destroy(&r);
    engine_loop_destroy(&loop);
    queue_destroy(&queue);
    sem_destroy(&wake);
    return finish == FINISH_ERROR ? command_fail(EXIT_FAILED, "the engine could not be started")
                                  : EXIT_OK;
}

int cmd_generate(int argc, char **argv)
{
    struct config config;
    struct instance engine;
    struct request *request;
    struct spec spec;
    char err[512];
    bool done;
    int code;

    if (!read_spec(&argc, argv, &spec))
        return EXIT_USAGE;
    code = command_config(&config, argc, argv, print_generate_help, &done);
    if (done)
        return code;
    if (spec.prompt == NULL)
        code = command_fail(EXIT_USAGE, "generate needs --prompt TEXT (quire generate --help)");
    else if ((code = instance_init(&engine, &config, 0, err, sizeof(err))) != EXIT_OK)
        command_fail(code, "%s", err);
    else {
        complete_spec(&spec, &engine.sampling);
        make_generate_request(&engine, &spec, &request);
        code = request != NULL ? run_generate(&engine, &config, request) : EXIT_FAILED;
        instance_release(&engine);
    }
    config_release(&config);
    return code;
}
