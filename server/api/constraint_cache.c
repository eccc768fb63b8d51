/* server/api/constraint_cache.c - see constraint_cache.h. */
#include "server/api/constraint_cache.h"

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/grammar/builder.h"
#include "core/grammar/constraint.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/grammar.h"
#include "core/grammar/json_schema.h"
#include "core/grammar/regex.h"
#include "core/grammar/token_trie.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct entry {
    struct list link; /* the one used last comes first */
    enum constraint_kind kind;
    uint64_t owner;
    char *text;
    size_t n;
    uint64_t hash;
    struct constraint *constraint;
    size_t bytes;
};

struct constraint_cache {
    struct constraint_cache_options opt;
    struct token_trie *trie;
    pthread_mutex_t lock; /* guards what follows; nothing else is locked under it */
    struct list entries;
    struct constraint_cache_stats stats;
};

int constraint_cache_create(struct constraint_cache **out,
                            const struct constraint_cache_options *options)
{
    struct constraint_cache *c = mem_calloc(1, sizeof(*c));

    *out = NULL;
    if (c == NULL)
        return ERR_NOMEM;
    c->opt = *options;
    list_init(&c->entries);
    if (token_trie_of(&c->trie, options->tokenizer) < 0) {
        mem_free(c);
        return ERR_NOMEM;
    }
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return 0;
}

/* ---- entries ---- */

static void drop(struct constraint_cache *c, struct entry *e)
{
    list_unlink(&e->link);
    c->stats.n_entries--;
    c->stats.bytes -= e->bytes;
    constraint_unref(&e->constraint);
    mem_free(e->text);
    mem_free(e);
}

void constraint_cache_destroy(struct constraint_cache **constraint_cache)
{
    struct constraint_cache *c = constraint_cache != NULL ? *constraint_cache : NULL;

    if (c == NULL)
        return;
    list_each(it, &c->entries)
        drop(c, list_entry(it, struct entry, link));
    pthread_mutex_destroy(&c->lock);
    token_trie_destroy(&c->trie);
    mem_free(c);
    *constraint_cache = NULL;
}

struct key {
    enum constraint_kind kind;
    uint64_t owner;
    char *text; /* to be freed */
    size_t n;
    uint64_t hash;
};

static struct entry *find(struct constraint_cache *c, const struct key *key)
{
    list_each(it, &c->entries)
    {
        struct entry *e = list_entry(it, struct entry, link);

        if (e->hash == key->hash && e->owner == key->owner && e->kind == key->kind &&
            e->n == key->n && memcmp(e->text, key->text, key->n) == 0)
            return e;
    }
    return NULL;
}

/* The constraint of the key, with a count of its own for the caller, or NULL. */
static struct constraint *look_up(struct constraint_cache *c, const struct key *key)
{
    struct constraint *found = NULL;
    struct entry *e;

    pthread_mutex_lock(&c->lock);
    e = find(c, key);
    if (e != NULL) {
        list_unlink(&e->link);
        list_push_front(&c->entries, &e->link);
        found = constraint_ref(e->constraint);
        c->stats.n_hits++;
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

/* Evict the least recently used until the limits hold; the newest always stays. */
static void make_room(struct constraint_cache *c)
{
    while (c->stats.n_entries > 1 &&
           (c->stats.n_entries > c->opt.max_entries || c->stats.bytes > c->opt.max_bytes))
        drop(c, list_entry(c->entries.prev, struct entry, link));
}

/* Two threads may have compiled the same: both keep what they have, one is remembered. Takes the
 * key's text. */
static void remember(struct constraint_cache *c, struct key *key, struct constraint *made)
{
    struct entry *e = mem_calloc(1, sizeof(*e));

    if (e == NULL)
        return; /* it works without */
    *e = (struct entry){.kind = key->kind,
                        .owner = key->owner,
                        .text = key->text,
                        .n = key->n,
                        .hash = key->hash};
    e->constraint = constraint_ref(made);
    e->bytes = constraint_bytes(made) + key->n;
    key->text = NULL;
    pthread_mutex_lock(&c->lock);
    c->stats.n_compiled++;
    list_push_front(&c->entries, &e->link);
    c->stats.n_entries++;
    c->stats.bytes += e->bytes;
    make_room(c);
    pthread_mutex_unlock(&c->lock);
}

/* ---- compiling ---- */

static int choice_grammar(struct grammar **out, const cJSON *list, struct budget *budget, char *err,
                          size_t err_len)
{
    struct grammar_builder *b;
    struct text_ref *texts;
    const cJSON *it;
    uint32_t rule;
    size_t n = 0;
    int rc;

    texts = mem_calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*texts));
    rc = texts != NULL ? grammar_builder_create(&b, budget) : ERR_NOMEM;
    if (rc == 0) {
        cJSON_ArrayForEach(it, list)
            texts[n++] = (struct text_ref){it->valuestring, strlen(it->valuestring)};
        rule = grammar_rule(b, "the choice");
        grammar_define(b, rule, grammar_choice(b, texts, n));
        rc = grammar_builder_finish(b, out, err, err_len);
        grammar_builder_destroy(&b);
    } else {
        snprintf(err, err_len, "out of memory");
    }
    mem_free(texts);
    return rc;
}

