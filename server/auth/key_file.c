/* server/auth/key_file.c - see key_file.h.
 *
 * inih splits lines into sections and fields and reads through read_key_line(), which counts lines
 * and refuses NULs and long lines. A table maps each field to its setter and to a sentence about
 * its allowed values. The keys are checked together at the end: duplicates are found in hash
 * indices, and the first error keeps its line.
 */
#include "server/auth/key_file.h"

#include "core/base/err.h"
#include "core/base/hash_index.h"
#include "core/base/ini_line.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/auth/quota.h"
#include "server/auth/rate_limit.h"

#include <assert.h>
#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields ---- */

bool key_file_is_name(const char *text, size_t max)
{
    size_t n = 0;

    while (text[n] > ' ' && text[n] < 0x7f && strchr("[]\";#,=", text[n]) == NULL)
        n++;
    return n > 0 && n <= max && text[n] == '\0';
}

static int parse_large(const char *text, uint64_t max, uint64_t *out)
{
    char *end;
    unsigned long long n;

    if (*text < '0' || *text > '9')
        return ERR_INVAL;
    errno = 0;
    n = strtoull(text, &end, 10);
    if (*end != '\0' || errno == ERANGE || n > max)
        return ERR_INVAL;
    *out = n;
    return 0;
}

static int parse_number(const char *text, uint32_t max, uint32_t *out)
{
    uint64_t n;

    if (parse_large(text, max, &n) < 0)
        return ERR_INVAL;
    *out = (uint32_t)n;
    return 0;
}

static int set_hash(struct key_spec *k, const char *value)
{
    const int rc = secret_from_hex(&k->hash, value);

    k->has_hash = rc == 0;
    return rc;
}

static int set_tenant(struct key_spec *k, const char *value)
{
    if (!key_file_is_name(value, KEY_TENANT_MAX))
        return ERR_INVAL;
    memcpy(k->tenant, value, strlen(value) + 1);
    return 0;
}

static int set_weight(struct key_spec *k, const char *value)
{
    return parse_number(value, WEIGHTS_MAX_VALUE, &k->weight) < 0 || k->weight == 0 ? ERR_INVAL : 0;
}

static int set_priority(struct key_spec *k, const char *value)
{
    return priority_find(value, &k->max_priority) ? 0 : ERR_INVAL;
}

static int set_requests(struct key_spec *k, const char *value)
{
    return parse_number(value, RATE_LIMIT_MAX, &k->requests_per_minute);
}

static int set_tokens(struct key_spec *k, const char *value)
{
    return parse_number(value, RATE_LIMIT_MAX, &k->tokens_per_minute);
}

static int set_day(struct key_spec *k, const char *value)
{
    return parse_large(value, QUOTA_MAX, &k->tokens_per_day);
}

static int set_month(struct key_spec *k, const char *value)
{
    return parse_large(value, QUOTA_MAX, &k->tokens_per_month);
}

static int set_concurrent(struct key_spec *k, const char *value)
{
    return parse_number(value, 1000000, &k->max_concurrent);
}

static int set_admin(struct key_spec *k, const char *value)
{
    k->is_admin = strcmp(value, "yes") == 0;
    return k->is_admin || strcmp(value, "no") == 0 ? 0 : ERR_INVAL;
}

static const struct {
    const char *name;
    int (*set)(struct key_spec *k, const char *value);
    const char *allowed;
} fields[] = {
    {"hash", set_hash, "64 hexadecimal digits"},
    {"tenant", set_tenant, "a name of at most 64 visible characters"},
    {"weight", set_weight, "a whole number from 1 to 1000"},
    {"max_priority", set_priority, "low, normal, high or critical"},
    {"requests_per_minute", set_requests, "a whole number from 0 to 1000000000"},
    {"tokens_per_minute", set_tokens, "a whole number from 0 to 1000000000"},
    {"tokens_per_day", set_day, "a whole number from 0 to 1000000000000000"},
    {"tokens_per_month", set_month, "a whole number from 0 to 1000000000000000"},
    {"max_concurrent", set_concurrent, "a whole number from 0 to 1000000"},
    {"admin", set_admin, "yes or no"},
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))
#define LONGEST_FIELD 24 /* characters of a field's name that is repeated in an error */
_Static_assert(KEY_TENANT_MAX == 64 && WEIGHTS_MAX_VALUE == 1000 &&
                   RATE_LIMIT_MAX == 1000000000 && QUOTA_MAX == 1000000000000000,
               "the sentences above name these");

int key_spec_set(struct key_spec *k, const char *field, const char *value, const char **allowed)
{
    for (size_t i = 0; i < N_FIELDS; i++) {
        if (strcmp(fields[i].name, field) != 0)
            continue;
        *allowed = fields[i].allowed;
        return fields[i].set(k, value);
    }
    *allowed = NULL;
    return ERR_NOENT;
}

