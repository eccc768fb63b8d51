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
#include "core/base/name_copy.h"
#include "server/api/chat/chat_values.h"
#include "server/api/chat/output_parser.h"
#include "server/api/decisions/decision_labels.h"
#include "server/api/label_tree.h"

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
    struct decision_size size; /* of the prompts so far */
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
    buf_printf(out, "\n%s", label);
    if (name != NULL || detail != NULL)
        buf_printf(out, ": %s%s%s", name != NULL ? name : "",
                   name != NULL && detail != NULL ? " - " : "", detail != NULL ? detail : "");
}

static bool is_word_label(enum decision_label_kind which)
{
    return which == LABELS_WORDS || which == LABELS_CAPITALIZED;
}

/* True: the label of an option goes with the option, wherever it stands; else with its place. */
static bool is_own_label(enum decision_label_kind which)
{
    return is_word_label(which) || which == LABELS_DIGITS;
}

static uint32_t label_at(const struct decision_question *q, enum decision_label_kind which,
                         uint32_t order, uint32_t place)
{
    return is_own_label(which) ? decision_option_at(q, order, place) : place;
}

/* Say how to answer. The line stands before the question, so that all questions of a kind begin
 * with the same tokens. */
static void add_rule(const struct decision_work *w, const struct decision_question *q,
                     enum decision_label_kind which, uint32_t order, struct buf *out)
{
    if (is_word_label(which))
        buf_printf(out, "Answer only with %s or %s.\n",
                   label_of(w, which, label_at(q, which, order, 0)),
                   label_of(w, which, label_at(q, which, order, 1)));
    else
        buf_printf(out, "Answer only with the %s of one %s.\n",
                   which == LABELS_DIGITS                                       ? "number"
                   : which == LABELS_LETTERS || which == LABELS_SPELLED_LETTERS ? "letter"
                                                                                : "letters",
                   q->kind == DECISION_SCORE ? "level" : "option");
}

/* True: the rule names the options already, and there is nothing to say about them. */
static bool is_said_by_rule(const struct decision_question *q,
                            const struct decision_option *options, enum decision_label_kind which)
{
    for (uint32_t i = 0; i < q->n_options; i++)
        if (options[i].name != NULL || options[i].detail != NULL)
            return false;
    return is_word_label(which);
}

static void add_options(const struct decision_work *w, const struct decision_question *q,
                        enum decision_label_kind which, uint32_t order, struct buf *out)
{
    static const char *const yes_no[] = {"yes", "no"};
    const struct decision_option *options = &w->p->params.decisions.options[q->first_option];

    if (is_said_by_rule(q, options, which))
        return;
    for (uint32_t place = 0; place < q->n_options; place++) {
        const uint32_t i = decision_option_at(q, order, place);
        const bool is_named = q->kind != DECISION_YES_NO || is_word_label(which);

        add_line(out, label_of(w, which, label_at(q, which, order, place)),
                 is_named ? options[i].name : yes_no[i], options[i].detail);
    }
}

static void add_question(const struct decision_work *w, const struct decision_question *q,
                         enum decision_label_kind which, uint32_t order, struct buf *out)
{
    const char *text = q->text != NULL ? q->text : "";

    add_rule(w, q, which, order, out);
    if (q->kind == DECISION_YES_NO)
        buf_printf(out, "Question: is this true? %s", text);
    else
        buf_printf(out, "Question: %s", q->text != NULL ? text : "which one?");
    add_options(w, q, which, order, out);
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
    if (rc < 0 && strcmp(w->p->error.param, "messages") == 0) /* the template refused the input */
        (void)name_copy(w->p->error.param, sizeof(w->p->error.param), api_request_text_field(w->p));
    if (rc == 0 &&
        (w->probe.thinks || output_parser_prompt_may_think(w->probe.text, w->probe.n_text)))
        return refuse_thoughts(w);
    if (rc == 0 && decision_labels_init(&w->labels, &w->probe) < 0)
        rc = api_request_cannot_encode(w->p);
    return rc;
}

static int refuse_labels(struct decision_work *w, uint32_t n)
{
    return api_error_set(&w->p->error, 400, "questions", NULL,
                         "the model '%s' cannot decide between %u options: its tokenizer has no "
                         "labels for them that leave the tokens before its answer as they are",
                         w->model->id, n);
}

