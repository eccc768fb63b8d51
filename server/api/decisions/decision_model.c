/* server/api/decisions/decision_model.c - see decision_model.h.
 *
 * The labels of a family are letters, and pairs of letters where it has them: those that are one
 * token each when they are tokenized alone, which is how these models were trained.
 */
#include "server/api/decisions/decision_model.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/jinja/template.h"
#include "core/model/model.h"
#include "core/tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

/* Sets of labels. */
enum decision_codes {
    CODES_NONE = 0, /* a head reads the markers of the options */
    CODES_LETTERS,  /* "A" .. "Z", "a" .. "z" */
    CODES_PAIRS,    /* "A" .. "Z", "AA" .. "ZZ" */
};

struct decision_family {
    const char *type;
    struct decision_form form;
    enum decision_codes codes;
    bool shows_labels;  /* the template gets the labels; else it writes them itself */
    const char *marker; /* with CODES_NONE: the name of the token at each option; NULL: [MASK] */
    enum marks_read read;
};

static const struct decision_family families[] = {
    {.type = "openjev", .codes = CODES_LETTERS},
    {.type = "pplx-decider",
     .form = {.is_no_first = true},
     .codes = CODES_PAIRS,
     .shows_labels = true},
    {.type = "nimble",
     .form = {.is_no_first = true, .lists_questions = true},
     .codes = CODES_PAIRS,
     .shows_labels = true},
    {.type = "kev",
     .form = {.is_no_first = true, .is_text = true},
     .marker = "<|box_end|>",
     .read = MARKS_POINTER},
    {.type = "laya", .form = {.is_no_first = true}, .read = MARKS_EACH},
};

struct decision_model {
    const struct decision_family *family; /* NULL: the type is not known */
    const struct model *of;
    const struct model_decision *facts;
    int32_t marker, separator; /* TOKEN_NONE: none */
    char marker_text[32];      /* "": values may have any text */
    struct template *prompt;
    char complaint[320]; /* "": none */
    uint32_t n_labels;
    char labels[DECISIONS_MAX_OPTIONS][DECISION_LABEL_BYTES];
    int32_t ids[DECISIONS_MAX_OPTIONS];
};

static const struct decision_family *find_decision_family(const char *type)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (strcmp(families[i].type, type) == 0)
            return &families[i];
    return NULL;
}

void decision_model_list_types(char *out, size_t size)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]) && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i > 0 ? ", " : "", families[i].type);
}

/* ---- labels ---- */

/* Write text i of a family's labels; false: there are no more. */
static bool code_text(enum decision_codes codes, uint32_t i, char out[DECISION_LABEL_BYTES])
{
    memset(out, 0, DECISION_LABEL_BYTES);
    if (i < 26) {
        out[0] = (char)('A' + i);
        return true;
    }
    i -= 26;
    if (codes == CODES_LETTERS) {
        out[0] = (char)('a' + i);
        return i < 26;
    }
    out[0] = (char)('A' + i / 26 % 26);
    out[1] = (char)('A' + i % 26);
    return i < 26 * 26;
}

/* Add the label if it is one token. ERR_NOMEM. */
static int add_code(struct decision_model *m, const struct tokenizer *t, const char *text)
{
    struct token_list list = {0};
    int rc = tokenizer_encode(t, text, strlen(text), 0, SIZE_MAX, NULL, &list);

    if (rc == 0 && list.n == 1) {
        memcpy(m->labels[m->n_labels], text, DECISION_LABEL_BYTES);
        m->ids[m->n_labels++] = list.ids[0];
    }
    token_list_release(&list);
    return rc;
}

static int find_codes(struct decision_model *m, const struct tokenizer *t)
{
    char text[DECISION_LABEL_BYTES];

    for (uint32_t i = 0;
         m->n_labels < DECISIONS_MAX_OPTIONS && code_text(m->family->codes, i, text); i++) {
        const uint32_t n = m->n_labels;

        if (add_code(m, t, text) < 0)
            return ERR_NOMEM;
        if (m->n_labels == n && m->family->codes == CODES_LETTERS) /* its template counts letters */
            break;
    }
    if (m->n_labels < 2)
        snprintf(m->complaint, sizeof(m->complaint),
                 "its tokenizer has no labels that are one token each");
    return 0;
}

