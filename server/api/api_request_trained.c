/* server/api/api_request_trained.c - the prompts of a call for decisions, for a model that was
 * trained for them; see api_request.h.
 *
 * Each question, in each order of its options, is one prompt, which the model's own template writes
 * (chat/decision_template.h). Templates that put the input first give prompts that begin alike, so
 * that the engine computes the input once.
 */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "server/api/chat/chat_values.h"
#include "server/api/decisions/decision_model.h"

#include <string.h>

#define MAX_OUTS ((uint64_t)128 << 20) /* bytes of what a head makes at all options */

/* ---- the input ---- */

/* Make {"role": …, "content": …} of a message, with its calls. NULL: no memory. */
static cJSON *message_value(const struct conversation *c, const struct chat_message *m)
{
    cJSON *out = cJSON_CreateObject(), *calls;
    struct buf text;
    bool is_whole;

    buf_init(&text, CHAT_MAX_PROMPT);
    conversation_join(c, m, &text);
    is_whole = cJSON_AddStringToObject(out, "role", m->role) != NULL && text.err == 0 &&
               cJSON_AddStringToObject(out, "content", text.len > 0 ? text.data : "") != NULL;
    buf_release(&text);
    calls = m->n_calls > 0 ? cJSON_AddArrayToObject(out, "tool_calls") : NULL;
    for (uint32_t i = 0; is_whole && i < m->n_calls; i++) {
        const struct tool_call *call = &c->calls[m->first_call + i];
        cJSON *item = cJSON_CreateObject();

        is_whole = cJSON_AddItemToArray(calls, item) &&
                   cJSON_AddStringToObject(item, "name", call->name) != NULL &&
                   (call->arguments == NULL ||
                    cJSON_AddStringToObject(item, "arguments", call->arguments) != NULL);
    }
    if (is_whole)
        return out;
    cJSON_Delete(out);
    return NULL;
}

/* Make the input of OpenAI's API: the text of the only message, or a list of messages. */
static int make_state(struct api_request *p)
{
    struct conversation *c = &p->params.chat;
    const bool is_text =
        c->n_messages == 1 && strcmp(c->messages[0].role, "user") == 0 && c->n_calls == 0;
    cJSON *out = cJSON_CreateArray();

    for (uint32_t i = 0; i < c->n_messages; i++) {
        cJSON *message = message_value(c, &c->messages[i]);

        if (message == NULL || !cJSON_AddItemToArray(out, message)) {
            cJSON_Delete(message);
            cJSON_Delete(out);
            return api_request_no_memory(p);
        }
    }
    p->params.decisions.state = conversation_keep(c, out);
    if (p->params.decisions.state == NULL)
        return api_request_no_memory(p);
    if (is_text)
        p->params.decisions.state =
            cJSON_GetObjectItem(p->params.decisions.state->child, "content");
    return 0;
}

/* ---- checks ---- */

static int check_trained(struct api_request *p, const struct server_model *model)
{
    const char *complaint = decision_model_complaint(model->decider);

    if (complaint != NULL)
        return api_error_set(&p->error, 400, "model", "unsupported_model",
                             "the model '%s' cannot decide: %s", model->id, complaint);
    if (p->params.template_kwargs != NULL && p->params.template_kwargs->child != NULL)
        return api_error_set(&p->error, 400, "chat_template_kwargs", NULL,
                             "'chat_template_kwargs' has no effect: the model '%s' is asked in a "
                             "form of its own, not through its chat template",
                             model->id);
    return 0;
}

static int check_asked(struct api_request *p, const struct server_model *model,
                       const struct decision_question *q)
{
    const uint32_t n = (uint32_t)(q - p->params.decisions.questions);

    if (q->text == NULL)
        return api_error_set(&p->error, 400, "questions", NULL,
                             "question %u has no instructions, which the model '%s' needs", n,
                             model->id);
    if (q->n_options > decision_model_max_options(model->decider))
        return api_error_set(&p->error, 400, "questions", NULL,
                             "the model '%s' decides between %u options at most, and question %u "
                             "has %u",
                             model->id, decision_model_max_options(model->decider), n,
                             q->n_options);
    return 0;
}

static int refuse_layout(struct api_request *p, const struct server_model *model)
{
    return api_error_set(&p->error, 400, "questions", NULL,
                         "the template of the model '%s' does not mark each option of a question "
                         "once",
                         model->id);
}

/* ---- prompts ---- */

int api_request_take_trained(struct api_request *p, const struct server_model *model, uint32_t i)
{
    const struct decision_model *m = model->decider;
    struct prompt *prompt = &p->prompts[i];
    struct decision_ask ask = {.params = &p->params,
                               .labels = decision_model_labels(m),
                               .marker = decision_model_marker_text(m)};
    struct decision_layout layout;
    struct spans own = {0};
    struct buf text;
    int rc;

    ask.question = decision_set_of_prompt(&p->params.decisions, i, &ask.order);
    buf_init(&text, CHAT_MAX_PROMPT);
    rc = decision_model_render(m, &ask, p->budget, &text, &own, &p->error);
    if (rc == 0 && (buf_add_str(&text, "") < 0 || own.err < 0))
        rc = api_request_no_memory(p);
    if (rc == 0) {
        prompt->text = buf_detach(&text, &prompt->n_text);
        rc = api_request_encode_text(p, model, prompt, &own);
    }
    if (rc == 0 && decision_model_layout(m, ask.question, &layout) &&
        decision_cut(&prompt->ids, &layout) < 0)
        rc = refuse_layout(p, model);
    buf_release(&text);
    spans_release(&own);
    return rc;
}

