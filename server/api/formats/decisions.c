/* server/api/formats/decisions.c - answers of POST /v1/decisions (OpenAI's API) and /v1/systemone
 * (TypeSafe's).
 *
 * decision_result.h says how probabilities, scores and confidence are computed. `diagnostics` says
 * which part of the probability of all tokens the labels have: if it is small, the model wanted to
 * answer something else.
 */
#include "server/api/response/response_writer.h"

#include "core/json/json.h"
#include "server/api/response/decision_result.h"

#include <inttypes.h>

static void add_number(struct buf *out, const char *name, double x)
{
    buf_printf(out, ",\"%s\":", name);
    json_add_float(out, (float)x);
}

static const struct decision_option *option_of(const struct response_writer *a,
                                               const struct decision_question *q, uint32_t i)
{
    return &a->params->decisions.options[q->first_option + i];
}

static void begin_decisions(struct response_writer *a)
{
    (void)a;
}

/* ---- OpenAI's ---- */

static void add_list(const struct response_writer *a, const struct decision_question *q,
                     const struct decision_result *r, struct buf *out)
{
    buf_add_str(out, ",\"probabilities\":[");
    for (uint32_t i = 0; i < q->n_options; i++) {
        buf_add_str(out, i > 0 ? ",{\"value\":" : "{\"value\":");
        if (q->kind == DECISION_CHOICE) {
            json_add_value(out, option_of(a, q, i)->given);
        } else {
            buf_printf(out, "%u,\"label\":", i);
            json_add_cstring(out, option_of(a, q, i)->name);
        }
        add_number(out, "probability", r->probabilities[i]);
        buf_add_char(out, '}');
    }
    buf_add_char(out, ']');
}

static void add_openai_answer(const struct response_writer *a, const struct decision_question *q,
                              const struct decision_result *r, struct buf *out)
{
    static const char *const types[] = {"predicate", "choice", "score"};

    buf_printf(out, "{\"type\":\"%s\",\"name\":", r->is_valid ? types[q->kind] : "refusal");
    if (q->name != NULL)
        json_add_cstring(out, q->name);
    else
        buf_add_str(out, "null");
    if (r->is_valid && q->kind == DECISION_YES_NO) {
        add_number(out, "probability", r->probabilities[0]);
    } else if (r->is_valid && q->kind == DECISION_CHOICE) {
        buf_add_str(out, ",\"choice\":");
        json_add_value(out, option_of(a, q, r->best)->given);
        add_list(a, q, r, out);
        add_number(out, "confidence", decision_result_confidence(r, q));
    } else if (r->is_valid) {
        add_number(out, "score", decision_result_score(r, q->n_options));
        add_list(a, q, r, out);
        add_number(out, "confidence", decision_result_confidence(r, q));
    }
    buf_add_char(out, '}');
}

static void add_mass(const struct decision_result *r, struct buf *out)
{
    buf_add_str(out, "{\"label_mass\":");
    json_add_float(out, r->is_valid ? (float)r->label_mass : 0);
    buf_add_char(out, '}');
}

static void whole_openai(struct response_writer *a, struct buf *out)
{
    const struct decision_set *s = &a->params->decisions;
    const struct response_usage *u = &a->usage;
    struct decision_result r;

    buf_printf(out,
               "{\"id\":\"%s\",\"object\":\"decision\",\"created\":%" PRId64 ",\"model\":", a->id,
               a->created);
    json_add_cstring(out, a->model);
    buf_add_str(out, ",\"answers\":[");
    for (uint32_t i = 0; i < s->n_questions; i++) {
        decision_result_read(&r, &s->questions[i], a->choices[0].prompt);
        if (i > 0)
            buf_add_char(out, ',');
        add_openai_answer(a, &s->questions[i], &r, out);
    }
    buf_add_str(out, "],\"diagnostics\":[");
    for (uint32_t i = 0; i < s->n_questions; i++) {
        decision_result_read(&r, &s->questions[i], a->choices[0].prompt);
        if (i > 0)
            buf_add_char(out, ',');
        add_mass(&r, out);
    }
    buf_printf(out,
               "],\"usage\":{\"input_tokens\":%" PRIu64
               ",\"input_tokens_details\":{\"cached_tokens\":%" PRIu64
               ",\"cache_write_tokens\":%" PRIu64,
               u->prompt, u->cached, u->prompt - u->cached);
    if (u->has_breakpoints)
        buf_printf(out, ",\"pinned_tokens\":%" PRIu64, u->pinned);
    buf_printf(out,
               "},\"output_tokens\":0,"
               "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":%" PRIu64 "}",
               u->prompt);
    response_add_receipt(a, out);
    buf_add_char(out, '}');
}

