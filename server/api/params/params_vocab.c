/* server/api/params/params_vocab.c - fields that name tokens: biases, allowed tokens, words that
 * may not appear, and control tokens that appear as text.
 *
 * Texts are tokenized here, on the budget of the request, so the sampler sees ids alone. The
 * allowed tokens become one bit for each token of the vocabulary; bad words become one list, in
 * which each word's tokens follow their number, and a 0 ends the list.
 */
#include "server/api/params/params_impl.h"

#include "core/base/budget.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/params/field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BAD_WORDS 128
#define MAX_BAD_IDS 1024 /* tokens of all bad words */
#define MAX_PRESERVED_IDS 64 /* tokens of one text */

/* Tokenize a text into at most `max` tokens, without any that begin or end it. */
static int encode(const struct field_args *a, const char *text, unsigned flags, size_t max,
                  struct token_list *list)
{
    struct budget *budget = a->limits->budget;
    const int rc =
        tokenizer_encode(a->limits->tokenizer, text, strlen(text), flags, max, budget, list);

    if (rc == ERR_NOMEM)
        return api_error_no_memory(a->e);
    if (rc < 0)
        return params_refuse(a, "%s",
                             budget_error(budget) < 0 ? "takes too many steps to tokenize"
                                                      : "has a text of too many tokens");
    return 0;
}

/* ---- logit_bias ---- */

/* A duplicate key gets the slot of the first, so that here, too, the last one wins. */
struct logit_bias *params_bias_slot(struct params *p, int32_t id)
{
    for (uint32_t i = 0; i < p->sampling.n_bias; i++)
        if (p->bias[i].id == id)
            return &p->bias[i];
    return p->sampling.n_bias < SAMPLING_MAX_BIAS ? &p->bias[p->sampling.n_bias++] : NULL;
}

static int add_bias(const struct field_args *a, int32_t id, float bias)
{
    struct logit_bias *slot = params_bias_slot(a->p, id);

    if (slot == NULL)
        return params_refuse(a, "must have at most %d entries", SAMPLING_MAX_BIAS);
    *slot = (struct logit_bias){id, bias};
    return 0;
}

/* Bias each token of the text. */
static int add_text_bias(const struct field_args *a, const char *text, float bias)
{
    struct token_list list = {0};
    int rc;

    if (text[0] == '\0')
        return params_refuse(a, "has an empty text");
    rc = encode(a, text, 0, SAMPLING_MAX_BIAS, &list);
    for (size_t i = 0; rc == 0 && i < list.n; i++)
        rc = add_bias(a, list.ids[i], bias);
    token_list_release(&list);
    return rc;
}

/* A bias of false means never. */
static int read_bias(const struct field_args *a, const cJSON *v, float *bias)
{
    *bias = -INFINITY;
    return cJSON_IsFalse(v) ? 0 : field_float(v, a->name, -100, 100, bias, a->e);
}

static int refuse_id(const struct field_args *a)
{
    return params_refuse(a, "must have token ids between 0 and %d, or texts",
                         a->limits->n_vocab - 1);
}

/* A key of digits is an id, with leading zeros or without; any other key is a text. */
static int take_bias_key(const struct field_args *a, const cJSON *member)
{
    const char *key = member->string;
    const size_t n = strlen(key), digits = strspn(key[0] == '-' ? key + 1 : key, "0123456789");
    float bias;

    if (read_bias(a, member, &bias) < 0)
        return ERR_INVAL;
    if (digits == 0 || digits + (key[0] == '-') != n)
        return add_text_bias(a, key, bias);
    if (n > 10 || key[0] == '-' || strtol(key, NULL, 10) >= a->limits->n_vocab)
        return refuse_id(a);
    return add_bias(a, (int32_t)strtol(key, NULL, 10), bias);
}

/* [15043, 1.5], ["Hello", -0.5] or [15043, false] */
static int take_pair(const struct field_args *a, const cJSON *pair)
{
    float bias;

    if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2)
        return params_refuse(a, "must hold pairs of a token id or a text, and a bias");
    if (read_bias(a, pair->child->next, &bias) < 0)
        return ERR_INVAL;
    if (cJSON_IsString(pair->child))
        return add_text_bias(a, pair->child->valuestring, bias);
    if (!field_is_int(pair->child, 0, a->limits->n_vocab - 1))
        return refuse_id(a);
    return add_bias(a, (int32_t)pair->child->valuedouble, bias);
}

int params_parse_logit_bias(const struct field_args *a)
{
    int rc = 0;

    if (!cJSON_IsArray(a->v) && !cJSON_IsObject(a->v))
        return params_refuse(a, "must be an object or a list of pairs");
    for (const cJSON *it = a->v->child; rc == 0 && it != NULL; it = it->next)
        rc = cJSON_IsArray(a->v) ? take_pair(a, it) : take_bias_key(a, it);
    return rc;
}

