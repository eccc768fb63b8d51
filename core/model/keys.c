/* core/model/keys.c - see keys.h.
 *
 * Each function makes the full key "arch.suffix", calls the typed getter of core/formats/gguf, and
 * turns its ERR_NOENT into a missing-key error or, for an optional key, into 0 with the caller's
 * default left in *v. The functions for layers accept both forms that converters write: one number,
 * or an array with one for each layer.
 */
#include "core/model/keys.h"

#include "core/base/err.h"

#include <stdio.h>

void key_name(const struct load *l, const char *suffix, char key[GGUF_MAX_NAME])
{
    snprintf(key, GGUF_MAX_NAME, "%s.%s", l->traits->arch, suffix);
}

static int missing(struct load *l, enum key_need need, const char *key)
{
    return need == KEY_OPTIONAL ? 0 : load_fail(l, ERR_FORMAT, "key '%s' is missing", key);
}

static int check_range(struct load *l, const char *key, uint32_t v, uint32_t lo, uint32_t hi)
{
    if (v < lo || v > hi)
        return load_fail(l, ERR_FORMAT, "key '%s': is %u, but only %u to %u are supported", key, v,
                         lo, hi);
    return 0;
}

int key_u32(struct load *l, const char *suffix, enum key_need need, uint32_t lo, uint32_t hi,
            uint32_t *v)
{
    char key[GGUF_MAX_NAME];
    uint32_t found;
    int rc;

    key_name(l, suffix, key);
    rc = gguf_get_u32(l->g, key, &found, l->err, l->err_len);
    if (rc == ERR_NOENT)
        return missing(l, need, key);
    if (rc == 0)
        rc = check_range(l, key, found, lo, hi);
    if (rc == 0)
        *v = found;
    return rc;
}

int key_u32_of_layers(struct load *l, const char *suffix, enum key_need need, uint32_t lo,
                      uint32_t hi, uint32_t *v)
{
    char key[GGUF_MAX_NAME];
    const struct gguf_kv *kv;
    int64_t first;

    key_name(l, suffix, key);
    kv = gguf_find(l->g, key);
    if (kv == NULL || kv->type != GGUF_ARRAY || kv->elem == GGUF_STRING ||
        kv->elem == GGUF_F32 || kv->elem == GGUF_F64 || kv->count == 0)
        return key_u32(l, suffix, need, lo, hi, v);
    first = gguf_array_int(kv, 0);
    for (uint64_t i = 1; i < kv->count; i++)
        if (gguf_array_int(kv, i) != first)
            return load_fail(l, ERR_UNSUPPORTED,
                             "key '%s': differs between layers, which is not supported", key);
    if (first < 0 || first > UINT32_MAX)
        return load_fail(l, ERR_FORMAT, "key '%s': is %lld", key, (long long)first);
    *v = (uint32_t)first;
    return check_range(l, key, *v, lo, hi);
}

int key_u32_at(struct load *l, const char *suffix, enum key_need need, uint32_t i, uint32_t lo,
               uint32_t hi, uint32_t *v)
{
    char key[GGUF_MAX_NAME];
    const struct gguf_kv *kv;
    int64_t found;

    key_name(l, suffix, key);
    kv = gguf_find(l->g, key);
    if (kv == NULL || kv->type != GGUF_ARRAY || kv->elem == GGUF_STRING ||
        kv->elem == GGUF_F32 || kv->elem == GGUF_F64)
        return key_u32(l, suffix, need, lo, hi, v);
    if (kv->count <= i)
        return load_fail(l, ERR_FORMAT,
                         "key '%s': has %llu numbers, but must have one for each layer", key,
                         (unsigned long long)kv->count);
    found = gguf_array_int(kv, i);
    if (found < 0 || found > UINT32_MAX)
        return load_fail(l, ERR_FORMAT, "key '%s': is %lld", key, (long long)found);
    *v = (uint32_t)found;
    return check_range(l, key, *v, lo, hi);
}

/* Read the number; *is_there tells whether the key exists. */
static int key_f32(struct load *l, const char *suffix, enum key_need need, char *key, float *v,
                   bool *is_there)
{
    int rc;

    key_name(l, suffix, key);
    rc = gguf_get_f32(l->g, key, v, l->err, l->err_len);
    *is_there = rc == 0;
    return rc == ERR_NOENT ? missing(l, need, key) : rc;
}

int key_positive(struct load *l, const char *suffix, enum key_need need, float *v)
{
    char key[GGUF_MAX_NAME];
    bool is_there;
    float found;
    const int rc = key_f32(l, suffix, need, key, &found, &is_there);

    if (rc < 0 || !is_there)
        return rc;
    if (!(found > 0.0f))
        return load_fail(l, ERR_FORMAT, "key '%s': is %g, but must be above 0", key, (double)found);
    *v = found;
    return 0;
}

int key_not_negative(struct load *l, const char *suffix, float *v)
{
    char key[GGUF_MAX_NAME];
    bool is_there;
    float found;
    const int rc = key_f32(l, suffix, KEY_OPTIONAL, key, &found, &is_there);

    if (rc < 0 || !is_there)
        return rc;
    if (!(found >= 0.0f))
        return load_fail(l, ERR_FORMAT, "key '%s': is %g, but must not be below 0", key,
                         (double)found);
    *v = found;
    return 0;
}

int key_bool(struct load *l, const char *suffix, bool *v)
{
    char key[GGUF_MAX_NAME];
    int rc;

    key_name(l, suffix, key);
    rc = gguf_get_bool(l->g, key, v, l->err, l->err_len);
    return rc == ERR_NOENT ? 0 : rc;
}

int key_str(struct load *l, const char *suffix, struct gguf_str *v)
{
    char key[GGUF_MAX_NAME];
    int rc;

    key_name(l, suffix, key);
    rc = gguf_get_str(l->g, key, v, l->err, l->err_len);
    return rc == ERR_NOENT ? 0 : rc;
}
