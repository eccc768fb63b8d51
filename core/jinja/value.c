/* core/jinja/value.c - see value.h. The arena, and how values are built.
 *
 * The arena has chunks of doubling size and a pointer to the free room in the newest; nothing is
 * freed before the pool. Lists and dicts grow by taking twice the room and leaving the old one. A
 * dict keeps its pairs in order of insertion, with a hash index once it has more than SMALL_DICT of
 * them. Origins of mixed strings are a byte for each byte of text, in an array beside the chunk
 * that is made when first needed.
 */
#include "core/jinja/value.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CHUNK (16u << 10) /* enough for a short chat */
#define LARGEST_CHUNK (1u << 20)
#define SMALL_DICT 8 /* up to this size a search from the front is faster than an index */

struct value_chunk {
    struct value_chunk *next;
    size_t bytes;
    char *own; /* NULL, or for each byte of data that counts, whether the template wrote it */
    _Alignas(16) char data[];
};

void value_pool_init(struct value_pool *pool, size_t max)
{
    *pool = (struct value_pool){.max = max};
}

void value_pool_release(struct value_pool *pool)
{
    while (pool->chunks != NULL) {
        struct value_chunk *next = pool->chunks->next;

        mem_free(pool->chunks->own);
        mem_free(pool->chunks);
        pool->chunks = next;
    }
    *pool = (struct value_pool){.max = pool->max};
}

/* Each chunk is twice the one before, so that there are few; a large request gets its own size. */
static bool add_chunk(struct value_pool *pool, size_t bytes)
{
    size_t size = pool->chunks != NULL ? 2 * pool->chunks->bytes : FIRST_CHUNK;
    struct value_chunk *chunk;

    if (pool->err < 0)
        return false;
    if (size > LARGEST_CHUNK)
        size = LARGEST_CHUNK;
    if (bytes > pool->max || pool->used > pool->max - bytes) {
        pool->err = ERR_LIMIT;
        return false;
    }
    if (size > pool->max - pool->used)
        size = pool->max - pool->used;
    if (size < bytes)
        size = bytes;
    chunk = mem_alloc(sizeof(*chunk) + size);
    if (chunk == NULL) {
        pool->err = ERR_NOMEM;
        return false;
    }
    chunk->next = pool->chunks;
    chunk->bytes = size;
    chunk->own = NULL;
    pool->chunks = chunk;
    pool->used += size;
    pool->top = chunk->data;
    pool->end = chunk->data + size;
    return true;
}

void *value_pool_alloc(struct value_pool *pool, size_t bytes)
{
    size_t pad = (size_t)(-(uintptr_t)pool->top & 15);
    void *p;

    if (pool->err < 0)
        return NULL;
    if (pool->top == NULL || (size_t)(pool->end - pool->top) < pad ||
        (size_t)(pool->end - pool->top) - pad < bytes) {
        if (!add_chunk(pool, bytes))
            return NULL;
        pad = 0;
    }
    p = pool->top + pad;
    pool->top += pad + bytes;
    memset(p, 0, bytes);
    return p;
}

char *value_pool_text(struct value_pool *pool, size_t bytes)
{
    char *p;

    if (pool->err < 0)
        return NULL;
    if (bytes >= UINT32_MAX) { /* a string's length has 32 bits */
        pool->err = ERR_LIMIT;
        return NULL;
    }
    if ((pool->top == NULL || (size_t)(pool->end - pool->top) < bytes) && !add_chunk(pool, bytes))
        return NULL;
    p = pool->top;
    pool->top += bytes;
    return p;
}

struct value value_null(void)
{
    return (struct value){.kind = VALUE_NULL};
}

struct value value_bool(bool b)
{
    return (struct value){.kind = VALUE_BOOL, .i = b};
}

struct value value_int(int64_t i)
{
    return (struct value){.kind = VALUE_INT, .i = i};
}

struct value value_float(double f)
{
    return (struct value){.kind = VALUE_FLOAT, .f = f};
}

struct value value_number(struct value_pool *pool, const char *text)
{
    const size_t n = strlen(text);
    struct value v;
    long long i;

    if (strspn(text, "-0123456789") < n)
        return value_float(strtod(text, NULL));
    errno = 0;
    i = strtoll(text, NULL, 10);
    if (errno == 0)
        return value_int(i);
    v = value_string(pool, text, n + 1);
    if (v.kind == VALUE_STRING) {
        v.kind = VALUE_BIG;
        v.n = (uint32_t)n;
    }
    return v;
}

struct value value_borrow(const char *bytes, size_t n)
{
    return (struct value){.kind = VALUE_STRING, .n = (uint32_t)n, .s = bytes};
}

struct value value_text(const char *literal)
{
    return value_borrow(literal, strlen(literal));
}

struct value value_string(struct value_pool *pool, const char *bytes, size_t n)
{
    char *copy = value_pool_text(pool, n);

    if (copy == NULL)
        return value_null();
    if (n > 0)
        memcpy(copy, bytes, n);
    return value_borrow(copy, n);
}

