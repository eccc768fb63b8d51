/* server/api/chat/call_tags.h - an argument's value whose objects and lists are tags within tags.
 *
 * <KEY>…</KEY> is a member of an object, <item>…</item> an item of a list, and text without tags is
 * a raw value of the types that the function's schema has for it (call_value.h). Tags make a list
 * if the schema allows one and all tags are items. Text whose tags do not match is a string.
 *
 * Thread: any.
 * Memory: none but the output.
 */
#ifndef SERVER_API_CHAT_CALL_TAGS_H
#define SERVER_API_CHAT_CALL_TAGS_H

#include <stddef.h>

#include "core/base/buf.h"

struct call_pattern;
struct call_tools;

struct call_tags {
    const struct call_pattern *pattern; /* the argument's pattern, which has TAGS */
    const struct call_tools *tools;     /* may be NULL */
    const char *function;
};

/* Appends the value text[0..n) of the argument key[0..n_key), which has these types. */
void call_tags_add(struct buf *out, const struct call_tags *tags, const char *key, size_t n_key,
                   const char *text, size_t n, unsigned types);

#endif