/* ---- the head ---- */

/* Find the tokens of an encoder with a head, and check that it has one. */
static void find_mask(struct decision_model *m, const struct tokenizer *t)
{
    const char *text = NULL;
    size_t n = 0;

    m->marker = tokenizer_mask(t);
    m->separator = tokenizer_separator(t);
    m->n_labels = DECISIONS_MAX_OPTIONS;
    if (m->marker != TOKEN_NONE)
        text = tokenizer_piece(t, m->marker, &n);
    if (n > 0 && n < sizeof(m->marker_text))
        memcpy(m->marker_text, text, n);
    if (m->marker_text[0] == '\0' || m->separator == TOKEN_NONE)
        snprintf(m->complaint, sizeof(m->complaint),
                 "its tokenizer must have a mask token and a separator");
    else if (m->facts->max_head_tokens == 0)
        snprintf(m->complaint, sizeof(m->complaint),
                 "its file does not say decision.max_head_tokens");
    else if (m->of->shape.n_head_layers == 0 || m->of->shape.n_labels != 1)
        snprintf(m->complaint, sizeof(m->complaint),
                 "its file has no head for decisions with one output (decision.block_count, "
                 "cls.output.weight)");
}

/* Find the token of a decoder's markers, and check that the head makes numbers that can be
 * read. */
static int find_marker(struct decision_model *m, const struct tokenizer *t)
{
    const char *name = m->family->marker;
    struct token_list list = {0};
    const int rc =
        tokenizer_encode(t, name, strlen(name), TOKENIZER_PARSE_SPECIAL, SIZE_MAX, NULL, &list);

    if (rc < 0)
        return rc;
    m->n_labels = DECISIONS_MAX_OPTIONS;
    if (list.n == 1)
        m->marker = list.ids[0];
    else
        snprintf(m->complaint, sizeof(m->complaint), "its tokenizer has no token %s", name);
    token_list_release(&list);
    if (m->of->shape.n_labels == 0 || m->of->shape.n_labels % 2 != 0)
        snprintf(m->complaint, sizeof(m->complaint),
                 "its head must have an even number of outputs (tensor cls.output.weight), and "
                 "has %u",
                 m->of->shape.n_labels);
    return 0;
}

/* ---- creation ---- */

static void refuse_type(struct decision_model *m)
{
    char known[160];

    decision_model_list_types(known, sizeof(known));
    snprintf(m->complaint, sizeof(m->complaint),
             "it was trained for decisions of the type '%s', of which this server does not know "
             "the prompts; the known types are %s",
             m->facts->type, known);
}

static const char *find_decision_source(const struct tokenizer *t)
{
    const char *name, *text;

    for (size_t i = 0; (text = tokenizer_chat_template(t, i, &name)) != NULL; i++)
        if (strcmp(name, DECISION_TEMPLATE) == 0)
            return text;
    return NULL;
}

static int prepare_decisions(struct decision_model *m, const struct tokenizer *t)
{
    const char *source = find_decision_source(t);
    char why[160];

    m->family = find_decision_family(m->facts->type);
    if (m->family == NULL) {
        refuse_type(m);
        return 0;
    }
    if (source == NULL) {
        snprintf(m->complaint, sizeof(m->complaint),
                 "its file has no template '%s', which says how it is asked", DECISION_TEMPLATE);
        return 0;
    }
    if (template_create(&m->prompt, source, strlen(source), why, sizeof(why)) < 0) {
        snprintf(m->complaint, sizeof(m->complaint), "its template '%s' cannot be used: %s",
                 DECISION_TEMPLATE, why);
        return 0;
    }
    if (m->family->codes != CODES_NONE && m->of->shape.is_encoder) {
        snprintf(m->complaint, sizeof(m->complaint),
                 "its type '%s' reads the next token, and it is an encoder, which makes none",
                 m->facts->type);
        return 0;
    }
    if (m->family->codes == CODES_NONE && m->family->marker == NULL) {
        find_mask(m, t);
        return 0;
    }
    return m->family->codes == CODES_NONE ? find_marker(m, t) : find_codes(m, t);
}

