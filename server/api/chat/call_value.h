/* server/api/chat/call_value.h - an argument's value, as its family writes it, becomes JSON.
 *
 * Raw text has no types: those that the tool's schema allows say whether 3 is a number or a string,
 * and text that fits none of them stays a string. Where the schema allows strings as well as other
 * types, or says nothing, text that reads as a value of another allowed type is that value. Numbers
 * keep the digits that were written.
 *
 * Thread: any.
 * Memory: none but the output.
 */
#ifndef SERVER_API_CHAT_CALL_VALUE_H
#define SERVER_API_CHAT_CALL_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/buf.h"
#include "core/base/json.h"
#include "server/api/chat/family.h"

/* Flags, or-ed. */
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

/* The types that a schema within `root` allows, through $ref, allOf, anyOf, oneOf, enum and const.
 * ARGUMENT_ANY: it does not say, or is NULL. */
unsigned call_value_schema_types(const cJSON *root, const cJSON *schema);

/* Each property that the schema of a function's parameters names, or a schema that it is made of;
 * its name is property->string. One that several name comes several times. */
typedef void call_value_property(void *ud, const cJSON *root, const cJSON *property);
void call_value_each_property(const cJSON *parameters, call_value_property *take, void *ud);

/* Each schema of a value within an argument, up to a bound: of members of objects by their names,
 * and, is_item, of the items of the list that is so named. */
typedef void call_value_inner(void *ud, const cJSON *root, const char *name, bool is_item,
                              const cJSON *schema);
void call_value_each_inner(const cJSON *parameters, call_value_inner *take, void *ud);

/* The types of the values that an argument of that name may have: by the properties of the name, or
 * without any (NULL: of a name that none has) by additionalProperties and patternProperties,
 * wherever in the schema they stand. ARGUMENT_ANY: nothing says. */
unsigned call_value_key_types(const cJSON *parameters, const char *key);

/* Append the raw text[0..n) as a value of one of the types. */
void call_value_add_text(struct buf *out, const char *text, size_t n, unsigned types);
/* Append a JSON string, and what is inside of one. U+0000, which no body may have that a client
 * sends the call back in, becomes U+FFFD. */
void call_value_add_string(struct buf *out, const char *text, size_t n);
void call_value_add_chars(struct buf *out, const char *text, size_t n);

/* Append a literal of Python, or, with a family, of JSON with its quotes, as JSON: lists, dicts and
 * tuples too. False with nothing appended: it is none. */
bool call_value_add_literal(struct buf *out, const struct family *f, const char *text, size_t n);

/* The same, but a value that is of none of the types becomes one where its text allows: "3" a
 * number, 3 a string; and what is no literal is a string. */
void call_value_add_typed(struct buf *out, const struct family *f, const char *text, size_t n,
                          unsigned types);

struct call_value_scan {         /* where a PYTHON or QUOTED value ends; zero is its beginning */
    const struct family *family; /* of QUOTED; NULL: Python */
    size_t at;                   /* bytes of it that were looked at */
    unsigned depth;              /* of brackets that are open */
    char quote;                  /* of the string that is open, 0: none; of QUOTED any */
};

/* Look at text[0..n), which the last call has seen the beginning of. True: the value ends before
 * text[s->at], which is a comma, or closes what the value stands in. */
bool call_value_ends(struct call_value_scan *s, const char *text, size_t n);

#endif
