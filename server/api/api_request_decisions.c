/* server/api/api_request_decisions.c - the prompts of a call for decisions; see api_request.h.
 *
 * Each question, in each order of its options, is one prompt: the conversation of the input, with
 * the question at the end of the last user's message, through the model's chat template. Everything
 * before the question is the same for all prompts, so that the engine computes it once. A probe, a
 * prompt with a question of one character, shows how all prompts end, which decides about the
 * labels (decision_labels.h).
 *
 * The texts below are part of what the model is asked: a change changes probabilities.
 */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/api/chat/chat_values.h"
#include "server/api/decision_labels.h"

#include <string.h>

#define MAX_TEXT ((size_t)64 << 20) /* bytes of a message: a body has no more */
/* Bounds of all prompts together, whose text and tokens are much larger than the body. */
#define MAX_BYTES ((uint64_t)32 << 20)
#define MAX_TOKENS ((uint64_t)8 << 20)

struct decision_work {
    struct api_request *p;
    const struct server_model *model;
    struct buf text; /* the last message: the input's, then a question's */
    size_t n_input;  /* bytes of it before the question */
    struct prompt probe;
    struct decision_labels labels;
    uint64_t n_bytes, n_tokens; /* of the prompts so far */
};

/* ---- the message ---- */

/* Take over the last message of the user, or add one, so that its only part is w->text. */
static int open_message(struct decision_work *w)
{
    struct conversation *c = &w->p->params.chat;
    struct chat_message *m = conversation_last(c);

    buf_init(&w->text, MAX_TEXT);
    if (m != NULL && strcmp(m->role, "user") == 0 && m->n_parts > 0) {
        conversation_join(c, m, &w->text);
        conversation_join_breakpoints(c, m);
        buf_add_str(&w->text, "\n\n");
    } else {
        m = conversation_add_message(c, "user");
        if (m == NULL || conversation_add_text(c, "") < 0)
            return api_request_no_memory(w->p);
        m = conversation_last(c);
    }
    m->n_parts = 1;
    w->n_input = w->text.len;
    return w->text.err < 0 ? api_request_no_memory(w->p) : 0;
}

static void clear_question(struct decision_work *w)
{
    w->text.len = w->n_input;
}

/* Let the conversation end with the text; its address may have changed. */
static int set_message(struct decision_work *w)
{
    struct conversation *c = &w->p->params.chat;

    if (buf_add_char(&w->text, '\0') < 0)
        return api_request_no_memory(w->p);
    c->parts[conversation_last(c)->first_part] = w->text.data;
    return 0;
}

/* ---- the question's text ---- */

static const char *label_of(const struct decision_work *w, enum decision_label_kind which,
                            uint32_t i)
{
    return w->labels.sets[which].texts[i];
}

static void add_line(struct buf *out, const char *label, const char *name, const char *detail)
{
    buf_add_str(out, label);
    if (name != NULL || detail != NULL)
        buf_printf(out, ": %s%s%s", name != NULL ? name : "",
                   name != NULL && detail != NULL ? " - " : "", detail != NULL ? detail : "");
    buf_add_char(out, '\n');
}

/* True: the label of an option goes with the option, wherever it stands; else with its place. */
static bool is_own_label(enum decision_label_kind which)
{
    return which == LABELS_WORDS || which == LABELS_CAPITALIZED || which == LABELS_DIGITS;
}

static uint32_t label_at(const struct decision_question *q, enum decision_label_kind which,
                         uint32_t order, uint32_t place)
{
    return is_own_label(which) ? decision_option_at(q, order, place) : place;
}

static void add_options(const struct decision_work *w, const struct decision_question *q,
                        enum decision_label_kind which, uint32_t order, struct buf *out)
{
    static const char *const yes_no[] = {"yes", "no"};
    const bool has_words = which == LABELS_WORDS || which == LABELS_CAPITALIZED;

    for (uint32_t place = 0; place < q->n_options; place++) {
        const uint32_t i = decision_option_at(q, order, place);
        const struct decision_option *o = &w->p->params.decisions.options[q->first_option + i];
        const char *name = q->kind == DECISION_YES_NO && !has_words ? yes_no[i] : o->name;

        add_line(out, label_of(w, which, label_at(q, which, order, place)), name, o->detail);
    }
}

static void add_question(const struct decision_work *w, const struct decision_question *q,
                         enum decision_label_kind which, uint32_t order, struct buf *out)
{
    const char *text = q->text != NULL ? q->text : "";

