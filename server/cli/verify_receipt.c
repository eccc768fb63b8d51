/* server/cli/verify_receipt.c - see verify_receipt.h.
 *
 * First the weights and settings of the receipt are compared with the loaded model's; then its
 * defaults are put into force and its request is parsed by the same code as in a server. Each
 * choice is found among the parsed requests by the digest of its prompt, gets the recorded seed,
 * and is posted to the engine. The tokens are compared one by one as they come.
 */
#include "server/cli/verify_receipt.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/version.h"
#include "core/json/json.h"
#include "core/model/adapter.h"
#include "core/model/sampling_defaults.h"
#include "scheduler/queue.h"
#include "server/api/api_request.h"
#include "server/api/response/response_writer.h"
#include "server/cli/diff_report.h"
#include "server/cli/receipt_origin.h"
#include "server/cli/serve_model.h"
#include "server/api/response/digest.h"
#include "server/api/response/receipt.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Why the decisions of a receipt cannot be compared. */
#define OTHER_LABELS                                                                               \
    ": its decisions cannot be compared (another tokenizer or template, or a changed receipt)"

/* ---- output ---- */

__attribute__((format(printf, 2, 3))) static void differs(struct verifier *v, const char *format,
                                                          ...)
{
    va_list args;

    va_start(args, format);
    printf("%s: ", v->place);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    v->n_different++;
}

/* ---- members of a receipt ---- */

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static const char *receipt_text(const cJSON *object, const char *name)
{
    const cJSON *item = member(object, name);

    return cJSON_IsString(item) ? item->valuestring : "";
}

static double receipt_number(const cJSON *object, const char *name, double otherwise)
{
    const cJSON *item = member(object, name);

    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

/* Return an integer >= 0; `otherwise` if the item is none. */
static int64_t whole_of(const cJSON *item, int64_t otherwise)
{
    const double x = cJSON_IsNumber(item) ? item->valuedouble : -1;

    return x >= 0 && x <= INT32_MAX && x == (double)(int32_t)x ? (int64_t)x : otherwise;
}

/* ---- comparing the model ---- */

/* Return true if the receipt's weights are those of the model. */
static bool are_weights_of(const struct instance *e, const cJSON *list)
{
    if ((uint32_t)cJSON_GetArraySize(list) != e->n_weights)
        return false;
    for (uint32_t i = 0; i < e->n_weights; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, (int)i);

        if (!cJSON_IsString(item) || strcmp(item->valuestring, e->weights[i]) != 0)
            return false;
    }
    return true;
}

/* Refuse to compare with the demo model that nobody named, as a command without --model would. */
static bool is_model_named(struct verifier *v, const cJSON *receipt)
{
    if (v->model->config.model[0] != '\0' ||
        are_weights_of(&v->model->engine, member(receipt, "weights")))
        return true;
    differs(v, "its weights are not those of the built-in model: name a model's file with --model");
    return false;
}

static bool has_same_weights(struct verifier *v, const cJSON *receipt)
{
    const struct instance *e = &v->model->engine;
    const cJSON *list = member(receipt, "weights");
    const int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;

    if (are_weights_of(e, list))
        return true;
    if ((uint32_t)n != e->n_weights) {
        differs(v, "the receipt's model has %d files, but this model has %u", n, e->n_weights);
        return false;
    }
    for (int i = 0; i < n; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, i);
        const char *there = cJSON_IsString(item) ? item->valuestring : "";

        if (strcmp(there, e->weights[i]) == 0)
            continue;
        differs(v, "file %d of the model has the digest %s here, but %.*s in the receipt", i + 1,
                e->weights[i], DIGEST_TEXT, there);
        return false;
    }
    return true;
}

static bool has_same_settings(struct verifier *v, const cJSON *receipt)
{
    static const char *const names[] = {RECEIPT_SETTINGS};
    const cJSON *settings = member(receipt, "settings");
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu32, v->model->engine.model->shape.n_ctx);
    if (strcmp(receipt_text(settings, "context"), text) != 0) {
        differs(v, "context is %s here, but '%.20s' in the receipt", text,
                receipt_text(settings, "context"));
        return false;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *here = config_show(&v->model->config, names[i], text, sizeof(text));

        if (strcmp(receipt_text(settings, names[i]), here) == 0)
            continue;
        differs(v, "%s is '%s' here, but '%.40s' in the receipt", names[i], here,
                receipt_text(settings, names[i]));
        return false;
    }
    return true;
}

