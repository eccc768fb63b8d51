/* server/auth/api_keys.c - see api_keys.h.
 *
 * Keys are in two hash indices, by the first bytes of the secret's hash and by name. A reload
 * builds a complete new table on another thread (keys_read()), and adopt() then puts the surviving
 * struct keys into it on the I/O thread: this step cannot fail, because each index has its entries
 * already. Reference counts keep a removed key alive for its requests.
 */
#include "server/auth/api_keys.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/hash_index.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct table {
    struct hash_index by_hash, by_name; /* of struct key, each with one reference */
    uint32_t n;
    struct key **keys; /* [n] */
};

struct keys {
    char *path; /* never changes, because keys_read() uses it on another thread */
    struct table table;
};

struct keys_fresh {
    struct key_list list; /* the keys of the file */
    struct table table;   /* a new struct key for each of them */
};

/* Return a hash for the index: the first bytes of the secret's hash, which are random. */
static uint64_t start_of(const struct secret_hash *h)
{
    uint64_t n;

    memcpy(&n, h->bytes, sizeof(n));
    return n;
}

static struct key *find_hash(const struct table *t, const struct secret_hash *h)
{
    struct hash_walk w = {.hash = start_of(h)};
    struct key *key;

    while ((key = (struct key *)hash_index_next(&t->by_hash, &w)) != NULL)
        if (secret_is_equal(&key->spec.hash, h))
            return key;
    return NULL;
}

static struct key *find_name(const struct table *t, const char *name)
{
    struct hash_walk w = {.hash = hash_of_text(name)};
    struct key *key;

    while ((key = (struct key *)hash_index_next(&t->by_name, &w)) != NULL)
        if (strcmp(key->spec.name, name) == 0)
            return key;
    return NULL;
}

static int insert(struct table *t, struct key *key)
{
    const int rc = hash_index_add(&t->by_hash, start_of(&key->spec.hash), (uintptr_t)key);

    return rc == 0 ? hash_index_add(&t->by_name, hash_of_text(key->spec.name), (uintptr_t)key) : rc;
}

/* Replace one key by another in an index. */
static void change_place(struct hash_index *x, uint64_t hash, struct key *from, struct key *to)
{
    hash_index_remove(x, hash, (uintptr_t)from);
    (void)hash_index_add(x, hash, (uintptr_t)to); /* there is room: one was removed */
}

static void table_release(struct table *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        key_unref(t->keys[i]);
    mem_free(t->keys);
    hash_index_release(&t->by_hash);
    hash_index_release(&t->by_name);
    *t = (struct table){0};
}

static struct key *make_key(const struct key_spec *spec)
{
    struct key *key = mem_calloc(1, sizeof(*key));

    if (key == NULL)
        return NULL;
    key->n_refs = 1;
    key->spec = *spec;
    key->day = (struct quota){.period = QUOTA_DAY, .limit = spec->tokens_per_day};
    key->month = (struct quota){.period = QUOTA_MONTH, .limit = spec->tokens_per_month};
    return key;
}

static void begin_key(struct key *key, uint64_t now_us)
{
    rate_limit_init(&key->requests, key->spec.requests_per_minute, now_us);
    rate_limit_init(&key->tokens, key->spec.tokens_per_minute, now_us);
}

static void change_key(struct key *key, const struct key_spec *spec, uint64_t now_us)
{
    key->spec = *spec;
    rate_limit_set_rate(&key->requests, spec->requests_per_minute, now_us);
    rate_limit_set_rate(&key->tokens, spec->tokens_per_minute, now_us);
    key->day.limit = spec->tokens_per_day;
    key->month.limit = spec->tokens_per_month;
}

/* Build a table of new keys only; adopt() replaces those that existed before. The limits of a key
 * begin when it comes into force. */
static int build_keys(struct table *t, const struct key_list *list)
{
    int rc = 0;

    t->keys = mem_calloc(list->n, sizeof(struct key *));
    if (t->keys == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < list->n && rc == 0; i++) {
        struct key *key = make_key(&list->keys[i]);

        if (key == NULL)
            return ERR_NOMEM;
        t->keys[t->n++] = key;
        rc = insert(t, key);
    }
    return rc;
}