/* ---- TypeSafe's ---- */

/* Add {"KEY":value,…} of all options; a choice's keys are its options, a score's are numbers. */
static void add_map(const struct response_writer *a, const struct decision_question *q,
                    const struct decision_result *r, struct buf *out)
{
    for (uint32_t i = 0; i < q->n_options; i++) {
        const struct decision_option *o = option_of(a, q, i);

        buf_add_char(out, i > 0 ? ',' : '{');
        if (q->kind == DECISION_CHOICE)
            json_add_cstring(out, o->name);
        else
            buf_printf(out, "\"%u\"", i);
        buf_add_char(out, ':');
        if (r != NULL)
            json_add_float(out, (float)r->probabilities[i]);
        else
            json_add_value(out, o->given);
    }
    buf_add_char(out, '}');
}

static void add_typesafe_answer(const struct response_writer *a, const struct decision_question *q,
                                const struct decision_result *r, struct buf *out)
{
    static const char *const types[] = {"noul", "choice", "score"};

    buf_printf(out, "{\"type\":\"%s\"", r->is_valid ? types[q->kind] : "refusal");
    if (r->is_valid && q->kind == DECISION_YES_NO) {
        add_number(out, "noul", r->probabilities[0]);
    } else if (r->is_valid) {
        if (q->kind == DECISION_CHOICE) {
            buf_add_str(out, ",\"choice\":");
            json_add_cstring(out, option_of(a, q, r->best)->name);
            add_number(out, "confidence", decision_result_confidence(r, q));
        } else {
            add_number(out, "score", decision_result_score(r, q->n_options));
            add_number(out, "confidence", decision_result_confidence(r, q));
            buf_add_str(out, ",\"legend\":");
            add_map(a, q, NULL, out);
        }
        buf_add_str(out, ",\"probabilities\":");
        add_map(a, q, r, out);
    }
    buf_add_char(out, '}');
}

static void whole_typesafe(struct response_writer *a, struct buf *out)
{
    const struct decision_set *s = &a->params->decisions;
    struct decision_result r;

    buf_printf(
        out, "{\"id\":\"%s\",\"object\":\"structured_decision\",\"created\":%" PRId64 ",\"model\":",
        a->id, a->created);
    json_add_cstring(out, a->model);
    for (int part = 0; part < 2; part++) {
        buf_add_str(out, part == 0 ? ",\"answers\":{" : "},\"diagnostics\":{");
        for (uint32_t i = 0; i < s->n_questions; i++) {
            if (i > 0)
                buf_add_char(out, ',');
            json_add_cstring(out, s->questions[i].name);
            buf_add_char(out, ':');
            decision_result_read(&r, &s->questions[i], a->choices[0].prompt);
            if (part == 0)
                add_typesafe_answer(a, &s->questions[i], &r, out);
            else
                add_mass(&r, out);
        }
    }
    buf_printf(out, "},\"usage\":{\"input_tokens\":%" PRIu64 ",\"output_tokens\":0}",
               a->usage.prompt);
    response_add_receipt(a, out);
    buf_add_char(out, '}');
}

const struct wire_format wire_openai_decisions = {
    .endpoint = "/v1/decisions",
    .id_prefix = "decision-",
    .form = PARAMS_DECIDE,
    .keeps_text = true,
    .begin = begin_decisions,
    .whole = whole_openai,
};

const struct wire_format wire_systemone = {
    .endpoint = "/v1/systemone",
    .id_prefix = "decision-",
    .form = PARAMS_SYSTEMONE,
    .keeps_text = true,
    .begin = begin_decisions,
    .whole = whole_typesafe,
};
