/* server/api/params/params_decisions.c - the fields that only calls for decisions have: the
 * questions of OpenAI's /v1/decisions, a list, and those of TypeSafe's /v1/systemone, an object by
 * name, and the latter's state.
 *
 * Both become a decision_set. An unknown member of a question is refused, because it would change
 * what is asked.
 * https://platform.openai.com/docs/api-reference/decisions
 * https://docs.typesafe.ai/go/system-one
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT ((size_t)64 << 20) /* bytes of a question's text: a body has no more */

/* ---- helpers ---- */

static bool is_word_of(const char *words, const char *word)
{
    const size_t n_word = strlen(word);

    while (*words != '\0') {
        const size_t n = strcspn(words, " ");

        if (n == n_word && memcmp(words, word, n) == 0)
            return true;
        words += n + (words[n] == ' ');
    }
    return false;
}

/* Refuse a member of the object that is not in `names`, a list of words. */
static int check_members(const struct field_path *p, const cJSON *object, const char *names)
{
    for (const cJSON *it = object->child; it != NULL; it = it->next)
        if (!is_word_of(names, it->string))
            return api_error_set(p->e, 400, p->text, NULL,
                                 "'%s' has an unknown member '%.60s': known are %s", p->text,
                                 it->string, names);
    return 0;
}

/* A copy that lives as long as the params; NULL: no memory, and *a->e says so. */
static const cJSON *keep_value(const struct field_args *a, const cJSON *v)
{
    const cJSON *kept = conversation_keep(&a->p->chat, cJSON_Duplicate(v, true));

    if (kept == NULL)
        api_error_no_memory(a->e);
    return kept;
}

/* The value as the model reads it: a text, or JSON. NULL: no memory, and *a->e says so. */
static const char *text_of(const struct field_args *a, const cJSON *v)
{
    const char *own;
    struct buf text;

    buf_init(&text, MAX_TEXT);
    if (cJSON_IsString(v))
        buf_add_str(&text, v->valuestring);
    else
        json_add_value(&text, v);
    own = conversation_own(&a->p->chat, &text);
    if (own == NULL)
        api_error_no_memory(a->e);
    return own;
}

static bool is_empty_text(const cJSON *v)
{
    return cJSON_IsString(v) && v->valuestring[0] == '\0';
}

/* Fill *text from a member that may be absent, null or empty: then it is NULL. */
static int take_text(const struct field_args *a, const cJSON *v, const char **text)
{
    *text = NULL;
    if (v == NULL || is_empty_text(v))
        return 0;
    *text = text_of(a, v);
    return *text != NULL ? 0 : ERR_NOMEM;
}

static struct decision_question *add_question(const struct field_args *a, enum decision_kind kind,
                                              const char *name)
{
    struct decision_question *q = decision_set_add(&a->p->decisions, kind);

    if (q == NULL)
        api_error_no_memory(a->e);
    else
        q->name = name;
    return q;
}

static int add_option(const struct field_args *a, const char *name, const char *detail,
                      const cJSON *given)
{
    struct decision_option *o = decision_set_add_option(&a->p->decisions);

    if (o == NULL)
        return api_error_no_memory(a->e);
    *o = (struct decision_option){.name = name, .detail = detail, .given = given};
    return 0;
}

/* Keep the last option's description as it is in the body; NULL or null: it has none. */
static void set_raw(const struct field_args *a, const cJSON *raw)
{
    const struct decision_set *s = &a->p->decisions;

    s->options[s->n_options - 1].raw = cJSON_IsNull(raw) ? NULL : raw;
}

static int check_count(const struct field_path *p, const cJSON *list, const char *member, int least)
{
    char what[80];
    const int n = cJSON_GetArraySize(list);

    if (n >= least && n <= DECISIONS_MAX_OPTIONS)
        return 0;
    snprintf(what, sizeof(what), "%d to %d options; it has %d", least, DECISIONS_MAX_OPTIONS, n);
    return api_error_set(p->e, 400, p->text, NULL, "'%s.%s' must have %s", p->text, member, what);
}

