/* server/api/chat/call_tools.h - what a reader of tool calls knows of the functions that a client
 * has offered: their names, and the types of their arguments.
 *
 * Made of the request's body, which is gone when the answer comes.
 *
 * Thread: read-only once made.
 * Memory: one block in proportion to the names of functions and properties.
 */
#ifndef SERVER_API_CHAT_CALL_TOOLS_H
#define SERVER_API_CHAT_CALL_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALL_TOOLS_MAX_KEYS 4096 /* of all functions; types of more are not known */

struct call_tools;
struct conversation;

/* *out NULL: no tools were offered. ERR_NOMEM. */
int call_tools_create(struct call_tools **out, const struct conversation *chat);
void call_tools_destroy(struct call_tools **tools);
size_t call_tools_bytes(const struct call_tools *tools); /* NULL: 0 */

/* Was a function of that name offered? NULL: nobody knows, so any may be. */
bool call_tools_have(const struct call_tools *tools, const char *name, size_t n);

struct call_traits {  /* how a call of a function is told to the client */
    bool is_custom;   /* as a call of a custom tool */
    bool is_search;   /* as a call of the tool that finds tools */
    uint32_t n_space; /* bytes of the name before the dot: the namespace; 0: it is in none */
};

/* The function's; zero where it was not offered. */
struct call_traits call_tools_traits(const struct call_tools *tools, const char *name);

/* The argument_types (call_value.h) that the function's schema allows for key[0..n);
 * ARGUMENT_ANY: it does not say. */
unsigned call_tools_types(const struct call_tools *tools, const char *name, const char *key,
                          size_t n);
/* The same of values within arguments: of all members with that name or, is_item, of the items of
 * lists that have it, wherever they stand. */
unsigned call_tools_inner_types(const struct call_tools *tools, const char *name, const char *key,
                                size_t n, bool is_item);

#endif
