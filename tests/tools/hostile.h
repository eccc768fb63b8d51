/* tests/tools/hostile.h - a small valid model file, and every way we know to break it.
 *
 * hostile_each() walks the valid file's structure and emits one broken copy after the other:
 * cut off at every boundary, lying counts, lengths, offsets and types, doubled names, overlapping
 * data, dimensions that contradict the architecture, keys gone, numbers that are none. Each copy is
 * wrong in one place, and each has to be refused by the reader or the loader.
 *
 * Thread: one owner.
 * Memory: what is emitted lives during the call.
 */
#ifndef TESTS_TOOLS_HOSTILE_H
#define TESTS_TOOLS_HOSTILE_H

#include "tests/tools/fixture.h"

#include <inttypes.h>
#include <stdlib.h>

typedef void hostile_emit(void *ud, const char *what, const uint8_t *bytes, size_t n);

enum hostile_kind {
    HOSTILE_MAGIC = 0,
    HOSTILE_VERSION,
    HOSTILE_N_TENSORS,
    HOSTILE_N_KEYS,
    HOSTILE_KEY_LEN,
    HOSTILE_KEY,
    HOSTILE_KEY_TYPE,
    HOSTILE_VALUE,
    HOSTILE_STR_LEN,
    HOSTILE_STR,
    HOSTILE_ELEM_TYPE,
    HOSTILE_COUNT,
    HOSTILE_ELEM_LEN,
    HOSTILE_ELEM,
    HOSTILE_NAME_LEN,
    HOSTILE_NAME,
    HOSTILE_N_DIMS,
    HOSTILE_DIM,
    HOSTILE_TENSOR_TYPE,
    HOSTILE_OFFSET,
    HOSTILE_DATA,
};

struct hostile_field {
    enum hostile_kind kind;
    size_t at, len;
    char of[64]; /* the key or tensor that it belongs to */
};

struct hostile {
    uint8_t *data; /* the valid file */
    size_t bytes;
    uint8_t *copy; /* the broken one */
    struct hostile_field *fields;
    size_t n_fields, cap;
    size_t at; /* of the walk */
    hostile_emit *emit;
    void *ud;
};

/* The valid file. */

static inline int hostile_valid(uint8_t **data, size_t *bytes)
{
    enum { N = 48 };
    struct fixture f = fixture_small();
    struct gguf_str tokens[N];
    float scores[N];
    int32_t types[N];
    char text[N][16];
    struct gguf_writer *w;
    int rc = gguf_writer_create(&w);

    f.n_embd = 16;
    f.n_head = 2;
    f.n_kv_head = 1;
    f.head_dim = 8;
    f.n_ff = 32;
    f.n_vocab = N;
    f.tied = true; /* then every tensor is one that has to be there */
    if (rc == 0)
        rc = fixture_add(&f, w);
    for (int i = 0; i < N; i++) {
        tokens[i].len = (size_t)snprintf(text[i], sizeof(text[i]), "token%d", i);
        tokens[i].data = text[i];
        scores[i] = -(float)i;
        types[i] = 1;
    }
    if (rc == 0) {
        gguf_writer_u32(w, "general.alignment", 32);
        gguf_writer_str(w, "general.note_a", "a");
        gguf_writer_str(w, "general.note_b", "b");
        gguf_writer_str_array(w, "tokenizer.ggml.tokens", tokens, N);
        gguf_writer_f32_array(w, "tokenizer.ggml.scores", scores, N);
        gguf_writer_i32_array(w, "tokenizer.ggml.token_type", types, N);
        gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true);
        rc = gguf_writer_finish(w, data, bytes);
    }
    gguf_writer_destroy(&w);
    fixture_release(&f);
    return rc;
}

/* The walk: it trusts the file, which is ours. */

static inline uint64_t hostile_load(const struct hostile *h, size_t at, size_t len)
{
    uint64_t v = 0;

    for (size_t i = 0; i < len; i++)
        v |= (uint64_t)h->data[at + i] << 8 * i;
    return v;
}