static enum thinking thinking_of(const cJSON *item)
{
    const int64_t x = whole_of(item, THINKING_UNSET);

    return x <= THINKING_ON ? (enum thinking)x : THINKING_UNSET;
}

/* Put the defaults of the receipt into force. */
static void take_defaults(struct verifier *v, const cJSON *receipt)
{
    const cJSON *d = member(receipt, "defaults");
    struct sampling_defaults *s = &v->model->engine.sampling;
    struct request_defaults *r = &v->model->defaults;

    *s = (struct sampling_defaults){0};
    for (uint32_t i = 0; i < SAMPLING_DEFAULT_COUNT; i++) {
        const cJSON *item = member(d, sampling_default_name((enum sampling_default)i));

        if (cJSON_IsNumber(item))
            sampling_defaults_set(s, (enum sampling_default)i, item->valuedouble);
    }
    request_defaults_release(r);
    *r = (struct request_defaults){
        .thinking = thinking_of(member(d, "thinking")),
        .reasoning_budget = (int32_t)whole_of(member(d, "reasoning_budget"), -1),
        .permutations = (uint32_t)whole_of(member(d, "permutations"), 1),
        .template_kwargs = cJSON_Duplicate(member(d, "chat_template_kwargs"), true),
    };
    (void)request_defaults_take_message(r, receipt_text(d, "reasoning_budget_message"));
}

/* ---- the request ---- */

static const struct wire_format *format_of(const cJSON *receipt)
{
    static const struct wire_format *const all[] = {&wire_openai_completions, &wire_openai_chat,
                                                    &wire_openai_decisions, &wire_systemone};
    const char *endpoint = receipt_text(receipt, "endpoint");

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->endpoint, endpoint) == 0)
            return all[i];
    return NULL;
}

static bool parse_receipt(struct verifier *v, const cJSON *receipt, const char *text, size_t n,
                          struct api_request *p)
{
    const struct api_headers headers = {.now = whole_of(member(receipt, "time"), 0),
                                        .keeps_streams = true};
    const struct wire_format *format = format_of(receipt);
    struct server_model info = v->model->info;
    struct buf body;
    const char *value;
    size_t len;
    int rc;

    if (format == NULL || !json_member_text(text, n, "request", &value, &len)) {
        differs(v, "it is not a receipt of a completion, a chat or decisions");
        return false;
    }
    info.aliases = "*"; /* accept the model's name of the receipt, which may differ here */
    buf_init(&body, len + 1);
    rc = buf_add(&body, value, len);
    if (rc == 0)
        api_request_parse(p, &info, format, &body, &headers, NULL);
    buf_release(&body);
    if (rc == 0 && p->error.status == 0)
        return true;
    differs(v, "its request cannot be read: %s", rc < 0 ? err_text(rc) : p->error.message);
    return false;
}

/* Take the adapter of the receipt, whatever the request would select here. */
static bool take_adapter(struct verifier *v, const cJSON *receipt, struct api_request *p)
{
    const cJSON *adapter = member(receipt, "adapter");
    struct adapter_choice *choice = &p->params.adapter;
    struct adapter_wait wait = {0};
    struct adapter *a = NULL;
    struct api_error e = {0};
    char numbers[40];

    *choice = (struct adapter_choice){.scale = (float)receipt_number(adapter, "scale", 1)};
    if (adapter == NULL)
        return true;
    snprintf(choice->name, sizeof(choice->name), "%s", receipt_text(adapter, "name"));
    if (v->model->adapters == NULL ||
        adapter_set_take(v->model->adapters, choice->name, &wait, &a, &e) < 0 || a == NULL) {
        differs(v, "the adapter '%s' is missing: name it with --adapters NAME=PATH", choice->name);
        return false;
    }
    snprintf(numbers, sizeof(numbers), "%016" PRIx64 "%016" PRIx64, a->id[1], a->id[0]);
    if (strcmp(numbers, receipt_text(adapter, "numbers")) != 0) {
        differs(v, "the adapter '%s' has the digest %s here, but %.32s in the receipt",
                choice->name, numbers, receipt_text(adapter, "numbers"));
        adapter_unref(&a);
        return false;
    }
    api_request_adapt(p, a);
    return true;
}

/* ---- choices ---- */

struct expected {
    struct token_list tokens;
    const cJSON *labels;         /* of a decision, else NULL */
    const struct prompt *prompt; /* has the labels that are computed here */
    uint32_t n_same;
    bool is_over;
};