/* ---- OpenAI: a list of questions ---- */

/* Append the parts of instructions, each on a line of its own. */
static int add_parts(const struct field_path *p, const cJSON *parts, struct buf *out)
{
    for (const cJSON *it = parts->child; it != NULL; it = it->next) {
        const char *type = field_text(it, "type"), *text = field_text(it, "text");
        const cJSON *data = field_find(it, "data");

        if (out->len > 0)
            buf_add_char(out, '\n');
        if (type != NULL && strcmp(type, "input_text") == 0 && text != NULL)
            buf_add_str(out, text);
        else if (type != NULL && strcmp(type, "input_json") == 0 &&
                 (cJSON_IsObject(data) || cJSON_IsArray(data)))
            json_add_value(out, data);
        else
            return field_refuse(p, "instructions",
                                "text: a string, or parts input_text and input_json (this model "
                                "takes no images)");
    }
    return 0;
}

static int take_instructions(const struct field_args *a, const struct field_path *p, const cJSON *v,
                             const char **text)
{
    const cJSON *given = field_find(v, "instructions");
    struct buf joined;

    if (cJSON_IsString(given) && given->valuestring[0] != '\0')
        return take_text(a, given, text);
    if (!cJSON_IsArray(given) || given->child == NULL)
        return field_refuse(p, "instructions", "a text that is not empty, or a list of parts");
    buf_init(&joined, MAX_TEXT);
    if (add_parts(p, given, &joined) < 0) {
        buf_release(&joined);
        return ERR_INVAL;
    }
    *text = conversation_own(&a->p->chat, &joined);
    return *text != NULL ? 0 : api_error_no_memory(a->e);
}

static bool is_same_value(const cJSON *x, const cJSON *y)
{
    if (cJSON_IsString(x) && cJSON_IsString(y))
        return strcmp(x->valuestring, y->valuestring) == 0;
    return cJSON_IsBool(x) && cJSON_IsBool(y) && cJSON_IsTrue(x) == cJSON_IsTrue(y);
}

/* Choice values are typed: the text "true" and the boolean true are two options. */
static int check_distinct(const struct field_args *a, const struct field_path *p)
{
    const struct decision_set *s = &a->p->decisions;
    const struct decision_question *q = &s->questions[s->n_questions - 1];
    const struct decision_option *last = &s->options[s->n_options - 1];

    for (uint32_t i = q->first_option; i < s->n_options - 1; i++)
        if (is_same_value(s->options[i].given, last->given))
            return q->kind == DECISION_SCORE
                       ? field_refuse(p, "label", "different from the labels of the other levels")
                       : field_refuse(p, "value", "different from the values of the other choices");
    return 0;
}

static int take_choice_item(const struct field_args *a, const struct field_path *p, const cJSON *v)
{
    const cJSON *value = field_find(v, "value"), *description = field_find(v, "description");
    const char *name, *detail;

    if (!cJSON_IsObject(v))
        return field_refuse(p, "", "an object with a value");
    if (check_members(p, v, "value description") < 0)
        return ERR_INVAL;
    if (!cJSON_IsBool(value) && (!cJSON_IsString(value) || is_empty_text(value)))
        return field_refuse(p, "value", "a text that is not empty, or a boolean");
    if (description != NULL && !cJSON_IsString(description))
        return field_refuse(p, "description", "a string");
    value = keep_value(a, value);
    name = value != NULL ? text_of(a, value) : NULL;
    if (name == NULL || take_text(a, description, &detail) < 0 ||
        add_option(a, name, detail, value) < 0)
        return ERR_INVAL;
    return check_distinct(a, p);
}

