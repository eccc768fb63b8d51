/* tests/tools/sampler.c - what a request may draw from, for the test that compares with the
 * definition (tests/reference/sampler.py).
 *
 * Reads one JSON object a line: {"logits": [...], "history": [...], "n_prompt": 0, "eog": [...],
 * "ban_eog": false, "mu": 0, "chain": ["top_k", ...], "bias": [[id, number], ...], "allowed":
 * [ids], "bad_words": [[ids], ...], "dry_breakers": [ids]} and struct sampling's numbers by their
 * names; a logit that is null is -infinity. Prints [[id, share], ...] for each, best first.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/json/json.h"
#include "core/runtime/sampler.h"

#define MOST 4096 /* tokens of a vocabulary, of a text, of lists */

struct row {
    struct sampling sampling;
    struct batch_output out;
    float logits[MOST], mu;
    int32_t history[MOST], eog[MOST], bad_words[2 * MOST];
    uint32_t allowed[MOST / 32], breakers[MOST / 32];
    struct logit_bias bias[MOST];
    struct token_count counts[MOST];
    uint32_t n_vocab, n_eog;
};

static const struct {
    const char *name;
    size_t at;
} floats[] = {
#define FLOAT(name) {#name, offsetof(struct sampling, name)},
    FLOAT(temperature) FLOAT(top_p) FLOAT(min_p) FLOAT(repetition_penalty) FLOAT(frequency_penalty)
    FLOAT(presence_penalty) FLOAT(typical_p) FLOAT(xtc_probability) FLOAT(xtc_threshold)
    FLOAT(mirostat_tau) FLOAT(mirostat_eta) FLOAT(dry_multiplier) FLOAT(dry_base)
    FLOAT(top_n_sigma) FLOAT(dynatemp_range) FLOAT(dynatemp_exponent)
#undef FLOAT
}, wholes[] = {
#define WHOLE(name) {#name, offsetof(struct sampling, name)},
    WHOLE(top_k) WHOLE(dry_allowed_length) WHOLE(dry_last_n) WHOLE(penalty_last_n) WHOLE(min_keep)
#undef WHOLE
};

static double number(const cJSON *line, const char *name)
{
    const cJSON *v = cJSON_GetObjectItem(line, name);

    return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

static uint32_t read_ids(const cJSON *list, int32_t *ids)
{
    const cJSON *it;
    uint32_t n = 0;

    cJSON_ArrayForEach(it, list)
        ids[n++] = (int32_t)it->valuedouble;
    return n;
}

/* The list's ids as bits; NULL: there is no list. */
static const uint32_t *read_bits(const cJSON *list, uint32_t *bits)
{
    const cJSON *it;

    cJSON_ArrayForEach(it, list)
        bits[it->valueint / 32] |= 1u << it->valueint % 32;
    return cJSON_IsArray(list) ? bits : NULL;
}

static void read_bad_words(const cJSON *words, struct row *r)
{
    const cJSON *word;
    int32_t *at = r->bad_words;

    cJSON_ArrayForEach(word, words) {
        *at = (int32_t)read_ids(word, at + 1);
        at += 1 + *at;
    }
    *at = 0;
    r->sampling.bad_words = cJSON_IsArray(words) ? r->bad_words : NULL;
}

static void read_chain(const cJSON *names, struct sampling *s)
{
    static const char *const known[] = {"none",  "top_n_sigma", "top_k", "typical_p",
                                        "top_p", "min_p",       "xtc",   "temperature"};
    const cJSON *it;

    cJSON_ArrayForEach(it, names)
        for (uint8_t stage = 0; stage < sizeof(known) / sizeof(known[0]); stage++)
            if (strcmp(it->valuestring, known[stage]) == 0)
                s->chain[s->n_chain++] = stage;
}

/* As the engine counts them: each token of the text once, prompt and answer apart. */
static void count(struct row *r, uint32_t n_prompt)
{
    for (uint32_t i = 0; i < r->out.pos; i++) {
        uint32_t k = 0;

        while (k < r->out.n_counts && r->counts[k].id != r->history[i])
            k++;
        if (k == r->out.n_counts)
            r->counts[r->out.n_counts++] = (struct token_count){r->history[i], 0, 0};
        *(i < n_prompt ? &r->counts[k].n_prompt : &r->counts[k].n_generated) += 1;
    }
    r->out.counts = r->counts;
}

static void read_row(const cJSON *line, struct row *r)
{
    struct sampling *s = &r->sampling;
    const cJSON *it;

    memset(r, 0, sizeof(*r));
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        *(float *)(void *)((char *)s + floats[i].at) = (float)number(line, floats[i].name);
    for (size_t i = 0; i < sizeof(wholes) / sizeof(wholes[0]); i++)
        *(uint32_t *)(void *)((char *)s + wholes[i].at) = (uint32_t)number(line, wholes[i].name);
    cJSON_ArrayForEach(it, cJSON_GetObjectItem(line, "logits"))
        r->logits[r->n_vocab++] = cJSON_IsNumber(it) ? (float)it->valuedouble : -INFINITY;
    cJSON_ArrayForEach(it, cJSON_GetObjectItem(line, "bias"))
        r->bias[s->n_bias++] =
            (struct logit_bias){it->child->valueint, (float)it->child->next->valuedouble};
    s->bias = r->bias;
    s->allowed = read_bits(cJSON_GetObjectItem(line, "allowed"), r->allowed);
    s->dry_breakers = read_bits(cJSON_GetObjectItem(line, "dry_breakers"), r->breakers);
    read_bad_words(cJSON_GetObjectItem(line, "bad_words"), r);
    read_chain(cJSON_GetObjectItem(line, "chain"), s);
    r->n_eog = read_ids(cJSON_GetObjectItem(line, "eog"), r->eog);
    r->out.sampling = s;
    r->out.history = r->history;
    r->out.pos = read_ids(cJSON_GetObjectItem(line, "history"), r->history);
    r->out.ban_eog = cJSON_IsTrue(cJSON_GetObjectItem(line, "ban_eog"));
    r->mu = (float)number(line, "mu");
    r->out.mirostat_mu = &r->mu;
    if (s->penalty_last_n == 0)
        count(r, (uint32_t)number(line, "n_prompt"));
}

static void answer(const struct kern_table *kern, const struct row *r)
{
    static struct sampler_share shares[MOST];
    struct sampler_scratch scratch;
    uint32_t n;

    if (sampler_scratch_create(&scratch, r->n_vocab) < 0)
        abort();
    n = sampler_shares(kern, &scratch, r->logits, r->eog, r->n_eog, &r->out, shares);
    putchar('[');
    for (uint32_t i = 0; i < n; i++)
        printf("%s[%d,%.9g]", i > 0 ? "," : "", shares[i].id, (double)shares[i].p);
    puts("]");
    fflush(stdout);
    sampler_scratch_release(&scratch);
}

int main(void)
{
    struct row *r = malloc(sizeof(*r));
    struct kern_table kern;
    char *line = NULL;
    size_t size = 0;

    if (r == NULL)
        return 1;
    kern_init(&kern, kern_isa_best());
    while (getline(&line, &size, stdin) > 0) {
        cJSON *request = NULL;
        const char *why = NULL;

        if (json_parse(line, strlen(line), &request, &why) < 0)
            abort();
        read_row(request, r);
        answer(&kern, r);
        cJSON_Delete(request);
    }
    free(line);
    free(r);
    return 0;
}