/* ---- origins of bytes */

struct value value_own(struct value string)
{
    if (string.kind == VALUE_STRING)
        string.flags |= VALUE_OWN;
    return string;
}

static struct value_chunk *chunk_of(const struct value_pool *pool, const char *p)
{
    struct value_chunk *chunk = pool->chunks; /* the newest is the likeliest */

    while (chunk != NULL && !(p >= chunk->data && p < chunk->data + chunk->bytes))
        chunk = chunk->next;
    return chunk;
}

/* Return the marks of text in the pool; they are made when first needed. */
static char *marks_of(struct value_pool *pool, const char *p)
{
    struct value_chunk *chunk = chunk_of(pool, p);

    if (chunk == NULL || pool->err < 0)
        return NULL;
    if (chunk->own == NULL && chunk->bytes > pool->max - pool->used) {
        pool->err = ERR_LIMIT;
        return NULL;
    }
    if (chunk->own == NULL) {
        chunk->own = mem_calloc(chunk->bytes, 1);
        if (chunk->own == NULL) {
            pool->err = ERR_NOMEM;
            return NULL;
        }
        pool->used += chunk->bytes;
    }
    return chunk->own + (p - chunk->data);
}

/* Return the marks of s if it is VALUE_PARTLY and its chunk has marks; else NULL. */
static const char *known_marks(const struct value_pool *pool, struct value s)
{
    const struct value_chunk *chunk =
        (s.flags & VALUE_PARTLY) != 0 ? chunk_of(pool, s.s) : NULL;

    return chunk != NULL && chunk->own != NULL ? chunk->own + (s.s - chunk->data) : NULL;
}

/* Mark the bytes of s as copied to the marked text. */
static void mark(const struct value_pool *pool, char *marks, struct value s)
{
    const char *from = known_marks(pool, s);

    if (marks == NULL || s.n == 0)
        return;
    if (from == NULL)
        memset(marks, (s.flags & VALUE_OWN) != 0, s.n);
    else if (from != marks)
        memcpy(marks, from, s.n);
}

/* Return the origin of `text`, which is a and then b. */
static uint8_t joined_origin(struct value_pool *pool, const char *text, struct value a,
                             struct value b)
{
    const bool all = (a.n == 0 || (a.flags & VALUE_OWN) != 0) &&
                     (b.n == 0 || (b.flags & VALUE_OWN) != 0);
    const bool some = ((a.n > 0 ? a.flags : 0) | (b.n > 0 ? b.flags : 0)) & VALUE_ORIGIN;
    char *marks;

    if (all)
        return VALUE_OWN;
    if (!some || !pool->tracks)
        return 0;
    marks = marks_of(pool, text);
    mark(pool, marks, a);
    mark(pool, marks != NULL ? marks + a.n : NULL, b);
    return VALUE_PARTLY;
}

void value_spans(const struct value_pool *pool, struct value s, size_t at, struct spans *own)
{
    const char *marks = known_marks(pool, s);

    if ((s.flags & VALUE_OWN) != 0)
        spans_add(own, at, at + s.n);
    for (size_t i = 0, end; marks != NULL && i < s.n; i = end) {
        const char *next = memchr(marks + i, marks[i] == 0 ? 1 : 0, s.n - i);

        end = next != NULL ? (size_t)(next - marks) : s.n;
        if (marks[i])
            spans_add(own, at + i, at + end);
    }
}

struct value value_cut(struct value_pool *pool, const char *text, size_t from, size_t to,
                       const struct spans *own)
{
    struct value v = value_string(pool, text + from, to - from);
    size_t i = spans_find(own, from);
    char *marks;

    if (v.kind != VALUE_STRING || v.n == 0 || i == own->n || own->at[i].from >= to)
        return v;
    if (own->at[i].from <= from && to <= own->at[i].to)
        return value_own(v);
    marks = marks_of(pool, v.s);
    if (marks == NULL)
        return v;
    for (; i < own->n && own->at[i].from < to; i++) {
        const size_t first = own->at[i].from > from ? own->at[i].from - from : 0;
        const size_t end = own->at[i].to < to ? own->at[i].to - from : v.n;

        memset(marks + first, 1, end - first);
    }
    v.flags |= VALUE_PARTLY;
    return v;
}

struct value value_concat(struct value_pool *pool, struct value a, struct value b)
{
    const size_t n = (size_t)a.n + b.n;
    const bool grows =
        a.n > 0 && a.s + a.n == pool->top && (size_t)(pool->end - pool->top) >= b.n;
    char *text = grows ? pool->top - a.n : value_pool_text(pool, n);
    struct value v;

    if (text == NULL)
        return value_null();
    if (grows)
        pool->top += b.n;
    else if (a.n > 0)
        memcpy(text, a.s, a.n);
    if (b.n > 0)
        memcpy(text + a.n, b.s, b.n);
    v = value_borrow(text, n);
    v.flags = joined_origin(pool, text, a, b);
    return v;
}