static int schema_grammar(struct grammar **out, const cJSON *value, struct budget *budget,
                          char *err, size_t err_len)
{
    const char *why = NULL;
    cJSON *parsed;
    int rc;

    if (!cJSON_IsString(value))
        return schema_to_grammar(out, value, budget, err, err_len);
    rc = json_parse(value->valuestring, strlen(value->valuestring), &parsed, &why);
    if (rc < 0) {
        snprintf(err, err_len, "it holds no JSON Schema");
        return rc;
    }
    rc = schema_to_grammar(out, parsed, budget, err, err_len);
    cJSON_Delete(parsed);
    return rc;
}

static int make_grammar(struct grammar **out, const struct constraint_spec *w,
                        struct budget *budget, char *err, size_t err_len)
{
    const char *text = cJSON_IsString(w->value) ? w->value->valuestring : "";

    switch (w->kind) {
    case CONSTRAINT_GRAMMAR:
        return grammar_from_gbnf(out, text, strlen(text), budget, err, err_len);
    case CONSTRAINT_REGEX:
        return grammar_from_regex(out, text, strlen(text), budget, err, err_len);
    case CONSTRAINT_CHOICE:
        return choice_grammar(out, w->value, budget, err, err_len);
    case CONSTRAINT_SCHEMA:
        return schema_grammar(out, w->value, budget, err, err_len);
    case CONSTRAINT_JSON:
    case CONSTRAINT_NONE:
        break;
    }
    return schema_any_object(out, err, err_len);
}

static int compile(struct constraint_cache *c, const struct constraint_spec *w,
                   struct budget *budget, struct constraint **out, char *err, size_t err_len)
{
    struct grammar *g = NULL;
    int rc = make_grammar(&g, w, budget, err, err_len);

    if (rc == 0)
        rc = constraint_create(out, g, c->trie, budget, err, err_len);
    if (rc < 0)
        grammar_destroy(&g);
    return rc;
}

/* ---- specs ---- */

static int refuse(const struct constraint_spec *w, struct api_error *e, const char *what)
{
    return api_error_set(e, 400, w->field, NULL, "'%s' %s", w->field, what);
}

static int check_choices(const struct constraint_spec *w, struct api_error *e)
{
    const cJSON *it;
    uint32_t n = 0;

    cJSON_ArrayForEach(it, w->value) {
        if (!cJSON_IsString(it) || ++n > CONSTRAINT_MAX_CHOICES)
            return refuse(w, e, "must be a list of at most 10000 strings");
    }
    return n > 0 ? 0 : refuse(w, e, "must hold at least one string");
}

static int check_spec(const struct constraint_spec *w, struct api_error *e)
{
    switch (w->kind) {
    case CONSTRAINT_GRAMMAR:
    case CONSTRAINT_REGEX:
        return cJSON_IsString(w->value) ? 0 : refuse(w, e, "must be a string");
    case CONSTRAINT_CHOICE:
        return cJSON_IsArray(w->value) ? check_choices(w, e)
                                       : refuse(w, e, "must be a list of strings");
    case CONSTRAINT_SCHEMA:
        if (cJSON_IsObject(w->value) || cJSON_IsBool(w->value) || cJSON_IsString(w->value))
            return 0;
        return refuse(w, e, "must be a JSON Schema");
    case CONSTRAINT_JSON:
    case CONSTRAINT_NONE:
        break;
    }
    return 0;
}

static int make_key(struct key *key, const struct constraint_spec *w, struct api_error *e)
{
    char *printed;

    *key = (struct key){.kind = w->kind, .owner = w->kind == CONSTRAINT_JSON ? 0 : w->owner};
    if (w->kind == CONSTRAINT_JSON) {
        key->text = mem_strdup("");
    } else if (cJSON_IsString(w->value)) {
        key->text = mem_strdup(w->value->valuestring);
    } else {
        printed = cJSON_PrintUnformatted(w->value);
        key->text = printed != NULL ? mem_strdup(printed) : NULL;
        cJSON_free(printed);
    }
    if (key->text == NULL)
        return api_error_no_memory(e);
    key->n = strlen(key->text);
    key->hash = XXH3_64bits(key->text, key->n);
    return key->n <= CONSTRAINT_MAX_TEXT ? 0 : refuse(w, e, "is larger than 256 KiB");
}

static int compile_and_remember(struct constraint_cache *c, const struct constraint_spec *w,
                                struct key *key, struct budget *budget, struct constraint **out,
                                struct api_error *e)
{
    char why[220];
    const int rc = compile(c, w, budget, out, why, sizeof(why));

    if (rc == 0) {
        remember(c, key, *out);
        return 0;
    }
    pthread_mutex_lock(&c->lock);
    c->stats.n_refused++;
    pthread_mutex_unlock(&c->lock);
    if (rc == ERR_NOMEM)
        return api_error_no_memory(e);
    return api_error_set(e, 400, w->field, NULL, "'%s' is not usable: %s", w->field, why);
}

int constraint_cache_get(struct constraint_cache *c, const struct constraint_spec *spec,
                         struct budget *budget, struct constraint **out, struct api_error *e)
{
    struct key key;
    int rc = check_spec(spec, e);

    *out = NULL;
    if (rc < 0)
        return rc;
    rc = make_key(&key, spec, e);
    if (rc == 0) {
        *out = look_up(c, &key);
        if (*out == NULL)
            rc = compile_and_remember(c, spec, &key, budget, out, e);
    }
    mem_free(key.text);
    return rc;
}

struct constraint_cache_stats constraint_cache_stats(struct constraint_cache *c)
{
    struct constraint_cache_stats stats;

    pthread_mutex_lock(&c->lock);
    stats = c->stats;
    pthread_mutex_unlock(&c->lock);
    return stats;
}
