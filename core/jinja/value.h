/* core/jinja/value.h - the values that a chat template works on, in an arena with a byte limit.
 *
 * A value is passed by value, like a number: sixteen bytes with its kind and the value itself or a
 * pointer. Everything that it points to lives in a value_pool and is freed with it; nothing is
 * freed one by one. Strings are UTF-8 with a length (they may hold NULs) and, like lists and dicts,
 * do not change once they are built: so they are shared freely. Only the caller that builds a list
 * or dict adds to it, before any other code sees it.
 *
 *   struct value message = value_dict(pool);
 *   value_dict_set(pool, message, "role", value_string(pool, "user", 4));
 *
 * A string knows its origin: strings of a template's source are its own (VALUE_OWN), all others are
 * not, and a string put together of both is partly so (VALUE_PARTLY), byte by byte. Functions that
 * copy or join bytes unchanged keep that: slices, joining, capturing, replacing. A text made in any
 * other way counts as not the template's own, so a client's text can never become the template's,
 * whatever is done with it. A pool keeps the bytes of VALUE_PARTLY only where `tracks` is set;
 * elsewhere such a string is not the template's own.
 *
 * A pool that has run out (of its limit, or of memory) remembers the first error: constructors then
 * give value_null() and additions do nothing, so the caller checks pool->err once, at the end.
 *
 * Integers that are computed with have 64 bits. A longer one that a client wrote is kept as its
 * digits: it can be printed, compared and passed on, and computing with it fails.
 *
 * Thread: a pool and its values belong to one thread at a time; finished values may be read by
 *         many.
 * Memory: value_pool_init() takes nothing; chunks are taken as needed, up to `max` bytes.
 * Errors: pool->err is ERR_LIMIT past the limit, ERR_NOMEM.
 */
#ifndef CORE_JINJA_VALUE_H
#define CORE_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spans;

enum value_kind {
    VALUE_UNDEFINED = 0, /* a name or member that was not there */
    VALUE_NULL,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_BIG, /* an integer beyond 64 bits */
    VALUE_STRING,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    /* kinds that only exist while a template runs */
    VALUE_NAMESPACE,
    VALUE_RANGE,
    VALUE_VIEW,      /* dict.keys(), .values(), .items() */
    VALUE_GENERATOR, /* result of filters like map: can be walked once */
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_FUNCTION, /* a global function */
    VALUE_METHOD,   /* "text".upper before it is called */
    VALUE_CYCLER,
    VALUE_JOINER,
    VALUE_MISSING, /* internal: a variable without a value, an argument that was not given */
};

struct value_list { /* also of tuples */
    struct value *at;
    uint32_t n, cap;
};

struct value {
    uint8_t kind;  /* enum value_kind */
    uint8_t flags; /* enum value_flags; for undefined values the meaning of `s` */
    uint32_t n;    /* bytes of strings and big integers */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s; /* not NUL-terminated; for big integers the digits, which are */
        struct value_list *list;
        struct value_dict *dict; /* also of namespaces */
        struct template_object *object;
    };
};
_Static_assert(sizeof(struct value) == 16, "values travel in two registers");

enum value_flags {
    VALUE_SAFE = 1u << 0,     /* strings: safe HTML; joining it with other text escapes that text */
    TEMPLATE_GROUP = 1u << 1, /* tuples: a group of the groupby filter */
    VALUE_OWN = 1u << 2,      /* strings: the template wrote every byte */
    VALUE_PARTLY = 1u << 3,   /* strings: the template wrote some bytes, and the pool knows which */
    VALUE_ORIGIN = VALUE_OWN | VALUE_PARTLY,
};

struct value_pair {
    struct value key, value;
    uint64_t hash;
};

struct value_dict { /* in the order of insertion */
    struct value_pair *at;
    uint32_t n, cap;
    uint32_t *slots; /* open addressing, number of the pair + 1; NULL while the dict is small */
    uint32_t n_slots;
};

struct value_chunk;
struct value_pool {
    struct value_chunk *chunks;
    char *top, *end; /* free room in the newest chunk */
    size_t used, max;
    int err;
    bool tracks; /* record which bytes of VALUE_PARTLY strings are the template's */
};

#define VALUE_POOL_MAX (256u << 20) /* default for `max`: dozens of times a long chat */
#define VALUE_MAX_KEY 1000 /* values in one key of a dict, a tuple of tuples */
#define VALUE_MAX_DEPTH 200 /* depth of lists in lists that are compared or printed */

