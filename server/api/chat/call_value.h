/* server/api/chat/call_value.h - converts an argument's value, as its family writes it, to JSON.
 *
 * Raw text has no types: the types that the tool's schema allows decide whether 3 is a number or a
 * string, and text that fits none of them stays a string. If the schema allows strings as well as
 * other types, or has no types, text that reads as a value of another allowed type is that value.
 * Numbers keep the digits that were written.
 *
 * Thread: any.
 * Memory: none but the output.
 */
#ifndef SERVER_API_CHAT_CALL_VALUE_H
#define SERVER_API_CHAT_CALL_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/buf.h"
#include "core/json/json.h"
#include "server/api/chat/family.h"

/* Bits of a mask of types. */
enum argument_types {
    ARGUMENT_NULL = 1,
    ARGUMENT_BOOLEAN = 2,
    ARGUMENT_INTEGER = 4,
    ARGUMENT_NUMBER = 8,
    ARGUMENT_STRING = 16,
    ARGUMENT_ARRAY = 32,
    ARGUMENT_OBJECT = 64,
    ARGUMENT_ANY = 127,
};

/* Returns the types that a schema within `root` allows, through $ref, allOf, anyOf, oneOf, enum and
 * const. ARGUMENT_ANY: no restriction, or the schema is NULL. */
unsigned call_value_schema_types(const cJSON *root, const cJSON *schema);

/* Visits each property that the schema of a function's parameters, or a schema that it refers to,
 * names; property->string is its name. A property that several schemas name is visited several
 * times. */
typedef void call_value_property(void *ud, const cJSON *root, const cJSON *property);
void call_value_each_property(const cJSON *parameters, call_value_property *take, void *ud);

/* Visits each schema of a value within an argument, up to a bound: members of objects by their
 * names and, is_item, the items of the list with that name. */
typedef void call_value_inner(void *ud, const cJSON *root, const char *name, bool is_item,
                              const cJSON *schema);
void call_value_each_inner(const cJSON *parameters, call_value_inner *take, void *ud);

/* Returns the types that an argument of that name may have: by the properties of the name, or
 * without any (NULL: a name that is not a property) by additionalProperties and patternProperties
 * anywhere in the schema. ARGUMENT_ANY: no restriction. */
unsigned call_value_key_types(const cJSON *parameters, const char *key);

/* Appends the raw text[0..n) as a value of one of the types. */
void call_value_add_text(struct buf *out, const char *text, size_t n, unsigned types);
/* Appends a JSON string, or only its characters. U+0000 becomes U+FFFD, because no body in which a
 * client sends the call back may have it. */
void call_value_add_string(struct buf *out, const char *text, size_t n);
void call_value_add_chars(struct buf *out, const char *text, size_t n);

/* Appends a literal of Python, or with a family of JSON with its quotes, as JSON: lists, dicts and
 * tuples too. False, with nothing appended: it is not a literal. */
bool call_value_add_literal(struct buf *out, const struct family *f, const char *text, size_t n);

/* As call_value_add_literal(), but a value of none of the types is converted if its text allows
 * that ("3" to a number, 3 to a string), and text that is not a literal is a string. */
void call_value_add_typed(struct buf *out, const struct family *f, const char *text, size_t n,
                          unsigned types);

struct call_value_scan {         /* finds the end of a PYTHON or QUOTED value; zero at first */
    const struct family *family; /* the family of QUOTED; NULL: Python */
    size_t at;                   /* bytes of the value that were looked at */
    unsigned depth;              /* open brackets */
    char quote;                  /* quote of the open string, 0: none; 1: the family's */
};

/* Continues in text[0..n), whose beginning the last call has seen. True: the value ends before
 * text[s->at], which is a comma, or a bracket that closes the construct around the value. */
bool call_value_ends(struct call_value_scan *s, const char *text, size_t n);

#endif