static int read_tokens(const cJSON *list, struct token_list *out)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, list) {
        const int64_t id = whole_of(item, -1);

        if (id < 0 || token_list_add(out, (int32_t)id, SIZE_MAX) < 0)
            return ERR_INVAL;
    }
    return 0;
}

/* Return a label's log-probability, which a receipt has as a number; -infinity is written as -9999.
 * NAN: it is damaged. */
static float label_of(const cJSON *item)
{
    const double x = cJSON_IsNumber(item) ? item->valuedouble : NAN;

    if (!(x >= -9999 && x <= 0))
        return NAN;
    return x > -9999 ? (float)x : -INFINITY;
}

static bool is_consistent(struct verifier *v, const cJSON *choice, const struct expected *x)
{
    char digest[DIGEST_TEXT];

    if (digest_tokens(x->tokens.ids, x->tokens.n, digest) == 0 &&
        strcmp(digest, receipt_text(choice, "answer")) == 0)
        return true;
    differs(v, "the receipt is damaged: its tokens do not match its digest");
    return false;
}

/* Check the log-probabilities of a decision's labels, which the digest does not cover. */
static bool has_sound_labels(struct verifier *v, const cJSON *choice)
{
    const cJSON *list = member(choice, "labels"), *item;

    if (list != NULL && !cJSON_IsArray(list)) {
        differs(v, "the receipt is damaged: its labels are not a list");
        return false;
    }
    cJSON_ArrayForEach(item, list)
        if (isnan(label_of(item))) {
            differs(v, "the receipt is damaged: a label's number is not a log-probability");
            return false;
        }
    return true;
}

static bool has_prompt(const struct request *r, const cJSON *choice)
{
    char digest[DIGEST_TEXT];

    return r != NULL && digest_tokens(r->ids, r->n_prompt, digest) == 0 &&
           strcmp(digest, receipt_text(choice, "prompt")) == 0;
}

/* Find the first remaining request with the choice's prompt; NULL: there is none. Choices of one
 * prompt differ only in their seeds, and with best_of in their indexes. */
static struct request **find_request(struct verifier *v, const cJSON *choice,
                                     const struct api_request *p)
{
    const uint32_t index = (uint32_t)whole_of(member(choice, "index"), 0);

    /* Usually it is the request of the choice's index. */
    if (index < p->n_choices && has_prompt(p->requests[index], choice))
        return &p->requests[index];
    for (uint32_t i = 0; i < p->n_choices; i++)
        if (has_prompt(p->requests[i], choice))
            return &p->requests[i];
    if (v->diff != NULL && index < p->n_choices && p->requests[index] != NULL) {
        v->diff->n_other_prompts++;
        return &p->requests[index];
    }
    differs(
        v,
        "the prompt of choice %" PRId64
        " differs from the receipt's: check that the chat template and its variables are the same",
        whole_of(member(choice, "index"), 0));
    return NULL;
}

/* Remove time limits and reports that only a waiting client needs. */
static void prepare_choice(struct verifier *v, const cJSON *choice, const struct expected *x,
                           struct request *r)
{
    const uint32_t n = (uint32_t)x->tokens.n;

    r->id = v->next_id++;
    r->arrival_us = clock_us();
    r->deadline_us = r->timeout_us = r->queue_until_us = r->first_by_us = 0;
    r->sampling.seed = strtoull(receipt_text(choice, "seed"), NULL, 10);
    r->score_prompt = r->reports_progress = false;
    r->max_tokens = n < r->max_tokens ? n : r->max_tokens;
}

/* Compare the tokens as they come. The recorded answer may be shorter, because a stop string ends
 * an answer before the limit: the comparison ends with its last token. */
static void follow_choice(struct verifier *v, struct expected *x)
{
    struct event events[16];

    while (!x->is_over) {
        const size_t n = queue_take_events(v->model->queue, events, 16);

        for (size_t i = 0; i < n; i++) {
            if (events[i].kind == EVENT_END)
                x->is_over = true;
            else if (events[i].kind == EVENT_TOKEN && events[i].pos == x->n_same &&
                     x->n_same < x->tokens.n && events[i].token == x->tokens.ids[x->n_same])
                x->n_same++;
        }
        if (n == 0)
            sem_wait(v->wake);
    }
}