static struct value new_list(struct value_pool *pool, enum value_kind kind)
{
    struct value v = {.kind = (uint8_t)kind};

    v.list = value_pool_alloc(pool, sizeof(*v.list));
    return v.list != NULL ? v : value_null();
}

struct value value_list(struct value_pool *pool)
{
    return new_list(pool, VALUE_LIST);
}

struct value value_tuple(struct value_pool *pool)
{
    return new_list(pool, VALUE_TUPLE);
}

/* Return twice the room, or NULL. The old room stays in the arena, which at most doubles the
 * memory. */
static void *grow_pool(struct value_pool *pool, const void *old, uint32_t n, size_t bytes,
                       uint32_t *cap)
{
    const uint32_t more = *cap == 0 ? 4 : 2 * *cap;
    void *p = more > *cap ? value_pool_alloc(pool, more * bytes) : NULL;

    if (p == NULL)
        return NULL;
    if (n > 0)
        memcpy(p, old, n * bytes);
    *cap = more;
    return p;
}

void value_list_add(struct value_pool *pool, struct value list, struct value item)
{
    struct value_list *l = list.list;

    if (pool->err < 0 || (list.kind != VALUE_LIST && list.kind != VALUE_TUPLE))
        return;
    if (l->n == l->cap) {
        struct value *at = grow_pool(pool, l->at, l->n, sizeof(*at), &l->cap);

        if (at == NULL)
            return;
        l->at = at;
    }
    l->at[l->n++] = item;
}

struct value value_dict(struct value_pool *pool)
{
    struct value v = {.kind = VALUE_DICT};

    v.dict = value_pool_alloc(pool, sizeof(*v.dict));
    return v.dict != NULL ? v : value_null();
}

static void index_pair(struct value_dict *d, uint32_t i)
{
    uint32_t slot = (uint32_t)d->at[i].hash & (d->n_slots - 1);

    while (d->slots[slot] != 0)
        slot = (slot + 1) & (d->n_slots - 1);
    d->slots[slot] = i + 1;
}

static struct value_pair *find_pair(const struct value_dict *d, struct value key, uint64_t hash)
{
    if (d->slots == NULL) {
        for (uint32_t i = 0; i < d->n; i++)
            if (d->at[i].hash == hash && value_equal(d->at[i].key, key) == 1)
                return &d->at[i];
        return NULL;
    }
    for (uint32_t slot = (uint32_t)hash & (d->n_slots - 1); d->slots[slot] != 0;
         slot = (slot + 1) & (d->n_slots - 1)) {
        struct value_pair *p = &d->at[d->slots[slot] - 1];

        if (p->hash == hash && value_equal(p->key, key) == 1)
            return p;
    }
    return NULL;
}

/* Add the last pair to the index; the index, if the dict has one, has room for twice the pairs. */
static void index_last(struct value_pool *pool, struct value_dict *d)
{
    if (d->n <= SMALL_DICT)
        return;
    if (2 * d->n <= d->n_slots) {
        index_pair(d, d->n - 1);
        return;
    }
    d->n_slots = d->n_slots == 0 ? 4 * SMALL_DICT : 2 * d->n_slots;
    d->slots = value_pool_alloc(pool, d->n_slots * sizeof(*d->slots));
    if (d->slots == NULL) /* the pool has an error: the dict is not used any more */
        return;
    for (uint32_t i = 0; i < d->n; i++)
        index_pair(d, i);
}

int value_dict_put(struct value_pool *pool, struct value dict, struct value key, struct value value)
{
    struct value_dict *d = dict.dict;
    struct value_pair *p;
    uint64_t hash;

    if (pool->err < 0 || (dict.kind != VALUE_DICT && dict.kind != VALUE_NAMESPACE))
        return 0;
    if (value_hash(key, &hash) < 0)
        return ERR_INVAL;
    p = find_pair(d, key, hash);
    if (p != NULL) {
        p->value = value;
        return 0;
    }
    if (d->n == d->cap) {
        p = grow_pool(pool, d->at, d->n, sizeof(*p), &d->cap);
        if (p == NULL)
            return 0;
        d->at = p;
    }
    d->at[d->n++] = (struct value_pair){key, value, hash};
    index_last(pool, d);
    return 0;
}

void value_dict_set(struct value_pool *pool, struct value dict, const char *key, struct value value)
{
    value_dict_put(pool, dict, value_string(pool, key, strlen(key)), value);
}

const struct value *value_dict_find(struct value dict, struct value key)
{
    const struct value_pair *p;
    uint64_t hash;

    if ((dict.kind != VALUE_DICT && dict.kind != VALUE_NAMESPACE) || value_hash(key, &hash) < 0)
        return NULL;
    p = find_pair(dict.dict, key, hash);
    return p != NULL ? &p->value : NULL;
}

const struct value *value_dict_get(struct value dict, const char *key, size_t n)
{
    return value_dict_find(dict, value_borrow(key, n));
}