int decision_model_create(struct decision_model **out, const struct model *of,
                          const struct tokenizer *t)
{
    struct decision_model *m;

    *out = NULL;
    if (of->decision.type[0] == '\0')
        return 0;
    m = mem_calloc(1, sizeof(*m));
    if (m == NULL)
        return ERR_NOMEM;
    m->of = of;
    m->facts = &of->decision;
    m->marker = m->separator = TOKEN_NONE;
    if (prepare_decisions(m, t) < 0) {
        decision_model_destroy(&m);
        return ERR_NOMEM;
    }
    *out = m;
    return 0;
}

void decision_model_destroy(struct decision_model **m)
{
    if (m == NULL || *m == NULL)
        return;
    template_destroy(&(*m)->prompt);
    mem_free(*m);
    *m = NULL;
}

/* ---- use ---- */

const char *decision_model_complaint(const struct decision_model *m)
{
    return m->complaint[0] != '\0' ? m->complaint : NULL;
}

const char *decision_model_type(const struct decision_model *m)
{
    return m->facts->type;
}

int decision_model_render(const struct decision_model *m, const struct decision_ask *ask,
                          struct budget *budget, struct buf *out, struct spans *own,
                          struct api_error *e)
{
    return decision_template_render(m->prompt, &m->family->form, ask, budget, out, own, e);
}

const struct decision_form *decision_model_form(const struct decision_model *m)
{
    return &m->family->form;
}

uint32_t decision_model_max_options(const struct decision_model *m)
{
    return m->n_labels;
}

const char (*decision_model_labels(const struct decision_model *m))[DECISION_LABEL_BYTES]
{
    return m->family->shows_labels ? m->labels : NULL;
}

const int32_t *decision_model_label_ids(const struct decision_model *m)
{
    return m->family->codes != CODES_NONE ? m->ids : NULL;
}

int32_t decision_model_marker(const struct decision_model *m)
{
    return m->marker;
}

const char *decision_model_marker_text(const struct decision_model *m)
{
    return m->marker_text[0] != '\0' ? m->marker_text : NULL;
}

struct marks decision_model_marks(const struct decision_model *m, const struct decision_question *q)
{
    static const uint32_t questions[] = {
        [DECISION_CHOICE] = 0, [DECISION_SCORE] = 1, [DECISION_YES_NO] = 2};

    return (struct marks){
        .read = m->family->read, .n_out = m->of->shape.n_labels, .question = questions[q->kind]};
}

bool decision_model_layout(const struct decision_model *m, const struct decision_question *q,
                           struct decision_layout *out)
{
    *out =
        (struct decision_layout){m->marker, m->separator, q->n_options, m->facts->max_head_tokens};
    return m->family->codes == CODES_NONE && m->family->marker == NULL;
}

/* ---- temperatures ---- */

static const struct model_temperature *find_decision_temperature(const struct decision_model *m,
                                                                 const char *name)
{
    for (uint32_t i = 0; i < m->facts->n_temperatures; i++)
        if (strcmp(m->facts->temperatures[i].name, name) == 0)
            return &m->facts->temperatures[i];
    return NULL;
}

/* The range of options for which a temperature was fitted, as llama.cpp's files name it. */
static const char *range_of(uint32_t n_options)
{
    return n_options <= 2 ? "2" : n_options <= 5 ? "3_5" : n_options <= 10 ? "6_10" : "11";
}

double decision_model_temperature(const struct decision_model *m, const struct decision_question *q)
{
    static const char *const types[] = {"noul", "choice", "score"};
    const struct model_temperature *t;
    char name[32];

    snprintf(name, sizeof(name), "%s.%s", types[q->kind], range_of(q->n_options));
    t = find_decision_temperature(m, name);
    if (t == NULL)
        t = find_decision_temperature(m, types[q->kind]);
    return t != NULL ? (double)t->value : 1;
}