static int take_level(const struct field_args *a, const struct field_path *p, const cJSON *v)
{
    const cJSON *label = field_find(v, "label"), *description = field_find(v, "description");
    const char *name, *detail;

    if (!cJSON_IsObject(v))
        return field_refuse(p, "", "an object with a label");
    if (check_members(p, v, "label description") < 0)
        return ERR_INVAL;
    if (!cJSON_IsString(label) || is_empty_text(label))
        return field_refuse(p, "label", "a text that is not empty");
    if (description != NULL && !cJSON_IsString(description))
        return field_refuse(p, "description", "a string");
    label = keep_value(a, label);
    name = label != NULL ? text_of(a, label) : NULL;
    if (name == NULL || take_text(a, description, &detail) < 0 ||
        add_option(a, name, detail, label) < 0)
        return ERR_INVAL;
    return check_distinct(a, p);
}

/* Levels whose labels are all numbers must rise. */
static int check_levels(const struct field_args *a, const struct field_path *p)
{
    const struct decision_set *s = &a->p->decisions;
    const struct decision_question *q = &s->questions[s->n_questions - 1];
    bool rises = true;
    double before = 0;

    for (uint32_t i = 0; i < q->n_options; i++) {
        const char *label = s->options[q->first_option + i].name;
        char *end;
        const double value = strtod(label, &end);

        if (end == label || *end != '\0')
            return 0;
        rises = rises && (i == 0 || value > before);
        before = value;
    }
    if (rises)
        return 0;
    return field_refuse(p, "levels", "in order, from the lowest to the highest");
}

static int take_list_of(const struct field_args *a, const struct field_path *p, const cJSON *v,
                        const char *member,
                        int (*take)(const struct field_args *a, const struct field_path *p,
                                    const cJSON *item))
{
    const cJSON *list = field_find(v, member);
    int i = 0;

    if (!cJSON_IsArray(list))
        return field_refuse(p, member, "a list");
    if (check_count(p, list, member, 2) < 0)
        return ERR_INVAL;
    for (const cJSON *it = list->child; it != NULL; it = it->next) {
        const struct field_path in = field_path_in(p, member, i++);

        if (take(a, &in, it) < 0)
            return ERR_INVAL;
    }
    return 0;
}

static int add_yes_no(const struct field_args *a, const char *yes, const char *no)
{
    return add_option(a, NULL, yes, NULL) == 0 ? add_option(a, NULL, no, NULL) : ERR_NOMEM;
}

static int check_name(const struct field_args *a, const struct field_path *p, const char *name)
{
    const struct decision_set *s = &a->p->decisions;

    for (uint32_t i = 0; name != NULL && i < s->n_questions; i++)
        if (s->questions[i].name != NULL && strcmp(s->questions[i].name, name) == 0)
            return field_refuse(p, "name", "different from the names of the other questions");
    return 0;
}

static int take_name(const struct field_args *a, const struct field_path *p, const cJSON *v,
                     const char **name)
{
    const cJSON *given = field_find(v, "name");

    if (given != NULL && !cJSON_IsString(given))
        return field_refuse(p, "name", "a string");
    *name = NULL;
    if (given != NULL && (*name = text_of(a, given)) == NULL)
        return ERR_NOMEM;
    return check_name(a, p, *name);
}

static int take_question(const struct field_args *a, const struct field_path *p, const cJSON *v)
{
    static const struct {
        const char *type, *members;
        enum decision_kind kind;
    } kinds[] = {
        {"predicate", "type name instructions", DECISION_YES_NO},
        {"choice", "type name instructions choices", DECISION_CHOICE},
        {"score", "type name instructions levels", DECISION_SCORE},
    };
    const char *type = field_text(v, "type"), *name = NULL, *text = NULL;
    struct decision_question *q;
    size_t k = 0;

    while (type != NULL && k < 3 && strcmp(kinds[k].type, type) != 0)
        k++;
    if (type == NULL || k == 3)
        return field_refuse(p, "type", "predicate, choice or score");
    if (check_members(p, v, kinds[k].members) < 0 || take_name(a, p, v, &name) < 0 ||
        take_instructions(a, p, v, &text) < 0)
        return ERR_INVAL;
    q = add_question(a, kinds[k].kind, name);
    if (q == NULL)
        return ERR_NOMEM;
    q->text = text;
    if (kinds[k].kind == DECISION_YES_NO)
        return add_yes_no(a, NULL, NULL);
    if (kinds[k].kind == DECISION_CHOICE)
        return take_list_of(a, p, v, "choices", take_choice_item);
    return take_list_of(a, p, v, "levels", take_level) == 0 ? check_levels(a, p) : ERR_INVAL;
}

