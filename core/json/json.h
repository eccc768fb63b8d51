/* core/json/json.h - JSON of requests and files: a checked parse, and writing into a buffer.
 *
 * cJSON builds the tree. Texts that it would accept wrongly or fail on are refused before: bytes
 * that are not UTF-8, numbers that JSON does not have, nesting, an absurd number of values (each
 * costs a node), and \u0000, which would end a C string early. Answers are written directly into a
 * struct buf, so that their keys have a fixed order.
 *
 * Thread: any. cJSON keeps the position of its last error in two static words that are never read
 *         here; parsing on several threads is otherwise free of shared state.
 * Memory: the tree is the caller's, freed by cJSON_Delete(). From before main() on cJSON allocates
 *         through core/base/mem.h, and texts that it prints are freed by cJSON_free().
 */
#ifndef CORE_JSON_JSON_H
#define CORE_JSON_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/buf.h"

#define JSON_MAX_DEPTH 200         /* schemas of tools nest; no other field does beyond 4 */
#define JSON_MAX_VALUES (1u << 20) /* a token-id prompt has one value a token */

/* Parse exactly one value that fills text[0..n). 0; ERR_INVAL, ERR_LIMIT or ERR_NOMEM with a
 * sentence (static) in *why and *out = NULL. Names are unique in the tree (json_names.h), so that a
 * caller that walks the members sees the same value that was checked by name. Numbers keep their
 * text (json_number.h). */
int json_parse(const char *text, size_t n, cJSON **out, const char **why);
/* Parse a file's value: `max_values` is the limit in place of JSON_MAX_VALUES, repeated members
 * stay in the tree, and numbers are doubles without their text. Errors as above. */
int json_parse_up_to(const char *text, size_t n, size_t max_values, cJSON **out, const char **why);

/* Find the text of an object's last member `key`, or of a list's element i; *value points into
 * text. False: there is none. The text must have been parsed before: in invalid text the result may
 * be anything. */
bool json_member_text(const char *text, size_t n, const char *key, const char **value, size_t *len);
bool json_element_text(const char *text, size_t n, size_t i, const char **value, size_t *len);

/* json_is_incomplete() is true if cJSON failed to allocate on this thread since json_watch(). A
 * caller that builds a tree by many calls asks once, at the end: after a failure cJSON's functions
 * ignore the NULL that they get. json_parse() watches as well. */
void json_watch(void);
bool json_is_incomplete(void);

/* Put a new item into an object under a name (a copy), or at the end of a list (name NULL). The
 * item is taken in any case; item NULL means that its creation failed. Returns the item, or NULL:
 * out of memory. */
cJSON *json_put(cJSON *to, const char *name, cJSON *item /* takes */);
/* Put an item that borrows the contents of `of`. (cJSON's own function loses the item when there is
 * no memory for the name.) */
cJSON *json_put_reference(cJSON *to, const char *name, const cJSON *of);

/* True: the string literal s[0..n), with its quotes, stands for `text`. */
bool json_text_is(const char *s, size_t n, const char *text);

bool json_is_utf8(const char *text, size_t n);

/* Return the number of code points in text[0..n), which is UTF-8. */
size_t json_n_chars(const char *text, size_t n);

/* Add "text" with quotes and all escapes that JSON needs; the text is UTF-8. */
void json_add_string(struct buf *b, const char *text, size_t n);
void json_add_cstring(struct buf *b, const char *text);

/* Add the value as JSON without blanks, with numbers as they were written. (cJSON_Print() only has
 * their doubles.) 0 or the buffer's error; the text is freed by mem_free(), NULL: no memory. */
int json_add_value(struct buf *b, const cJSON *v);
char *json_value_text(const cJSON *v);

/* Add the shortest decimal that reads back as the same float; infinities become +-9999, since JSON
 * has none. */
void json_add_float(struct buf *b, float value);

#endif