void value_pool_init(struct value_pool *pool, size_t max);
void value_pool_release(struct value_pool *pool);
/* Return zeroed memory, aligned for any value; NULL: there is none (pool->err says why). */
void *value_pool_alloc(struct value_pool *pool, size_t bytes);
/* Return memory for text, unaligned and not zeroed. */
char *value_pool_text(struct value_pool *pool, size_t bytes);

struct value value_null(void);
struct value value_bool(bool b);
struct value value_int(int64_t i);
struct value value_float(double f);
/* Return the number that Python's json module reads from this JSON number (NUL-terminated, copied):
 * 1e5 is the float 100000.0, 1 an integer, however long. */
struct value value_number(struct value_pool *pool, const char *text);
/* Return a string of n bytes of UTF-8. value_string() copies them, value_borrow() borrows them for
 * the pool's lifetime. */
struct value value_string(struct value_pool *pool, const char *bytes, size_t n);
struct value value_borrow(const char *bytes, size_t n);
struct value value_text(const char *literal); /* a C string that outlives the pool */
struct value value_own(struct value string); /* the string as the template's own text */

/* Return a copy of text[from..to), in which the bytes of `own` are the template's own. */
struct value value_cut(struct value_pool *pool, const char *text, size_t from, size_t to,
                       const struct spans *own);
/* Append to `own` which bytes of the string are the template's, as if it began at `at`. */
void value_spans(const struct value_pool *pool, struct value string, size_t at, struct spans *own);

struct value value_list(struct value_pool *pool);
struct value value_tuple(struct value_pool *pool);
void value_list_add(struct value_pool *pool, struct value list, struct value item);

struct value value_dict(struct value_pool *pool);
/* Set a key, which is copied. A later value for the same key replaces the earlier one. */
void value_dict_set(struct value_pool *pool, struct value dict, const char *key,
                    struct value value);
/* Set any key that has a hash (see value_hash); it is not copied. 0, or ERR_INVAL for a list or
 * dict as the key. */
int value_dict_put(struct value_pool *pool, struct value dict, struct value key,
                   struct value value);
/* Return the value of a key, or NULL. A key without a hash is in no dict. */
const struct value *value_dict_find(struct value dict, struct value key);
const struct value *value_dict_get(struct value dict, const char *key, size_t n);

/* Return a and b as one string, which is not safe; if `a` is the newest text of the pool it grows
 * in place. */
struct value value_concat(struct value_pool *pool, struct value a, struct value b);

/* Python's bool(), ==, <, hash(). Equality and order return 0 or 1; ERR_LIMIT past VALUE_MAX_DEPTH
 * or when *budget, of which each value looked at takes one, is used up; ERR_INVAL: the two kinds
 * have no order. value_equal is for keys, with VALUE_MAX_KEY as its budget. value_hash: ERR_INVAL
 * for a value that may not be a key. */
bool value_truth(struct value v);
int value_equal(struct value a, struct value b);
int value_equal_within(struct value a, struct value b, uint64_t *budget);
int value_less(struct value a, struct value b, bool or_equal, uint64_t *budget);
int value_hash(struct value v, uint64_t *hash);
bool value_is_number(struct value v);    /* bool, int, big int or float */
bool value_is_int(struct value v);       /* bool or int of 64 bits */
int64_t value_as_int(struct value v);    /* for a bool or int */
double value_as_double(struct value v);  /* for a number; a big int may be infinite */
bool value_is_text(struct value v, const char *text); /* true: the value is the string `text` */

struct buf;
/* Append Python's str() and repr(). ERR_LIMIT past VALUE_MAX_DEPTH or the buffer. */
int value_str(struct value v, struct buf *out);
int value_repr(struct value v, struct buf *out);
void value_repr_float(double f, struct buf *out);

struct value_json {
    struct value item_separator, key_separator; /* strings */
    struct value indent;                        /* a string to indent by; else null */
    bool ascii;                                 /* escape everything else */
    bool sort_keys;
};
/* Append Python's json.dumps(). ERR_INVAL: *culprit is the value that has no JSON. */
int value_to_json(struct value v, const struct value_json *how, struct buf *out,
                  struct value *culprit);

/* "str", "dict", "NoneType": the name of the kind in Python. */
const char *value_type_name(struct value v);

#endif