static int check_number(const struct field_args *a)
{
    const int n = cJSON_GetArraySize(a->v);

    if (n >= 1 && n <= DECISIONS_MAX_QUESTIONS)
        return 0;
    return params_refuse(a, "must have 1 to %d questions; it has %d", DECISIONS_MAX_QUESTIONS, n);
}

int params_parse_questions(const struct field_args *a)
{
    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list of questions");
    return check_number(a) == 0 ? params_take_each(a, take_question) : ERR_INVAL;
}

/* ---- TypeSafe: questions by name ---- */

static int take_noul_criteria(const struct field_args *a, const struct field_path *p,
                              const cJSON *criteria)
{
    const struct field_path in = field_path_in(p, "criteria", -1);
    const char *yes, *no;

    if (criteria == NULL)
        return add_yes_no(a, NULL, NULL);
    if (!cJSON_IsObject(criteria))
        return field_refuse(p, "criteria", "an object with true and false");
    if (check_members(&in, criteria, "true false") < 0 ||
        take_text(a, field_find(criteria, "true"), &yes) < 0 ||
        take_text(a, field_find(criteria, "false"), &no) < 0 || add_option(a, NULL, yes, NULL) < 0)
        return ERR_INVAL;
    set_raw(a, field_find(criteria, "true"));
    if (add_option(a, NULL, no, NULL) < 0)
        return ERR_NOMEM;
    set_raw(a, field_find(criteria, "false"));
    return 0;
}

static int take_choice_criteria(const struct field_args *a, const struct field_path *p,
                                const cJSON *criteria)
{
    if (!cJSON_IsObject(criteria))
        return field_refuse(p, "criteria", "an object: each option's name, and its description");
    if (check_count(p, criteria, "criteria", 1) < 0)
        return ERR_INVAL;
    for (const cJSON *it = criteria->child; it != NULL; it = it->next) {
        const cJSON *name = conversation_keep(&a->p->chat, cJSON_CreateString(it->string));
        const char *detail;

        if (name == NULL)
            return api_error_no_memory(a->e);
        if (name->valuestring[0] == '\0')
            return field_refuse(p, "criteria", "options with names that are not empty");
        if (take_text(a, cJSON_IsNull(it) ? NULL : it, &detail) < 0 ||
            add_option(a, name->valuestring, detail, name) < 0)
            return ERR_INVAL;
        set_raw(a, it);
    }
    return 0;
}

static int take_score_criteria(const struct field_args *a, const struct field_path *p,
                               const cJSON *criteria)
{
    if (!cJSON_IsArray(criteria))
        return field_refuse(p, "criteria", "a list of levels, from the lowest to the highest");
    if (check_count(p, criteria, "criteria", 1) < 0)
        return ERR_INVAL;
    for (const cJSON *it = criteria->child; it != NULL; it = it->next) {
        const cJSON *given = keep_value(a, it);
        const char *name = given != NULL ? text_of(a, given) : NULL;

        if (name == NULL || add_option(a, name, NULL, given) < 0)
            return ERR_NOMEM;
        set_raw(a, it);
        if (cJSON_IsNull(it) || is_empty_text(it))
            return field_refuse(p, "criteria", "levels that are not empty");
    }
    return 0;
}

