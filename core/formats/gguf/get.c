/* core/formats/gguf/get.c - typed look-ups of keys, and the elements of arrays.
 *
 * Files write the same key with different types (a count as u32, u64 or even i32), so a getter
 * takes any type whose value fits and refuses the rest with a sentence. An absent key is ERR_NOENT
 * without a sentence, because only the caller knows whether it is required.
 */
#include "core/formats/gguf/gguf.h"

#include "core/base/err.h"
#include "core/formats/gguf/cursor.h"
#include "core/formats/gguf/gguf_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *gguf_type_name(enum gguf_type type)
{
    switch (type) {
    case GGUF_U8:
        return "u8";
    case GGUF_I8:
        return "i8";
    case GGUF_U16:
        return "u16";
    case GGUF_I16:
        return "i16";
    case GGUF_U32:
        return "u32";
    case GGUF_I32:
        return "i32";
    case GGUF_F32:
        return "f32";
    case GGUF_BOOL:
        return "bool";
    case GGUF_STRING:
        return "string";
    case GGUF_ARRAY:
        return "array";
    case GGUF_U64:
        return "u64";
    case GGUF_I64:
        return "i64";
    case GGUF_F64:
        return "f64";
    }
    return "unknown";
}

/* Load an integer of any width; false when the type is not an integer. */
static bool load_int(enum gguf_type type, const uint8_t *p, int64_t *v)
{
    switch (type) {
    case GGUF_U8:
    case GGUF_BOOL:
        *v = p[0];
        return true;
    case GGUF_I8:
        *v = (int8_t)p[0];
        return true;
    case GGUF_U16:
        *v = p[0] | p[1] << 8;
        return true;
    case GGUF_I16:
        *v = (int16_t)(p[0] | p[1] << 8);
        return true;
    case GGUF_U32:
        *v = gguf_load_u32(p);
        return true;
    case GGUF_I32:
        *v = (int32_t)gguf_load_u32(p);
        return true;
    case GGUF_U64: /* the upper half of the range reads as negative */
    case GGUF_I64:
        *v = (int64_t)gguf_load_u64(p);
        return true;
    case GGUF_F32:
    case GGUF_F64:
    case GGUF_STRING:
    case GGUF_ARRAY:
        return false;
    }
    return false;
}

static bool load_float(enum gguf_type type, const uint8_t *p, double *v)
{
    uint32_t u32;
    uint64_t u64;
    float f;
    int64_t i;

    if (type == GGUF_F32) {
        u32 = gguf_load_u32(p);
        memcpy(&f, &u32, 4);
        *v = (double)f;
        return true;
    }
    if (type == GGUF_F64) {
        u64 = gguf_load_u64(p);
        memcpy(v, &u64, 8);
        return true;
    }
    if (!load_int(type, p, &i))
        return false;
    *v = type == GGUF_U64 ? (double)(uint64_t)i : (double)i;
    return true;
}

static int wrong_type(const struct gguf *g, const struct gguf_kv *kv, const char *wanted, char *err,
                      size_t err_len)
{
    snprintf(err, err_len, "%s: key '%.*s': has type %s, but %s is expected", gguf_name(g),
             (int)kv->key.len, kv->key.data, gguf_type_name(kv->type), wanted);
    return ERR_FORMAT;
}

/* Read the key as an int64_t; an unsigned value above INT64_MAX becomes negative. */
int gguf_get_int(const struct gguf *g, const char *key, int64_t *out, char *err, size_t err_len)
{
    const struct gguf_kv *kv = gguf_find(g, key);

    if (kv == NULL)
        return ERR_NOENT;
    if (kv->type == GGUF_BOOL || !load_int(kv->type, kv->data, out))
        return wrong_type(g, kv, "an integer", err, err_len);
    return 0;
}

int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out, char *err, size_t err_len)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    int64_t v;

    if (kv == NULL)
        return ERR_NOENT;
    if (kv->type == GGUF_BOOL || !load_int(kv->type, kv->data, &v))
        return wrong_type(g, kv, "an integer", err, err_len);
    if (v < 0 || v > UINT32_MAX) {
        if (kv->type == GGUF_U64)
            snprintf(err, err_len, "%s: key '%s': %" PRIu64 " does not fit into 32 bits",
                     gguf_name(g), key, (uint64_t)v);
        else
            snprintf(err, err_len, "%s: key '%s': %" PRId64 " does not fit into 32 bits unsigned",
                     gguf_name(g), key, v);
        return ERR_FORMAT;
    }
    *out = (uint32_t)v;
    return 0;
}

int gguf_get_f32(const struct gguf *g, const char *key, float *out, char *err, size_t err_len)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    double v;

    if (kv == NULL)
        return ERR_NOENT;
    if (kv->type == GGUF_BOOL || !load_float(kv->type, kv->data, &v))
        return wrong_type(g, kv, "a number", err, err_len);
    if (!(fabs(v) <= (double)3.402823466e38f)) {
        snprintf(err, err_len, "%s: key '%s': %g is not a finite 32-bit number", gguf_name(g), key,
                 v);
        return ERR_FORMAT;
    }
    *out = (float)v;
    return 0;
}

int gguf_get_bool(const struct gguf *g, const char *key, bool *out, char *err, size_t err_len)
{
    const struct gguf_kv *kv = gguf_find(g, key);

    if (kv == NULL)
        return ERR_NOENT;
    if (kv->type != GGUF_BOOL)
        return wrong_type(g, kv, "bool", err, err_len);
    *out = kv->data[0] != 0;
    return 0;
}

int gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out, char *err,
                 size_t err_len)
{
    const struct gguf_kv *kv = gguf_find(g, key);

    if (kv == NULL)
        return ERR_NOENT;
    if (kv->type != GGUF_STRING)
        return wrong_type(g, kv, "string", err, err_len);
    out->data = (const char *)kv->data + 8;
    out->len = (size_t)kv->len;
    return 0;
}

int gguf_get_array(const struct gguf *g, const char *key, enum gguf_type elem,
                   const struct gguf_kv **out, char *err, size_t err_len)
{
    const struct gguf_kv *kv = gguf_find(g, key);

    if (kv == NULL)
        return ERR_NOENT;
    if (kv->type != GGUF_ARRAY)
        return wrong_type(g, kv, "array", err, err_len);
    if (kv->elem != elem) {
        snprintf(err, err_len, "%s: key '%s': is an array of %s, but one of %s is expected",
                 gguf_name(g), key, gguf_type_name(kv->elem), gguf_type_name(elem));
        return ERR_FORMAT;
    }
    *out = kv;
    return 0;
}

struct gguf_str gguf_array_str(const struct gguf_kv *kv, uint64_t i)
{
    const uint8_t *p = kv->data + kv->index[i];

    return (struct gguf_str){.data = (const char *)p + 8,
                             .len = (size_t)(kv->index[i + 1] - kv->index[i] - 8)};
}

float gguf_array_f32(const struct gguf_kv *kv, uint64_t i)
{
    double v = 0.0;

    load_float(kv->elem, kv->data + i * gguf_scalar_bytes(kv->elem), &v);
    return (float)v;
}

int64_t gguf_array_int(const struct gguf_kv *kv, uint64_t i)
{
    int64_t v = 0;

    load_int(kv->elem, kv->data + i * gguf_scalar_bytes(kv->elem), &v);
    return v;
}