    if (q->kind == DECISION_YES_NO)
        buf_printf(out, "Question: is this true? %s\n", text);
    else if (q->text != NULL)
        buf_printf(out, "Question: %s\n", text);
    add_options(w, q, which, order, out);
    if (which == LABELS_WORDS || which == LABELS_CAPITALIZED)
        buf_printf(out, "Answer only with %s or %s.",
                   label_of(w, which, label_at(q, which, order, 0)),
                   label_of(w, which, label_at(q, which, order, 1)));
    else
        buf_printf(out, "Answer only with the %s of one %s.",
                   which == LABELS_DIGITS    ? "number"
                   : which == LABELS_LETTERS ? "letter"
                                             : "letters",
                   q->kind == DECISION_SCORE ? "level" : "option");
}

/* ---- prompts ---- */

static int refuse_thoughts(struct decision_work *w)
{
    return api_error_set(&w->p->error, 400, "chat_template_kwargs", NULL,
                         "the model '%s' would think before it answers: decisions need a chat "
                         "template whose thoughts are off",
                         w->model->id);
}

static int make_probe(struct decision_work *w)
{
    int rc;

    if (chat_wants_thoughts(&w->p->params))
        return refuse_thoughts(w);
    buf_add_char(&w->text, '?');
    rc = set_message(w);
    if (rc == 0)
        rc = api_request_take_turns(w->p, w->model, &w->probe);
    if (rc == 0 && w->probe.thinks)
        return refuse_thoughts(w);
    if (rc == 0 && decision_labels_init(&w->labels, &w->probe) < 0)
        rc = api_request_cannot_encode(w->p);
    return rc;
}

static int refuse_labels(struct decision_work *w, uint32_t n)
{
    return api_error_set(&w->p->error, 400, "questions", NULL,
                         "the model '%s' cannot decide between %u options: its tokenizer has fewer "
                         "labels that are one token each where its answer begins",
                         w->model->id, n);
}

static int check_size(struct decision_work *w, const struct prompt *prompt)
{
    w->n_bytes += prompt->n_text;
    w->n_tokens += prompt->ids.n;
    if (w->n_bytes <= MAX_BYTES && w->n_tokens <= MAX_TOKENS)
        return 0;
    return api_error_set(&w->p->error, 400, "questions", NULL,
                         "the input, repeated for each question, is more than %llu MiB or %llu "
                         "million tokens: ask fewer questions in a call",
                         (unsigned long long)(MAX_BYTES >> 20),
                         (unsigned long long)(MAX_TOKENS >> 20));
}

/* Keep the ids of the labels, by option, and room for their log-probabilities. */
static int keep_labels(struct decision_work *w, struct prompt *prompt,
                       const struct decision_question *q, enum decision_label_kind which,
                       uint32_t order)
{
    const uint32_t n = q->n_options;

    prompt->label_ids = mem_calloc(n, sizeof(*prompt->label_ids));
    prompt->label_logprobs = mem_calloc(n, sizeof(*prompt->label_logprobs));
    if (prompt->label_ids == NULL || prompt->label_logprobs == NULL)
        return api_request_no_memory(w->p);
    prompt->n_labels = n;
    for (uint32_t place = 0; place < n; place++)
        prompt->label_ids[decision_option_at(q, order, place)] =
            w->labels.sets[which].ids[label_at(q, which, order, place)];
    return 0;
}

static int make_decision(struct decision_work *w, uint32_t i)
{
    struct prompt *prompt = &w->p->prompts[i];
    uint32_t order;
    const struct decision_question *q = decision_set_of_prompt(&w->p->params.decisions, i, &order);
    enum decision_label_kind which;
    int rc = decision_labels_find(&w->labels, q->kind, q->n_options, &which);

    if (rc == ERR_NOENT)
        return refuse_labels(w, q->n_options);
    if (rc < 0)
        return api_request_cannot_encode(w->p);
    clear_question(w);
    add_question(w, q, which, order, &w->text);
    if (set_message(w) < 0 || api_request_make_prompt(w->p, w->model, i) < 0)
        return ERR_INVAL;
    if (check_size(w, prompt) < 0)
        return ERR_INVAL;
    rc = decision_labels_hold(&w->labels, prompt, which, q->n_options);
    if (rc <= 0)
        return rc < 0 ? api_request_cannot_encode(w->p) : refuse_labels(w, q->n_options);
    mem_free(prompt->text);
    prompt->text = NULL;
    return keep_labels(w, prompt, q, which, order);
}

int api_request_decide(struct api_request *p, const struct server_model *model)
{
    struct decision_work *w = mem_calloc(1, sizeof(*w));
    int rc;

    if (w == NULL)
        return api_request_no_memory(p);
    w->p = p;
    w->model = model;
    w->labels.tokenizer = model->tokenizer;
    w->labels.budget = p->budget;
    rc = open_message(w);
    if (rc == 0)
        rc = make_probe(w);
    for (uint32_t i = 0; rc == 0 && i < p->params.n_prompts; i++)
        rc = make_decision(w, i);
    mem_free(w->probe.text);
    token_list_release(&w->probe.ids);
    buf_release(&w->text); /* no message is rendered any more */
    mem_free(w);
    return rc;
}