static int refuse_prompts(struct decision_work *w)
{
    return api_error_set(&w->p->error, 400, "questions", NULL,
                         "the model '%s' has labels of several tokens for some questions, which "
                         "are more than %d prompts or %llu million tokens: ask fewer questions, or "
                         "with fewer permutations",
                         w->model->id, DECISIONS_MAX_PROMPTS,
                         (unsigned long long)(MAX_TOKENS >> 20));
}

int api_request_count_decision(struct api_request *p, struct decision_size *size,
                               const struct prompt *prompt)
{
    size->n_bytes += prompt->n_text;
    size->n_tokens += prompt->ids.n;
    if (size->n_bytes <= MAX_BYTES && size->n_tokens <= MAX_TOKENS)
        return 0;
    return api_error_set(&p->error, 400, "questions", NULL,
                         "the input, repeated for each question, is more than %llu MiB or %llu "
                         "million tokens: ask fewer questions, or with fewer permutations",
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

/* Add the prompts that decide between labels of several tokens. */
static int spell_labels(struct decision_work *w, uint32_t i, const struct decision_question *q,
                        enum decision_label_kind which, uint32_t order)
{
    struct label_spelling by_place[DECISIONS_MAX_OPTIONS], by_option[DECISIONS_MAX_OPTIONS];
    int rc = decision_labels_spell(&w->labels, &w->p->prompts[i], which, q->n_options, by_place);

    if (rc < 0)
        return rc == ERR_NOENT ? refuse_labels(w, q->n_options) : api_request_cannot_encode(w->p);
    for (uint32_t place = 0; place < q->n_options; place++)
        by_option[decision_option_at(q, order, place)] = by_place[place];
    rc = label_tree_grow(w->p, i, by_option, q->n_options, MAX_TOKENS, &w->size.n_tokens);
    return rc == ERR_NOENT   ? refuse_labels(w, q->n_options)
           : rc == ERR_LIMIT ? refuse_prompts(w)
           : rc < 0          ? api_request_no_memory(w->p)
                             : 0;
}

static int make_decision(struct decision_work *w, uint32_t i)
{
    struct prompt *prompt = &w->p->prompts[i];
    uint32_t order;
    const struct decision_question *q = decision_set_of_prompt(&w->p->params.decisions, i, &order);
    enum decision_label_kind which;
    int rc = decision_labels_find(&w->labels, q->kind, q->n_options, &which);

    if (rc < 0)
        return api_request_cannot_encode(w->p);
    clear_question(w);
    add_question(w, q, which, order, &w->text);
    if (set_message(w) < 0 || api_request_make_prompt(w->p, w->model, i) < 0)
        return ERR_INVAL;
    if (api_request_count_decision(w->p, &w->size, prompt) < 0)
        return ERR_INVAL;
    if (decision_labels_are_spelled(which))
        return spell_labels(w, i, q, which, order);
    rc = decision_labels_hold(&w->labels, prompt, which, q->n_options);
    if (rc <= 0)
        return rc < 0 ? api_request_cannot_encode(w->p) : refuse_labels(w, q->n_options);
    return keep_labels(w, prompt, q, which, order);
}

static void drop_text(struct prompt *prompt)
{
    mem_free(prompt->text);
    prompt->text = NULL;
}

int api_request_decide(struct api_request *p, const struct server_model *model)
{
    const uint32_t n = p->params.n_prompts; /* label_tree_grow() adds more */
    struct decision_work *w;
    int rc;

    if (model->decider != NULL)
        return api_request_decide_trained(p, model);
    w = mem_calloc(1, sizeof(*w));
    if (w == NULL)
        return api_request_no_memory(p);
    w->p = p;
    w->model = model;
    w->labels.tokenizer = model->tokenizer;
    w->labels.budget = p->budget;
    rc = open_message(w);
    if (rc == 0)
        rc = make_probe(w);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = make_decision(w, i);
        drop_text(&p->prompts[i]);
    }
    mem_free(w->probe.text);
    token_list_release(&w->probe.ids);
    buf_release(&w->text); /* no message is rendered any more */
    mem_free(w);
    return rc;
}