/* ---- the file ---- */

struct reader {
    FILE *file;
    const char *path;
    struct key_list *list;
    uint32_t cap;
    struct hash_index names, hashes, tenants; /* of list->keys, as index + 1 */
    int line, rc;
    bool has_section; /* a section has begun and has no field yet */
    unsigned seen;    /* fields of this key, as bits */
    char *err;
    size_t err_len;
};

static int refuse_key_line(struct reader *r, int rc, const char *what)
{
    if (r->rc == 0)
        snprintf(r->err, r->err_len, "%s:%d: %s", r->path, r->line, what);
    r->rc = rc;
    return rc;
}

static int refuse_line(struct reader *r, int rc)
{
    if (rc == ERR_IO) /* the path is a directory, for example */
        return refuse_key_line(r, ERR_INVAL, strerror(errno));
    return refuse_key_line(r, ERR_INVAL,
                           rc == ERR_LIMIT ? "the line is too long" : "the line has a NUL byte");
}

/* Reads lines for inih: counts them, and notices sections, which inih reports only with their first
 * field. */
static char *read_key_line(char *line, int size, void *stream)
{
    struct reader *r = stream;
    const int rc = r->rc == 0 ? ini_line_read(line, size, r->file, r->line == 0) : 0;

    r->line += rc != 0 && rc != ERR_IO;
    if (rc < 0)
        refuse_line(r, rc);
    if (rc <= 0)
        return NULL;
    if (line[0] == '[') {
        if (r->has_section)
            return refuse_key_line(r, ERR_INVAL, "the section before this one is empty"), NULL;
        r->has_section = true;
    }
    return line;
}

static struct key_spec *key_at(const struct reader *r, uintptr_t item)
{
    return &r->list->keys[item - 1];
}

static bool has_name(const struct reader *r, const char *name)
{
    struct hash_walk w = {.hash = hash_of_text(name)};
    uintptr_t item;

    while ((item = hash_index_next(&r->names, &w)) != 0)
        if (strcmp(key_at(r, item)->name, name) == 0)
            return true;
    return false;
}

static int begin_key(struct reader *r, const char *name)
{
    struct key_list *l = r->list;
    struct key_spec *k;

    if (!key_file_is_name(name, KEY_NAME_MAX))
        return refuse_key_line(
            r, ERR_INVAL, "a key's name must have 1 to 48 visible characters other than []\";#,=");
    if (has_name(r, name))
        return refuse_key_line(r, ERR_INVAL, "there is already a key with this name");
    if (l->n == KEY_FILE_MAX)
        return refuse_key_line(r, ERR_LIMIT, "the file has more than 4096 keys");
    if (l->n == r->cap) {
        const uint32_t cap = r->cap > 0 ? 2 * r->cap : 16;
        struct key_spec *grown = mem_realloc(l->keys, cap * sizeof(*grown));

        if (grown == NULL)
            return refuse_key_line(r, ERR_NOMEM, "out of memory");
        l->keys = grown;
        r->cap = cap;
    }
    if (hash_index_add(&r->names, hash_of_text(name), l->n + 1) < 0)
        return refuse_key_line(r, ERR_NOMEM, "out of memory");
    k = &l->keys[l->n++];
    r->seen = 0;
    *k = (struct key_spec){.max_priority = PRIORITY_CRITICAL};
    memcpy(k->name, name, strlen(name) + 1);
    memcpy(k->tenant, name, strlen(name) + 1);
    return 0;
}

/* Describe an unknown field. A text that does not look like a field's name may be a part of a
 * secret, and is not repeated. */
static void describe_unknown(const char *name, char *what, size_t size)
{
    const bool is_word = strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name);

    if (is_word && strlen(name) <= LONGEST_FIELD)
        snprintf(what, size, "a key has no field '%s'", name);
    else
        snprintf(what, size, "a key has no such field");
}

/* The field's row in the table as a bit; 0: unknown. */
static unsigned bit_of(const char *field)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        if (strcmp(fields[i].name, field) == 0)
            return 1u << i;
    return 0;
}

static int set_field(struct reader *r, const char *name, const char *value)
{
    const unsigned bit = bit_of(name);
    const char *allowed;
    char what[200];
    struct key_spec *k;

    assert(r->list->n > 0);
    k = &r->list->keys[r->list->n - 1];
    k->has_late_fields = k->has_late_fields || k->has_hash;
    if ((r->seen & bit) != 0) {
        snprintf(what, sizeof(what), "'%s' is set twice in this key", name);
        return refuse_key_line(r, ERR_INVAL, what);
    }
    r->seen |= bit;
    if (key_spec_set(k, name, value, &allowed) == 0)
        return 0;
    if (allowed == NULL)
        describe_unknown(name, what, sizeof(what));
    else
        snprintf(what, sizeof(what), "'%s' must be %s", name, allowed);
    return refuse_key_line(r, ERR_INVAL, what);
}