static inline uint64_t hostile_field(struct hostile *h, enum hostile_kind kind, const char *of,
                                     size_t len)
{
    struct hostile_field *f = &h->fields[h->n_fields++];

    if (h->n_fields > h->cap)
        abort();
    f->kind = kind;
    f->at = h->at;
    f->len = len;
    snprintf(f->of, sizeof(f->of), "%s", of);
    h->at += len;
    return len <= 8 ? hostile_load(h, f->at, len) : 0;
}

/* A length and a name; the name becomes `of` for what follows. */
static inline void hostile_name(struct hostile *h, enum hostile_kind kind, char of[64])
{
    const size_t len = (size_t)hostile_load(h, h->at, 8);

    snprintf(of, 64, "%.*s", (int)len, (const char *)h->data + h->at + 8);
    hostile_field(h, kind, of, 8);
    hostile_field(h, (enum hostile_kind)(kind + 1), of, len);
}

static inline size_t hostile_scalar(uint64_t type)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

    return bytes[type];
}

static inline void hostile_walk_key(struct hostile *h)
{
    char of[64];
    uint64_t type, elem, n;

    hostile_name(h, HOSTILE_KEY_LEN, of);
    type = hostile_field(h, HOSTILE_KEY_TYPE, of, 4);
    if (type == GGUF_STRING) {
        n = hostile_field(h, HOSTILE_STR_LEN, of, 8);
        hostile_field(h, HOSTILE_STR, of, (size_t)n);
    } else if (type == GGUF_ARRAY) {
        elem = hostile_field(h, HOSTILE_ELEM_TYPE, of, 4);
        n = hostile_field(h, HOSTILE_COUNT, of, 8);
        for (; n > 0 && elem == GGUF_STRING; n--) {
            const uint64_t len = hostile_field(h, HOSTILE_ELEM_LEN, of, 8);

            hostile_field(h, HOSTILE_ELEM, of, (size_t)len);
        }
        if (elem != GGUF_STRING)
            hostile_field(h, HOSTILE_ELEM, of, (size_t)n * hostile_scalar(elem));
    } else {
        hostile_field(h, HOSTILE_VALUE, of, hostile_scalar(type));
    }
}

static inline void hostile_walk_tensor(struct hostile *h)
{
    char of[64];
    uint64_t n;

    hostile_name(h, HOSTILE_NAME_LEN, of);
    n = hostile_field(h, HOSTILE_N_DIMS, of, 4);
    for (; n > 0; n--)
        hostile_field(h, HOSTILE_DIM, of, 8);
    hostile_field(h, HOSTILE_TENSOR_TYPE, of, 4);
    hostile_field(h, HOSTILE_OFFSET, of, 8);
}

/* The data of all tensors: F32, in the order of their infos. */
static inline void hostile_walk_data(struct hostile *h, size_t start)
{
    const size_t n = h->n_fields;
    uint64_t numbers = 1;

    for (size_t i = 0; i < n; i++) {
        const struct hostile_field f = h->fields[i];

        if (f.kind == HOSTILE_N_DIMS)
            numbers = 1;
        else if (f.kind == HOSTILE_DIM)
            numbers *= hostile_load(h, f.at, f.len);
        if (f.kind != HOSTILE_OFFSET)
            continue;
        h->at = start + (size_t)hostile_load(h, f.at, f.len);
        hostile_field(h, HOSTILE_DATA, f.of, (size_t)numbers * 4);
    }
}

static inline void hostile_walk(struct hostile *h)
{
    uint64_t n_tensors, n_keys;

    hostile_field(h, HOSTILE_MAGIC, "", 4);
    hostile_field(h, HOSTILE_VERSION, "", 4);
    n_tensors = hostile_field(h, HOSTILE_N_TENSORS, "", 8);
    n_keys = hostile_field(h, HOSTILE_N_KEYS, "", 8);
    while (n_keys-- > 0)
        hostile_walk_key(h);
    while (n_tensors-- > 0)
        hostile_walk_tensor(h);
    hostile_walk_data(h, (h->at + 31) / 32 * 32);
}

/* The ways to break it. */