/* Replace new keys by the existing ones of the same name, which get the new limits. Cannot fail. */
static void adopt(struct table *t, const struct table *old, uint64_t now_us)
{
    for (uint32_t i = 0; i < t->n; i++) {
        struct key *fresh = t->keys[i], *known = find_name(old, fresh->spec.name);

        if (known == NULL) {
            begin_key(fresh, now_us);
            continue;
        }
        change_key(known, &fresh->spec, now_us);
        change_place(&t->by_hash, start_of(&fresh->spec.hash), fresh, known);
        change_place(&t->by_name, hash_of_text(fresh->spec.name), fresh, known);
        t->keys[i] = key_ref(known);
        key_unref(fresh);
    }
}

/* True: the key has lost a limit, or belongs to another tenant. */
static bool has_more_rights(const struct key_spec *is, const struct key_spec *was)
{
    return (was->requests_per_minute > 0 && is->requests_per_minute == 0) ||
           (was->tokens_per_minute > 0 && is->tokens_per_minute == 0) ||
           (was->tokens_per_day > 0 && is->tokens_per_day == 0) ||
           (was->tokens_per_month > 0 && is->tokens_per_month == 0) ||
           (was->max_concurrent > 0 && is->max_concurrent == 0) ||
           is->max_priority > was->max_priority || strcmp(is->tenant, was->tenant) != 0;
}

/* Check the last key of an older file, whose hash stands before its limits: the file may be cut off
 * there. */
static int check_end(const struct keys *k, const struct key_list *list, char *err, size_t err_len)
{
    const struct key_spec *last = &list->keys[list->n - 1];
    const struct key *known = find_name(&k->table, last->name);

    if (known == NULL || !known->spec.has_late_fields || !has_more_rights(last, &known->spec))
        return 0;
    snprintf(err, err_len,
             "%.200s: the last key, '%s', has lost limits, and the file may be cut off: put the "
             "hash on the last line of each key",
             k->path, last->name);
    return ERR_INVAL;
}

int keys_read(struct keys_fresh **out, const struct keys *k, char *err, size_t err_len)
{
    struct keys_fresh *f = mem_calloc(1, sizeof(*f));
    int rc = ERR_NOMEM;

    *out = f;
    snprintf(err, err_len, "out of memory");
    if (f == NULL)
        return rc;
    rc = key_file_read(&f->list, k->path, err, err_len);
    if (rc == 0 && build_keys(&f->table, &f->list) < 0)
        rc = (snprintf(err, err_len, "out of memory"), ERR_NOMEM);
    if (rc < 0)
        keys_drop(out);
    return rc;
}

int keys_take(struct keys *k, struct keys_fresh **fresh, uint64_t now_us, char *err,
              size_t err_len)
{
    struct keys_fresh *f = *fresh;
    const int rc = check_end(k, &f->list, err, err_len);

    if (rc == 0) {
        const struct table old = k->table;

        adopt(&f->table, &old, now_us);
        k->table = f->table;
        f->table = old;
    }
    keys_drop(fresh);
    return rc;
}

void keys_drop(struct keys_fresh **fresh)
{
    struct keys_fresh *f = *fresh;

    if (f == NULL)
        return;
    table_release(&f->table);
    key_list_release(&f->list);
    mem_free(f);
    *fresh = NULL;
}

int keys_reload(struct keys *k, uint64_t now_us, char *err, size_t err_len)
{
    struct keys_fresh *fresh;
    const int rc = keys_read(&fresh, k, err, err_len);

    return rc == 0 ? keys_take(k, &fresh, now_us, err, err_len) : rc;
}

int keys_open(struct keys **out, const char *path, uint64_t now_us, char *err, size_t err_len)
{
    struct keys *k = mem_calloc(1, sizeof(*k));
    int rc = ERR_NOMEM;

    *out = NULL;
    snprintf(err, err_len, "out of memory");
    if (k != NULL)
        k->path = mem_strdup(path);
    if (k != NULL && k->path != NULL)
        rc = keys_reload(k, now_us, err, err_len);
    if (rc < 0)
        keys_close(&k);
    *out = k;
    return rc;
}

static void recall(struct quota *q, const char *name,
                   uint64_t (*spent)(void *ud, const char *name, int32_t day), void *ud,
                   int64_t now_s)
{
    const int32_t day = (int32_t)(quota_period_begin(q->period, now_s) / 86400);

    if (q->end_s == 0)
        quota_spend(q, 0, spent(ud, name, day), now_s);
}