/* Callback for inih; returns 1 when the field is accepted. */
static int on_field(void *user, const char *section, const char *name, const char *value)
{
    struct reader *r = user;

    if (r->rc < 0)
        return 0;
    if (section[0] == '\0')
        return refuse_key_line(r, ERR_INVAL, "there is a field before the first [name of a key]"),
               0;
    if (r->has_section && begin_key(r, section) < 0)
        return 0;
    r->has_section = false;
    return set_field(r, name, value) == 0;
}

/* The weight belongs to the tenant: its keys may not give different ones. The index has one key of
 * each tenant with a weight. */
static int check_weight(struct reader *r, const struct key_spec *k, uintptr_t item)
{
    struct hash_walk w = {.hash = hash_of_text(k->tenant)};
    uintptr_t at;

    while (k->weight > 0 && (at = hash_index_next(&r->tenants, &w)) != 0) {
        const struct key_spec *other = key_at(r, at);

        if (strcmp(other->tenant, k->tenant) != 0)
            continue;
        if (other->weight == k->weight)
            return 0;
        snprintf(r->err, r->err_len, "%s: the keys '%s' and '%s' give the tenant '%s' two weights",
                 r->path, other->name, k->name, k->tenant);
        return ERR_INVAL;
    }
    return k->weight > 0 ? hash_index_add(&r->tenants, w.hash, item) : 0;
}

static int check_hash(struct reader *r, const struct key_spec *k, uintptr_t item)
{
    struct hash_walk w = {0};
    uintptr_t at;

    memcpy(&w.hash, k->hash.bytes, sizeof(w.hash)); /* the hash is random: its first bytes are the
                                                     * key of the index */
    while ((at = hash_index_next(&r->hashes, &w)) != 0) {
        const struct key_spec *other = key_at(r, at);

        if (!secret_is_equal(&other->hash, &k->hash))
            continue;
        snprintf(r->err, r->err_len, "%s: '%s' and '%s' are the same key", r->path, other->name,
                 k->name);
        return ERR_INVAL;
    }
    return hash_index_add(&r->hashes, w.hash, item);
}

static int check_key(struct reader *r, const struct key_spec *k, uintptr_t item)
{
    int rc;

    if (!k->has_hash) {
        snprintf(r->err, r->err_len, "%s: the key '%s' has no hash", r->path, k->name);
        return ERR_INVAL;
    }
    rc = check_weight(r, k, item);
    if (rc == 0)
        rc = check_hash(r, k, item);
    if (rc == ERR_NOMEM)
        snprintf(r->err, r->err_len, "%s: out of memory", r->path);
    return rc;
}

/* A file with the hash first may be cut off after the hash without notice. */
static void warn_of_order(const struct reader *r, const struct key_spec *k)
{
    char path[300];

    log_warn("auth",
             "event=key_order file=%s key=%s reason=\"fields after the hash are lost if the file "
             "is cut off: put the hash on the last line of each key\"",
             log_quote(path, sizeof(path), r->path), k->name);
}

static int check_list(struct reader *r)
{
    const struct key_list *l = r->list;
    int rc = 0;

    if (l->n == 0) {
        snprintf(r->err, r->err_len, "%s: the file has no keys", r->path);
        return ERR_INVAL;
    }
    for (uint32_t i = 0; i < l->n && rc == 0; i++)
        rc = check_key(r, &l->keys[i], i + 1);
    for (uint32_t i = 0; i < l->n && rc == 0; i++)
        if (l->keys[i].has_late_fields) {
            warn_of_order(r, &l->keys[i]);
            break;
        }
    return rc;
}

int key_file_read(struct key_list *out, const char *path, char *err, size_t err_len)
{
    struct reader r = {.path = path, .list = out, .err = err, .err_len = err_len};
    int bad_line;

    *out = (struct key_list){0};
    r.file = fopen(path, "re");
    if (r.file == NULL) {
        snprintf(err, err_len, "cannot open the file of keys '%s': %s", path, strerror(errno));
        return ERR_INVAL;
    }
    bad_line = ini_parse_stream(read_key_line, &r, on_field, &r);
    fclose(r.file);
    if (r.rc == 0 && bad_line != 0) {
        r.line = bad_line > 0 ? bad_line : r.line;
        refuse_key_line(&r, ERR_INVAL, "the line must have the form name = value");
    }
    if (r.rc == 0 && r.has_section)
        refuse_key_line(&r, ERR_INVAL, "the last section is empty");
    if (r.rc == 0)
        r.rc = check_list(&r);
    if (r.rc < 0)
        key_list_release(out);
    hash_index_release(&r.names);
    hash_index_release(&r.hashes);
    hash_index_release(&r.tenants);
    return r.rc;
}

void key_list_release(struct key_list *list)
{
    mem_free(list->keys);
    *list = (struct key_list){0};
}
