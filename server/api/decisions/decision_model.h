/* server/api/decisions/decision_model.h - a model that was trained for decisions: the form of its
 * prompts, its labels and its temperatures.
 *
 * The metadata of its file say so: ARCH.decision.type names a family, a row of the table in
 * decision_model.c, tokenizer.chat_template.systemone is the prompt's template, and
 * ARCH.decision.temperature.KIND[.RANGE] divides the scores. The keys and the families are
 * llama.cpp's (tools/server/server-decision.cpp). Such a model is asked in its own form, any other
 * one through its chat template.
 *
 * A model whose family is not known, or whose file lacks something, is served all the same; its
 * decisions are refused with the reason.
 *
 * Thread: read-only after creation.
 * Memory: some kilobytes and the parsed template.
 */
#ifndef SERVER_API_DECISIONS_DECISION_MODEL_H
#define SERVER_API_DECISIONS_DECISION_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/request/marks.h"
#include "server/api/chat/decision_template.h"
#include "server/api/decisions/decision_cut.h"

struct decision_model;
struct model;
struct tokenizer;

/* *out NULL: the model was not trained for decisions. `of` must outlive it. Errors: ERR_NOMEM. */
int decision_model_create(struct decision_model **out, const struct model *of,
                          const struct tokenizer *t);
void decision_model_destroy(struct decision_model **m);

/* Why decisions are refused, or NULL. */
const char *decision_model_complaint(const struct decision_model *m);
const char *decision_model_type(const struct decision_model *m); /* as the file names it */

/* The names of all known types, "a, b, c". */
void decision_model_list_types(char *out, size_t size);

/* The rest is for models without a complaint. */

/* Write a prompt: decision_template_render(). */
int decision_model_render(const struct decision_model *m, const struct decision_ask *ask,
                          struct budget *budget, struct buf *out, struct spans *own,
                          struct api_error *e);
const struct decision_form *decision_model_form(const struct decision_model *m);
/* Most options of a question. */
uint32_t decision_model_max_options(const struct decision_model *m);
/* The labels' texts by place, if the template gets them; else NULL. */
const char (*decision_model_labels(const struct decision_model *m))[DECISION_LABEL_BYTES];
/* The labels' tokens by place; NULL: the model has a head, which reads markers. */
const int32_t *decision_model_label_ids(const struct decision_model *m);
/* The token that the template writes at each option, for the head. */
int32_t decision_model_marker(const struct decision_model *m);
/* The text that no value may have: the marker's. NULL: values may have any. */
const char *decision_model_marker_text(const struct decision_model *m);
/* Return the marks that the head reads for a question, without their places and memory. */
struct marks decision_model_marks(const struct decision_model *m,
                                  const struct decision_question *q);
/* True: long questions and options are cut (decision_cut.h). */
bool decision_model_layout(const struct decision_model *m, const struct decision_question *q,
                           struct decision_layout *out);
/* The number by which the scores of a question's options are divided. */
double decision_model_temperature(const struct decision_model *m,
                                  const struct decision_question *q);

#endif