void keys_recall(struct keys *k, uint64_t (*spent)(void *ud, const char *name, int32_t day),
                 void *ud, int64_t now_s)
{
    for (uint32_t i = 0; i < k->table.n; i++) {
        struct key *key = k->table.keys[i];

        recall(&key->day, key->spec.name, spent, ud, now_s);
        recall(&key->month, key->spec.name, spent, ud, now_s);
    }
}

void keys_close(struct keys **keys)
{
    struct keys *k = keys != NULL ? *keys : NULL;

    if (k == NULL)
        return;
    table_release(&k->table);
    mem_free(k->path);
    mem_free(k);
    *keys = NULL;
}

struct key *keys_find(const struct keys *k, const char *secret)
{
    const size_t n = strnlen(secret, SECRET_MAX + 1);
    struct secret_hash h;

    if (n == 0 || n > SECRET_MAX || secret_hash(secret, n, &h) < 0)
        return NULL;
    return find_hash(&k->table, &h);
}

struct key *keys_find_name(const struct keys *k, const char *name)
{
    return find_name(&k->table, name);
}

uint32_t keys_n(const struct keys *k)
{
    return k->table.n;
}

struct key *key_ref(struct key *key)
{
    if (key != NULL)
        key->n_refs++;
    return key;
}

void key_unref(struct key *key)
{
    if (key != NULL && --key->n_refs == 0)
        mem_free(key);
}

/* ---- limits ---- */

uint64_t key_take_request(struct key *key, uint64_t now_us)
{
    const uint64_t wait = rate_limit_wait_us(&key->requests, 1, now_us);

    if (wait == 0)
        rate_limit_take(&key->requests, 1, now_us);
    return wait;
}

/* Check the tokens of the day and the month, with OpenAI's error. */
static int check_quotas(const struct key *key, uint64_t *wait_us, struct api_error *e)
{
    const int64_t now_s = (int64_t)clock_unix_s();
    const struct quota *quotas[] = {&key->day, &key->month};

    for (int i = 0; i < 2; i++) {
        const struct quota *b = quotas[i];
        const int64_t wait_s = quota_wait_s(b, now_s);

        if (wait_s == 0)
            continue;
        *wait_us = (uint64_t)wait_s * 1000000;
        return api_error_set(e, 429, NULL, "insufficient_quota",
                             "this key has a quota of %" PRIu64 " tokens a %s (UTC), %s", b->limit,
                             b->period == QUOTA_DAY ? "day" : "month",
                             b->spent >= b->limit ? "which are used up"
                                                  : "and its requests under way may use the rest");
    }
    return 0;
}

int key_check(const struct key *key, uint32_t n_choices, uint64_t n_tokens, uint64_t now_us,
              uint64_t *wait_us, struct api_error *e)
{
    const uint32_t most = key->spec.max_concurrent;

    *wait_us = 0;
    if (most > 0 && n_choices > most)
        return api_error_set(
            e, 400, "n", NULL,
            "%u choices are more than this key may ever have at the same time (%u)", n_choices,
            most);
    if (most > 0 && key->n_open + n_choices > most)
        return api_error_set(e, 429, NULL, "rate_limit_exceeded",
                             "this key has %u requests under way, and its limit is %u", key->n_open,
                             most);
    *wait_us = rate_limit_wait_us(&key->tokens, n_tokens, now_us);
    if (*wait_us > 0)
        return api_error_set(e, 429, NULL, "rate_limit_exceeded",
                             "this key has a limit of %u tokens a minute",
                             key->tokens.per_minute);
    return check_quotas(key, wait_us, e);
}

void key_begin(struct key *key, uint32_t n_choices, uint64_t n_tokens, uint64_t now_us,
               struct key_use *use)
{
    rate_limit_take(&key->tokens, n_tokens, now_us);
    quota_reserve(&key->day, n_tokens);
    quota_reserve(&key->month, n_tokens);
    key->n_open += n_choices;
    *use = (struct key_use){key_ref(key), n_choices, n_tokens};
}

void key_end(struct key_use *use, uint64_t n_tokens, uint64_t now_us)
{
    if (use->key == NULL)
        return;
    use->key->n_open -= use->n_choices;
    if (n_tokens < use->n_tokens)
        rate_limit_give(&use->key->tokens, use->n_tokens - n_tokens, now_us);
    quota_spend(&use->key->day, use->n_tokens, n_tokens, (int64_t)clock_unix_s());
    quota_spend(&use->key->month, use->n_tokens, n_tokens, (int64_t)clock_unix_s());
    key_unref(use->key);
    *use = (struct key_use){0};
}