static inline void hostile_out(struct hostile *h, const struct hostile_field *f, const char *how,
                               size_t bytes)
{
    char what[160];

    snprintf(what, sizeof(what), "%s%s%s", f->of, f->of[0] != '\0' ? " " : "", how);
    h->emit(h->ud, what, h->copy, bytes);
    memcpy(h->copy, h->data, h->bytes);
}

/* The field as an integer, replaced. */
static inline void hostile_int(struct hostile *h, const struct hostile_field *f, const char *name,
                               uint64_t v)
{
    char how[80];

    if (v == hostile_load(h, f->at, f->len))
        return;
    for (size_t i = 0; i < f->len; i++)
        h->copy[f->at + i] = (uint8_t)(v >> 8 * i);
    snprintf(how, sizeof(how), "%s %" PRIu64, name, v);
    hostile_out(h, f, how, h->bytes);
}

static inline void hostile_float(struct hostile *h, const struct hostile_field *f, const char *name,
                                 float v)
{
    char how[80];

    memcpy(h->copy + f->at, &v, 4);
    snprintf(how, sizeof(how), "%s %g", name, (double)v);
    hostile_out(h, f, how, h->bytes);
}

/* One byte of the field, replaced. */
static inline void hostile_byte(struct hostile *h, const struct hostile_field *f, const char *name,
                                size_t i, uint8_t v)
{
    char how[80];

    if (i >= f->len || h->copy[f->at + i] == v)
        return;
    h->copy[f->at + i] = v;
    snprintf(how, sizeof(how), "%s byte %zu = 0x%02x", name, i, v);
    hostile_out(h, f, how, h->bytes);
}

static inline void hostile_ints(struct hostile *h, const struct hostile_field *f, const char *name,
                                const uint64_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hostile_int(h, f, name, v[i]);
}