/* Compare the log-probabilities of a decision's labels, bit for bit. */
static bool has_same_labels(struct verifier *v, const cJSON *choice, const struct expected *x)
{
    const uint32_t n = x->prompt != NULL ? x->prompt->n_labels : 0;
    const cJSON *item = x->labels != NULL ? x->labels->child : NULL;
    const int64_t index = whole_of(member(choice, "index"), 0);

    if ((uint32_t)cJSON_GetArraySize(x->labels) != n) {
        differs(v, "choice %" PRId64 " has %d labels in the receipt, but %u here", index,
                cJSON_GetArraySize(x->labels), n);
        return false;
    }
    for (uint32_t i = 0; i < n; i++, item = item->next) {
        const float here = x->prompt->label_logprobs[i], there = label_of(item);

        if (memcmp(&here, &there, sizeof(here)) == 0)
            continue;
        differs(v,
                "choice %" PRId64 ": option %u has the log-probability %.9g here, but %.9g in "
                "the receipt",
                index, i, (double)here, (double)there);
        return false;
    }
    return true;
}

static void tell_choice(struct verifier *v, const cJSON *choice, const struct expected *x)
{
    const int64_t index = whole_of(member(choice, "index"), 0);

    v->n_tokens += x->n_same;
    if (v->diff != NULL) {
        if (x->labels == NULL) /* decisions are compared when all their orders are computed */
            diff_report_answer(v->diff, v->place, (uint32_t)index, x->n_same, x->tokens.n);
        return;
    }
    if (x->n_same < x->tokens.n) {
        differs(v, "choice %" PRId64 " differs from token %u of %zu on", index, x->n_same + 1,
                x->tokens.n);
        return;
    }
    if (!has_same_labels(v, choice, x))
        return;
    if (x->labels != NULL)
        printf("%s: prompt %" PRId64 " is equal: %u labels\n", v->place, index,
               x->prompt->n_labels);
    else
        printf("%s: choice %" PRId64 " is equal: %zu tokens\n", v->place, index, x->tokens.n);
    v->n_equal++;
}

static void check_choice(struct verifier *v, const cJSON *choice, const struct api_request *p)
{
    struct expected x = {0};
    struct request **r = NULL;

    if (read_tokens(member(choice, "tokens"), &x.tokens) < 0)
        differs(v, "its tokens cannot be read");
    else if (is_consistent(v, choice, &x) && has_sound_labels(v, choice) &&
             (r = find_request(v, choice, p)) != NULL) {
        x.labels = member(choice, "labels");
        x.prompt = &p->prompts[(r - p->requests) / p->params.n_each];
        prepare_choice(v, choice, &x, *r);
        if ((x.tokens.n > 0 || x.labels != NULL) && queue_post(v->model->queue, *r) == 0) {
            *r = NULL; /* the engine owns it */
            follow_choice(v, &x);
        }
        tell_choice(v, choice, &x);
    }
    token_list_release(&x.tokens);
}

/* Return true if all choices of the receipt were computed again. */
static bool check_choices(struct verifier *v, const cJSON *receipt, const struct api_request *p)
{
    const int n = cJSON_GetArraySize(member(receipt, "choices"));
    const bool is_decision = p->params.decisions.n_questions > 0;
    const uint64_t n_before = v->n_different;
    const cJSON *choice;

    if (n == 0)
        differs(v, "it has no choices");
    else if (is_decision && (uint32_t)n != p->params.n_prompts)
        differs(v, "its questions are %d prompts in the receipt, but %u here%s", n,
                p->params.n_prompts, v->diff != NULL ? OTHER_LABELS : "");
    if (v->diff != NULL && v->n_different > n_before)
        return false;
    cJSON_ArrayForEach(choice, member(receipt, "choices"))
        check_choice(v, choice, p);
    return v->n_different == n_before;
}

/* Read the log-probabilities of a choice's labels; false: they are not those of the prompt. */
static bool read_labels(const cJSON *choice, struct prompt *prompt)
{
    const cJSON *list = member(choice, "labels"), *item;
    uint32_t n = 0;

    if ((uint32_t)cJSON_GetArraySize(list) != prompt->n_labels)
        return false;
    prompt->label_logprobs = mem_calloc(prompt->n_labels + 1u, sizeof(*prompt->label_logprobs));
    if (prompt->label_logprobs == NULL)
        return false;
    cJSON_ArrayForEach(item, list)
        prompt->label_logprobs[n++] = label_of(item);
    return true;
}

static void free_recorded(struct prompt *prompts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        mem_free(prompts[i].label_logprobs);
    mem_free(prompts);
}

