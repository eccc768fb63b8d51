/* server/api/constraint/constraint_cache.c - a least-recently-used cache of compiled constraints.
 *
 * A request looks its constraint up on the thread that parses its body. The list is short, so it is
 * searched linearly by hash; the mutex is held for list operations only. A constraint is compiled
 * without the lock, so two threads may compile the same one: both results are used, and both are
 * put in the list, where the older one is evicted in time.
 */
#include "server/api/constraint/constraint_cache.h"

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/grammar/constraint.h"
#include "core/grammar/token_trie.h"
#include "core/json/json.h"
#include "server/api/constraint/constraint_compile.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct entry {
    struct list link; /* the most recently used comes first */
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
    pthread_mutex_t lock; /* guards the members below; nothing else is locked under it */
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

static void drop_cached(struct constraint_cache *c, struct entry *e)
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
    list_each(it, &c->entries) drop_cached(c, list_entry(it, struct entry, link));
    pthread_mutex_destroy(&c->lock);
    token_trie_destroy(&c->trie);
    mem_free(c);
    *constraint_cache = NULL;
}

struct key {
    enum constraint_kind kind;
    uint64_t owner;
    char *text; /* owned */
    size_t n;
    uint64_t hash;
};

static struct entry *find_cached(struct constraint_cache *c, const struct key *key)
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

/* Returns the constraint of the key with a reference for the caller, or NULL. */
static struct constraint *look_up(struct constraint_cache *c, const struct key *key)
{
    struct constraint *found = NULL;
    struct entry *e;

    pthread_mutex_lock(&c->lock);
    e = find_cached(c, key);
    if (e != NULL) {
        list_unlink(&e->link);
        list_push_front(&c->entries, &e->link);
        found = constraint_ref(e->constraint);
        c->stats.n_hits++;
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

/* Evicts the least recently used until the limits hold; the newest always stays. */
static void make_cache_room(struct constraint_cache *c)
{
    while (c->stats.n_entries > 1 &&
           (c->stats.n_entries > c->opt.max_entries || c->stats.bytes > c->opt.max_bytes))
        drop_cached(c, list_entry(c->entries.prev, struct entry, link));
}

/* Adds a constraint to the list; takes the key's text. Two threads may have compiled the same one:
 * each keeps its own. */
static void remember(struct constraint_cache *c, struct key *key, struct constraint *made)
{
    struct entry *e = mem_calloc(1, sizeof(*e));

    if (e == NULL)
        return; /* the cache is optional */
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
    make_cache_room(c);
    pthread_mutex_unlock(&c->lock);
}

/* ---- specs ---- */

static char *cached_text(const cJSON *value)
{
    if (value == NULL)
        return mem_strdup("");
    if (cJSON_IsString(value))
        return mem_strdup(value->valuestring);
    return json_value_text(value);
}

/* Makes the key's text: the value, a NUL, which neither part contains, and the triggers. */
static int make_text(struct key *key, const struct constraint_spec *w)
{
    char *value = cached_text(w->value), *triggers = cached_text(w->triggers);
    const size_t n_value = value != NULL ? strlen(value) : 0;
    const size_t n_triggers = triggers != NULL ? strlen(triggers) : 0;

    key->n = n_value + 1 + n_triggers;
    if (value != NULL && triggers != NULL)
        key->text = mem_alloc(key->n + 1);
    if (key->text != NULL) {
        memcpy(key->text, value, n_value + 1);
        memcpy(key->text + n_value + 1, triggers, n_triggers + 1);
    }
    mem_free(value);
    mem_free(triggers);
    return key->text != NULL ? 0 : ERR_NOMEM;
}

/* Makes the key. A constraint without a text of the client's belongs to all owners. */
static int make_key(struct key *key, const struct constraint_spec *w, struct api_error *e)
{
    const bool is_common = w->kind == CONSTRAINT_JSON && w->triggers == NULL;

    *key = (struct key){.kind = w->kind, .owner = is_common ? 0 : w->owner};
    if (make_text(key, w) < 0)
        return api_error_no_memory(e);
    key->hash = XXH3_64bits(key->text, key->n);
    if (key->n > CONSTRAINT_MAX_TEXT)
        return api_error_set(e, 400, w->field, NULL, "'%s' is larger than 256 KiB", w->field);
    return 0;
}

static int compile_and_remember(struct constraint_cache *c, const struct constraint_spec *w,
                                struct key *key, struct budget *budget, struct constraint **out,
                                struct api_error *e)
{
    char why[220];
    const int rc = constraint_compile(out, w, c->trie, budget, why, sizeof(why));

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
    int rc = constraint_check_spec(spec, e);

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