#define HOSTILE_INTS(h, f, name, ...)                                                              \
    hostile_ints(h, f, name, (const uint64_t[]){__VA_ARGS__},                                      \
                 sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static inline bool hostile_is(const struct hostile_field *f, const char *of)
{
    return strcmp(f->of, of) == 0;
}

static inline void hostile_truncate(struct hostile *h, const struct hostile_field *f)
{
    char how[80];

    snprintf(how, sizeof(how), "cut at byte %zu", f->at);
    hostile_out(h, f, how, f->at);
    if (f->len < 2)
        return;
    snprintf(how, sizeof(how), "cut at byte %zu", f->at + f->len / 2);
    hostile_out(h, f, how, f->at + f->len / 2);
}

static inline void hostile_header(struct hostile *h, const struct hostile_field *f)
{
    const uint64_t v = hostile_load(h, f->at, f->len);

    if (f->kind == HOSTILE_MAGIC) {
        for (size_t i = 0; i < 4; i++)
            hostile_byte(h, f, "magic", i, 'x');
        hostile_int(h, f, "magic", 0x47475546); /* the bytes reversed */
    } else if (f->kind == HOSTILE_VERSION) {
        HOSTILE_INTS(h, f, "version", 0, 1, 4, 0x02000000, 0x03000000, UINT32_MAX);
    } else {
        HOSTILE_INTS(h, f, f->kind == HOSTILE_N_KEYS ? "keys" : "tensors", 0, v - 1, v + 1, v * 2,
                     65537, 131073, 1ull << 32, 1ull << 63, UINT64_MAX);
    }
}

/* A length of a string or name that lies. */
static inline void hostile_len(struct hostile *h, const struct hostile_field *f, const char *name)
{
    HOSTILE_INTS(h, f, name, h->bytes, 1ull << 32, 1ull << 63, UINT64_MAX - 7, UINT64_MAX);
}

/* Are the loader's demands on this key such that losing it is an error? */
static inline bool hostile_needs(const struct hostile_field *f)
{
    static const char *const keys[] = {
        "general.architecture",          "llama.block_count",
        "llama.context_length",          "llama.embedding_length",
        "llama.feed_forward_length",     "llama.attention.head_count",
        "llama.attention.head_count_kv", "llama.attention.layer_norm_rms_epsilon"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (hostile_is(f, keys[i]))
            return true;
    return false;
}

static inline void hostile_key(struct hostile *h, const struct hostile_field *f)
{
    if (f->kind == HOSTILE_KEY_LEN) {
        hostile_len(h, f, "key length");
        HOSTILE_INTS(h, f, "key length", 0, 128, f->len + 1000);
    } else if (f->kind == HOSTILE_KEY_TYPE) {
        HOSTILE_INTS(h, f, "type", 13, 255, UINT32_MAX);
    } else {
        hostile_byte(h, f, "key", 1, 0);
        hostile_byte(h, f, "key", 2, '\n');
        hostile_byte(h, f, "key", f->len - 1, 0xff);
        if (hostile_needs(f))
            hostile_byte(h, f, "key lost:", f->len - 1, '~');
        if (hostile_is(f, "general.note_b"))
            hostile_byte(h, f, "key doubled:", f->len - 1, 'a');
    }
}

static inline void hostile_value(struct hostile *h, const struct hostile_field *f)
{
    if (hostile_is(f, "general.alignment"))
        HOSTILE_INTS(h, f, "value", 0, 1, 4, 24, 33, 131072, 1u << 31, UINT32_MAX);
    else if (hostile_is(f, "tokenizer.ggml.add_bos_token"))
        HOSTILE_INTS(h, f, "value", 2, 255);
    else if (hostile_is(f, "llama.block_count"))
        HOSTILE_INTS(h, f, "value", 0, 1, 3, 1024, 1025, UINT32_MAX);
    else if (hostile_is(f, "llama.context_length"))
        HOSTILE_INTS(h, f, "value", 0);
    else if (hostile_is(f, "llama.embedding_length") || hostile_is(f, "llama.feed_forward_length"))
        HOSTILE_INTS(h, f, "value", 0, 8, 15, 17, 31, 33, 65536, UINT32_MAX);
    else if (hostile_is(f, "llama.attention.head_count"))
        HOSTILE_INTS(h, f, "value", 0, 1, 3, 4, 1024, 1025, UINT32_MAX);
    else if (hostile_is(f, "llama.attention.head_count_kv"))
        HOSTILE_INTS(h, f, "value", 0, 2, 3, UINT32_MAX);
    else if (hostile_is(f, "llama.attention.key_length") ||
             hostile_is(f, "llama.attention.value_length"))
        HOSTILE_INTS(h, f, "value", 0, 1, 7, 9, 16, 256, 264, UINT32_MAX);
    else if (hostile_is(f, "llama.rope.dimension_count"))
        HOSTILE_INTS(h, f, "value", 0, 1, 3, 9, 10, UINT32_MAX);
    if (!hostile_is(f, "llama.attention.layer_norm_rms_epsilon") &&
        !hostile_is(f, "llama.rope.freq_base"))
        return;
    hostile_float(h, f, "value", 0.0f);
    hostile_float(h, f, "value", -1.0f);
    hostile_float(h, f, "value", NAN);
    hostile_float(h, f, "value", INFINITY);
}

static inline void hostile_array(struct hostile *h, const struct hostile_field *f)
{
    const uint64_t v = hostile_load(h, f->at, f->len);

    if (f->kind == HOSTILE_ELEM_TYPE)
        HOSTILE_INTS(h, f, "element type", GGUF_ARRAY, 13, UINT32_MAX, GGUF_U64);
    else if (f->kind == HOSTILE_COUNT)
        HOSTILE_INTS(h, f, "count", 0, v - 1, v + 1, 1ull << 32, 1ull << 61, 1ull << 62,
                     UINT64_MAX);
    else
        hostile_len(h, f, "element length");
}

/* Whatever stands in the file was needed, so any other name is wrong twice. */
static inline void hostile_tensor_name(struct hostile *h, const struct hostile_field *f)
{
    if (f->kind == HOSTILE_NAME_LEN) {
        hostile_len(h, f, "name length");
        HOSTILE_INTS(h, f, "name length", 0, 128);
        return;
    }
    hostile_byte(h, f, "name", 0, 'X');
    hostile_byte(h, f, "name", 1, 0);
    hostile_byte(h, f, "name", f->len - 1, 0x7f);
    if (strncmp(f->of, "blk.0.", 6) == 0)
        hostile_byte(h, f, "name doubled:", 4, '1');
    else if (strncmp(f->of, "blk.1.", 6) == 0)
        hostile_byte(h, f, "layer 2:", 4, '2');
}

static inline void hostile_tensor(struct hostile *h, const struct hostile_field *f)
{
    const uint64_t v = hostile_load(h, f->at, f->len);

    if (f->kind == HOSTILE_N_DIMS)
        HOSTILE_INTS(h, f, "dimensions", 0, 5, 64, UINT32_MAX);
    else if (f->kind == HOSTILE_DIM)
        HOSTILE_INTS(h, f, "dimension", 0, v - 1, v + 1, 1ull << 31, 1ull << 62, 1ull << 63,
                     UINT64_MAX);
    else if (f->kind == HOSTILE_TENSOR_TYPE)
        /* gone, foreign and unheard-of types, and ones whose blocks no row here fills */
        HOSTILE_INTS(h, f, "type", 4, 9, 15, 24, 28, 31, 40, 1000, UINT32_MAX, BLOCK_Q4_K,
                     BLOCK_Q6_K);
    else
        HOSTILE_INTS(h, f, "offset", v + 1, v + 8, v + 32, h->bytes, 1ull << 32, 1ull << 63,
                     UINT64_MAX - 31);
}

static inline void hostile_data(struct hostile *h, const struct hostile_field *f)
{
    struct hostile_field last = *f;

    last.at += f->len - 4;
    hostile_float(h, f, "first weight", INFINITY);
    hostile_float(h, &last, "last weight", NAN);
}

static inline void hostile_break(struct hostile *h, const struct hostile_field *f)
{
    hostile_truncate(h, f);
    switch (f->kind) {
    case HOSTILE_MAGIC:
    case HOSTILE_VERSION:
    case HOSTILE_N_TENSORS:
    case HOSTILE_N_KEYS:
        hostile_header(h, f);
        break;
    case HOSTILE_KEY_LEN:
    case HOSTILE_KEY:
    case HOSTILE_KEY_TYPE:
        hostile_key(h, f);
        break;
    case HOSTILE_VALUE:
        hostile_value(h, f);
        break;
    case HOSTILE_STR_LEN:
        hostile_len(h, f, "string length");
        break;
    case HOSTILE_STR:
        if (hostile_is(f, "general.architecture"))
            hostile_byte(h, f, "architecture", 0, 'L');
        break;
    case HOSTILE_ELEM_TYPE:
    case HOSTILE_COUNT:
    case HOSTILE_ELEM_LEN:
        hostile_array(h, f);
        break;
    case HOSTILE_ELEM:
        break;
    case HOSTILE_NAME_LEN:
    case HOSTILE_NAME:
        hostile_tensor_name(h, f);
        break;
    case HOSTILE_N_DIMS:
    case HOSTILE_DIM:
    case HOSTILE_TENSOR_TYPE:
    case HOSTILE_OFFSET:
        hostile_tensor(h, f);
        break;
    case HOSTILE_DATA:
        hostile_data(h, f);
        break;
    }
}

/* Emit the broken copies. 0 or ERR_NOMEM. */
static inline int hostile_each(hostile_emit *emit, void *ud)
{
    struct hostile h = {.emit = emit, .ud = ud, .cap = 4096};
    int rc = hostile_valid(&h.data, &h.bytes);

    if (rc < 0)
        return rc;
    h.copy = mem_dup(h.data, h.bytes);
    h.fields = mem_calloc(h.cap, sizeof(*h.fields));
    rc = h.copy != NULL && h.fields != NULL ? 0 : ERR_NOMEM;
    if (rc == 0)
        hostile_walk(&h);
    for (size_t i = 0; rc == 0 && i < h.n_fields; i++)
        hostile_break(&h, &h.fields[i]);
    mem_free(h.data);
    mem_free(h.copy);
    mem_free(h.fields);
    return rc;
}

#endif