static int take_named_question(const struct field_args *a, const struct field_path *p,
                               const char *name, const cJSON *v)
{
    const char *type = field_text(v, "type");
    const cJSON *criteria = field_find(v, "criteria"), *given = field_find(v, "instructions");
    const bool is_noul = type != NULL && strcmp(type, "noul") == 0;
    const bool is_choice = type != NULL && strcmp(type, "choice") == 0;
    struct decision_question *q;

    if (type != NULL && strcmp(type, "box") == 0)
        return field_refuse(p, "type",
                            "noul (yes or no), choice or score: this model sees no images");
    if (!is_noul && !is_choice && (type == NULL || strcmp(type, "score") != 0))
        return field_refuse(p, "type", "noul (yes or no), choice or score");
    if (check_members(p, v, "type instructions criteria") < 0)
        return ERR_INVAL;
    q = add_question(a,
                     is_noul     ? DECISION_YES_NO
                     : is_choice ? DECISION_CHOICE
                                 : DECISION_SCORE,
                     name);
    if (q == NULL || take_text(a, given, &q->text) < 0)
        return ERR_NOMEM;
    q->raw = given;
    if (is_noul)
        return take_noul_criteria(a, p, criteria);
    return is_choice ? take_choice_criteria(a, p, criteria) : take_score_criteria(a, p, criteria);
}

#define NAME_IN_PATH 32 /* bytes of a question's name that an error shows */

/* Return the bytes of the name's beginning, whole characters, that an error shows. */
static int shown_bytes(const char *name)
{
    size_t n = strnlen(name, NAME_IN_PATH + 1);

    if (n <= NAME_IN_PATH)
        return (int)n;
    for (n = NAME_IN_PATH; n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80;)
        n--;
    return (int)n;
}

int params_parse_named_questions(const struct field_args *a)
{
    if (!cJSON_IsObject(a->v))
        return params_refuse(a, "must be an object: each question by its name");
    if (check_number(a) < 0)
        return ERR_INVAL;
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        const cJSON *name = conversation_keep(&a->p->chat, cJSON_CreateString(it->string));
        struct field_path p = {.e = a->e};

        snprintf(p.text, sizeof(p.text), "questions.%.*s", shown_bytes(it->string), it->string);
        if (name == NULL)
            return api_error_no_memory(a->e);
        if (!cJSON_IsObject(it))
            return field_refuse(&p, "", "an object");
        if (take_named_question(a, &p, name->valuestring, it) < 0)
            return ERR_INVAL;
    }
    return 0;
}

int params_parse_state(const struct field_args *a)
{
    const char *text;

    a->p->has_messages = true;
    if (!cJSON_IsString(a->v) && !cJSON_IsObject(a->v) && !cJSON_IsArray(a->v))
        return params_refuse(a, "must be a text, an object or a list");
    a->p->decisions.state = a->v;
    text = text_of(a, a->v);
    if (text == NULL || params_add_message(a, "user") < 0)
        return ERR_NOMEM;
    return params_add_text(a, text);
}

/* ---- all fields together ---- */

static bool has_text(const struct conversation *c)
{
    for (uint32_t i = 0; i < c->n_parts; i++)
        if (c->parts[i][0] != '\0')
            return true;
    return c->n_calls > 0;
}

int params_settle_decisions(struct params *p, struct api_error *e)
{
    const char *input = p->form == PARAMS_DECIDE ? "input" : "state";

    if (p->has_messages && !has_text(&p->chat))
        return api_error_set(e, 400, input, NULL, "'%s' must not be empty", input);
    if (p->decisions.n_questions == 0)
        return api_error_set(e, 400, "questions", NULL, "'questions' is required");
    p->n_prompts = decision_set_count_prompts(&p->decisions);
    if (p->n_prompts > DECISIONS_MAX_PROMPTS)
        return api_error_set(e, 400, "permutations", NULL,
                             "the questions in %u orders are %u prompts, and a call may have %d: "
                             "send fewer questions or permutations",
                             p->decisions.permutations, p->n_prompts, DECISIONS_MAX_PROMPTS);
    p->thinking = THINKING_OFF;
    p->max_tokens = 1;
    p->without_drafts = true;
    return 0;
}