/* Return the prompts of the call with the log-probabilities of the receipt, whose choices have
 * their prompts' numbers; NULL: it has other labels. */
static struct prompt *take_recorded(const cJSON *receipt, const struct api_request *p)
{
    const uint32_t n = p->params.n_prompts;
    struct prompt *prompts = mem_calloc(n, sizeof(*prompts));
    const cJSON *choice;
    uint32_t n_read = 0;

    if (prompts == NULL)
        return NULL;
    cJSON_ArrayForEach(choice, member(receipt, "choices")) {
        const int64_t i = whole_of(member(choice, "index"), n);

        if (i >= n || prompts[i].label_logprobs != NULL)
            break;
        prompts[i] = p->prompts[i]; /* with the paths of the labels */
        prompts[i].label_logprobs = NULL;
        if (!read_labels(choice, &prompts[i]))
            break;
        n_read++;
    }
    if (n_read == n)
        return prompts;
    free_recorded(prompts, n);
    return NULL;
}

/* Compare the answers of all questions, whose orders are choices of the receipt. */
static void diff_questions(struct verifier *v, const cJSON *receipt, const struct api_request *p)
{
    const struct decision_set *s = &p->params.decisions;
    struct prompt *recorded = take_recorded(receipt, p);

    if (recorded == NULL) {
        differs(v, "the options have other labels in the receipt%s", OTHER_LABELS);
        return;
    }
    for (uint32_t i = 0; i < s->n_questions; i++) {
        struct decision_result before, after;

        decision_result_read(&before, &s->questions[i], recorded);
        decision_result_read(&after, &s->questions[i], p->prompts);
        diff_report_decision(v->diff, v->place, i, &s->questions[i], s->options, &before, &after);
    }
    free_recorded(recorded, p->params.n_prompts);
}

static void check_receipt(struct verifier *v, const cJSON *receipt, const char *text, size_t n)
{
    struct api_request p = {0};

    if (member(receipt, "receipt") == NULL && (member(receipt, "error") != NULL)) {
        differs(v, "it has no receipt: its answer is an error");
        return;
    }
    if (member(receipt, "receipt") == NULL) {
        differs(v, "it has no receipt: ask with \"receipt\": true, and set receipts = on");
        return;
    }
    if (receipt_number(receipt, "receipt", 0) != RECEIPT_VERSION) {
        differs(v, "it is not a receipt of version %d", RECEIPT_VERSION);
        return;
    }
    if (strcmp(receipt_text(receipt, "quire"), quire_version()) != 0)
        printf("%s: note: it was computed by version %.80s, this is %s\n", v->place,
               receipt_text(receipt, "quire"), quire_version());
    if (!is_model_named(v, receipt))
        return;
    if (v->diff == NULL && (!has_same_weights(v, receipt) || !has_same_settings(v, receipt)))
        return;
    take_defaults(v, receipt);
    if (parse_receipt(v, receipt, text, n, &p) && take_adapter(v, receipt, &p)) {
        const bool is_whole = check_choices(v, receipt, &p);

        if (v->diff != NULL && is_whole && p.params.decisions.n_questions > 0)
            diff_questions(v, receipt, &p);
    }
    api_request_release(&p);
}

/* Go from a line to its receipt, in the tree and, unless *text is NULL, in the text. */
static const cJSON *enter_receipt(const cJSON *line, const char **text, size_t *n)
{
    static const char *const path[] = {"response", "body", "receipt"};
    const int first = cJSON_IsObject(member(line, path[0])) ? 0 : 2;

    for (int i = first; i < 3 && cJSON_IsObject(member(line, path[i])); i++) {
        const char *inner;
        size_t len;

        line = member(line, path[i]);
        if (*text != NULL && json_member_text(*text, *n, path[i], &inner, &len)) {
            *text = inner;
            *n = len;
        }
    }
    return line;
}

const cJSON *verify_receipt_find(const cJSON *line)
{
    const char *text = NULL;
    size_t n = 0;

    return enter_receipt(line, &text, &n);
}

void verify_receipt(struct verifier *v, const char *text, size_t n)
{
    const char *why = NULL;
    const cJSON *receipt;
    cJSON *json;

    if (json_parse(text, n, &json, &why) < 0) {
        differs(v, "%s", why);
        return;
    }
    receipt = enter_receipt(json, &text, &n);
    check_receipt(v, receipt, text, n);
    cJSON_Delete(json);
}