/* ---- allowed and bad tokens ---- */

int params_parse_allowed_token_ids(const struct field_args *a)
{
    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return params_refuse(a, "must be a list of token ids, with at least one");
    a->p->n_allowed = (uint32_t)a->limits->n_vocab / 32 + 1;
    a->p->allowed = mem_calloc(a->p->n_allowed, sizeof(*a->p->allowed));
    if (a->p->allowed == NULL)
        return api_error_no_memory(a->e);
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        if (!field_is_int(it, 0, a->limits->n_vocab - 1))
            return params_refuse(a, "must hold token ids between 0 and %d", a->limits->n_vocab - 1);
        a->p->allowed[(uint32_t)it->valuedouble >> 5] |= 1u << ((uint32_t)it->valuedouble & 31);
    }
    a->p->sampling.allowed = a->p->allowed;
    return 0;
}

/* Append the number of the word's tokens and then the tokens, before the 0 that ends the list. */
static int add_bad_ids(const struct field_args *a, const char *text)
{
    struct token_list list = {0};
    int32_t *to = a->p->bad_words + a->p->n_bad_words - 1;
    const size_t room = 2 * MAX_BAD_WORDS + MAX_BAD_IDS - a->p->n_bad_words;
    const int rc = encode(a, text, 0, MAX_BAD_IDS, &list);

    if (rc == 0 && list.n + 1 > room) {
        token_list_release(&list);
        return params_refuse(a, "must have at most %d tokens", MAX_BAD_IDS / 2);
    }
    if (rc == 0 && list.n > 0) {
        *to = (int32_t)list.n;
        memcpy(to + 1, list.ids, list.n * sizeof(*to));
        a->p->n_bad_words += (uint32_t)list.n + 1;
    }
    token_list_release(&list);
    return rc;
}

/* Add a word as it is at the beginning of a text, and as it is after another word. */
static int add_bad_word(const struct field_args *a, const char *word)
{
    const size_t n = strlen(word);
    char *spaced;
    int rc;

    if (n == 0)
        return params_refuse(a, "has an empty word");
    if (add_bad_ids(a, word) < 0)
        return ERR_INVAL;
    spaced = mem_alloc(n + 2);
    if (spaced == NULL)
        return api_error_no_memory(a->e);
    spaced[0] = ' ';
    memcpy(spaced + 1, word, n + 1);
    rc = word[0] == ' ' ? add_bad_ids(a, word + 1) : add_bad_ids(a, spaced);
    mem_free(spaced);
    return rc;
}

int params_parse_bad_words(const struct field_args *a)
{
    uint32_t n = 0;

    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list of strings");
    if (a->v->child == NULL)
        return 0;
    a->p->bad_words = mem_calloc(2 * MAX_BAD_WORDS + MAX_BAD_IDS + 1, sizeof(*a->p->bad_words));
    if (a->p->bad_words == NULL)
        return api_error_no_memory(a->e);
    a->p->n_bad_words = 1;
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        if (!cJSON_IsString(it) || ++n > MAX_BAD_WORDS)
            return params_refuse(a, "must hold at most %d strings", MAX_BAD_WORDS);
        if (add_bad_word(a, it->valuestring) < 0)
            return ERR_INVAL;
    }
    a->p->sampling.bad_words = a->p->bad_words;
    return 0;
}

/* ---- preserved_tokens ---- */

/* As in llama-server, a text that is not exactly one token is ignored. */
static int preserve(const struct field_args *a, const char *text)
{
    struct token_list list = {0};
    int rc = encode(a, text, TOKENIZER_PARSE_SPECIAL, MAX_PRESERVED_IDS, &list);

    if (rc == 0 && list.n == 1 && a->p->n_preserved < PARAMS_MAX_PRESERVED)
        a->p->preserved[a->p->n_preserved++] = list.ids[0];
    token_list_release(&list);
    return rc;
}

int params_parse_preserved_tokens(const struct field_args *a)
{
    const cJSON *it;
    int rc = 0;

    if (!cJSON_IsArray(a->v) || cJSON_GetArraySize(a->v) > PARAMS_MAX_PRESERVED)
        return params_refuse(a, "must be a list of at most %d texts", PARAMS_MAX_PRESERVED);
    a->p->n_preserved = 0;
    cJSON_ArrayForEach(it, a->v) {
        if (!cJSON_IsString(it))
            return params_refuse(a, "must be a list of at most %d texts", PARAMS_MAX_PRESERVED);
        if (rc == 0)
            rc = preserve(a, it->valuestring);
    }
    return rc;
}