static int keep_codes(struct api_request *p, const struct decision_model *m, struct prompt *prompt,
                      const struct decision_question *q, uint32_t order)
{
    const uint32_t n = q->n_options;

    prompt->label_ids = mem_calloc(n, sizeof(*prompt->label_ids));
    prompt->label_logprobs = mem_calloc(n, sizeof(*prompt->label_logprobs));
    if (prompt->label_ids == NULL || prompt->label_logprobs == NULL)
        return api_request_no_memory(p);
    prompt->n_labels = n;
    for (uint32_t place = 0; place < n; place++)
        prompt->label_ids[decision_form_option(decision_model_form(m), q, order, place)] =
            decision_model_label_ids(m)[place];
    return 0;
}

/* ---- a head's marks ---- */

/* Fill at[n_options + 1] with the markers in the prompt, and its end. ERR_INVAL: there are more or
 * fewer. */
static int find_marks(const struct prompt *prompt, const struct decision_form *form,
                      const struct decision_question *q, uint32_t order, int32_t marker,
                      struct mark *at)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i + 1 < prompt->ids.n; i++) {
        if (prompt->ids.ids[i] != marker)
            continue;
        if (n == q->n_options || i == 0)
            return ERR_INVAL;
        at[n] = (struct mark){i, decision_form_option(form, q, order, n)};
        n++;
    }
    at[n] = (struct mark){(uint32_t)prompt->ids.n - 1, q->n_options};
    return n == q->n_options && prompt->ids.ids[at[n].pos] != marker ? 0 : ERR_INVAL;
}

/* Keep the places of the options' markers, and memory for what the engine computes there. */
static int keep_marks(struct api_request *p, const struct server_model *model,
                      struct prompt *prompt, const struct decision_question *q, uint32_t order)
{
    struct marks *m = &prompt->marks;
    struct mark *at = mem_calloc(q->n_options + 1, sizeof(*at)); /* and the prompt's end */

    *m = decision_model_marks(model->decider, q);
    m->at = at;
    if (at == NULL)
        return api_request_no_memory(p);
    m->n = m->read == MARKS_POINTER ? q->n_options + 1 : q->n_options;
    m->outs = mem_calloc(m->n, m->n_out * sizeof(*m->outs));
    prompt->label_logprobs = mem_calloc(q->n_options, sizeof(*prompt->label_logprobs));
    if (m->outs == NULL || prompt->label_logprobs == NULL)
        return api_request_no_memory(p);
    prompt->n_labels = q->n_options;
    m->logprobs = prompt->label_logprobs;
    if (find_marks(prompt, decision_model_form(model->decider), q, order,
                   decision_model_marker(model->decider), at) < 0)
        return refuse_layout(p, model);
    return 0;
}

static int make_trained(struct api_request *p, const struct server_model *model, uint32_t i)
{
    struct prompt *prompt = &p->prompts[i];
    uint32_t order;
    const struct decision_question *q = decision_set_of_prompt(&p->params.decisions, i, &order);

    if (check_asked(p, model, q) < 0 || api_request_make_prompt(p, model, i) < 0)
        return ERR_INVAL;
    mem_free(prompt->text);
    prompt->text = NULL;
    return decision_model_label_ids(model->decider) != NULL
               ? keep_codes(p, model->decider, prompt, q, order)
               : keep_marks(p, model, prompt, q, order);
}

int api_request_decide_trained(struct api_request *p, const struct server_model *model)
{
    struct decision_set *set = &p->params.decisions;
    struct decision_size size = {0};
    uint64_t n_outs = 0;

    if (check_trained(p, model) < 0 || (set->state == NULL && make_state(p) < 0))
        return ERR_INVAL;
    if (model->is_encoder)
        p->params.max_tokens = 0;
    for (uint32_t i = 0; i < set->n_questions; i++)
        set->questions[i].temperature =
            decision_model_temperature(model->decider, &set->questions[i]);
    for (uint32_t i = 0; i < p->params.n_prompts; i++) {
        if (make_trained(p, model, i) < 0)
            return ERR_INVAL;
        n_outs += (uint64_t)p->prompts[i].marks.n * p->prompts[i].marks.n_out * sizeof(float);
        if (n_outs > MAX_OUTS)
            return api_error_set(&p->error, 400, "questions", NULL,
                                 "what the model's head makes of all options is more than %llu "
                                 "MiB: ask fewer questions, or with fewer permutations",
                                 (unsigned long long)(MAX_OUTS >> 20));
        if (api_request_count_decision(p, &size, &p->prompts[i]) < 0)
            return ERR_INVAL;
    }
    return 0;
}
