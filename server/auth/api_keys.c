/* server/auth/api_keys.c - see api_keys.h. A table of slots, found by the first bytes of the
 * secret's hash. */
#include "server/auth/api_keys.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct table {
    uint32_t mask, n;
    struct key *slot[]; /* [mask + 1], at most half of them used */
};

struct keys {
    char *path;
    struct table *table;
};

/* The hash of a random secret is as random: any of its bytes will do. */
static uint32_t start_of(const struct table *t, const struct secret_hash *h)
{
    uint32_t n;

    memcpy(&n, h->bytes, sizeof(n));
    return n & t->mask;
}

static struct key *find_hash(const struct table *t, const struct secret_hash *h)
{
    for (uint32_t i = start_of(t, h); t->slot[i] != NULL; i = (i + 1) & t->mask)
        if (secret_is_equal(&t->slot[i]->spec.hash, h))
            return t->slot[i];
    return NULL;
}

static struct key *find_name(const struct table *t, const char *name)
{
    for (uint32_t i = 0; t != NULL && i <= t->mask; i++)
        if (t->slot[i] != NULL && strcmp(t->slot[i]->spec.name, name) == 0)
            return t->slot[i];
    return NULL;
}

static void insert(struct table *t, struct key *key)
{
    uint32_t i = start_of(t, &key->spec.hash);

    while (t->slot[i] != NULL)
        i = (i + 1) & t->mask;
    t->slot[i] = key;
    t->n++;
}

static struct table *make_table(uint32_t n)
{
    uint32_t size = 16;
    struct table *t;

    while (size < 2 * n)
        size *= 2;
    t = mem_calloc(1, sizeof(*t) + size * sizeof(t->slot[0]));
    if (t != NULL)
        t->mask = size - 1;
    return t;
}

static void drop_table(struct table *t)
{
    for (uint32_t i = 0; t != NULL && i <= t->mask; i++)
        key_unref(t->slot[i]);
    mem_free(t);
}

static struct key *make_key(const struct key_spec *spec, uint64_t now_us)
{
    struct key *key = mem_calloc(1, sizeof(*key));

    if (key == NULL)
        return NULL;
    key->n_refs = 1;
    key->spec = *spec;
    rate_limit_init(&key->requests, spec->requests_per_minute, now_us);
    rate_limit_init(&key->tokens, spec->tokens_per_minute, now_us);
    key->day = (struct quota){.period = QUOTA_DAY, .limit = spec->tokens_per_day};
    key->month = (struct quota){.period = QUOTA_MONTH, .limit = spec->tokens_per_month};
    return key;
}

static void change_key(struct key *key, const struct key_spec *spec, uint64_t now_us)
{
    key->spec = *spec;
    rate_limit_set_rate(&key->requests, spec->requests_per_minute, now_us);
    rate_limit_set_rate(&key->tokens, spec->tokens_per_minute, now_us);
    key->day.limit = spec->tokens_per_day;
    key->month.limit = spec->tokens_per_month;
}

/* A table of new keys only; what stays of the old ones is put in by adopt(). */
static struct table *build(const struct key_list *list, uint64_t now_us)
{
    struct table *t = make_table(list->n);

    for (uint32_t i = 0; t != NULL && i < list->n; i++) {
        struct key *key = make_key(&list->keys[i], now_us);

        if (key == NULL) {
            drop_table(t);
            return NULL;
        }
        insert(t, key);
    }
    return t;
}

/* Nothing can fail any more: a key whose name was there before takes its new version's slot. */
static void adopt(struct table *t, const struct table *old, uint64_t now_us)
{
    for (uint32_t i = 0; i <= t->mask; i++) {
        struct key *fresh = t->slot[i];
        struct key *known = fresh != NULL ? find_name(old, fresh->spec.name) : NULL;

        if (known == NULL)
            continue;
        change_key(known, &fresh->spec, now_us);
        t->slot[i] = key_ref(known);
        key_unref(fresh);
    }
}

int keys_reload(struct keys *k, uint64_t now_us, char *err, size_t err_len)
{
    struct key_list list;
    struct table *t;
    const int rc = key_file_read(&list, k->path, err, err_len);

    if (rc < 0)
        return rc;
    t = build(&list, now_us);
    key_list_release(&list);
    if (t == NULL)
        return snprintf(err, err_len, "out of memory"), ERR_NOMEM;
    adopt(t, k->table, now_us);
    drop_table(k->table);
    k->table = t;
    return 0;
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
    for (uint32_t i = 0; i <= k->table->mask; i++) {
        struct key *key = k->table->slot[i];

        if (key == NULL)
            continue;
        recall(&key->day, key->spec.name, spent, ud, now_s);
        recall(&key->month, key->spec.name, spent, ud, now_s);
    }
}

void keys_close(struct keys **keys)
{
    struct keys *k = keys != NULL ? *keys : NULL;

    if (k == NULL)
        return;
    drop_table(k->table);
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
    return find_hash(k->table, &h);
}

struct key *keys_find_name(const struct keys *k, const char *name)
{
    for (uint32_t i = 0; i <= k->table->mask; i++) {
        struct key *key = k->table->slot[i];

        if (key != NULL && strcmp(key->spec.name, name) == 0)
            return key;
    }
    return NULL;
}

uint32_t keys_n(const struct keys *k)
{
    return k->table->n;
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

/* The day or the month has no tokens left, as OpenAI says it. */
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
        return api_error_set(e, 400, "n", NULL,
                             "%u choices are more than this key may ever have at a time (%u)",
                             n_choices, most);
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
