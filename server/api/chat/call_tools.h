/* server/api/chat/call_tools.h - the functions that a client has offered: their names, and the
 * types of their arguments.
 *
 * It is copied from the request's body, which is freed before the answer comes.
 *
 * Thread: read-only once made.
 * Memory: one block in proportion to the names of functions and properties.
 */
#ifndef SERVER_API_CHAT_CALL_TOOLS_H
#define SERVER_API_CHAT_CALL_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALL_TOOLS_MAX_KEYS 4096 /* keys of all functions; the types of more are not known */

struct call_tools;
struct conversation;

/* Makes *out, NULL if no tools were offered. ERR_NOMEM. */
int call_tools_create(struct call_tools **out, const struct conversation *chat);
void call_tools_destroy(struct call_tools **tools);
size_t call_tools_bytes(const struct call_tools *tools); /* NULL: 0 */

/* True: a function of that name was offered, or `tools` is NULL (not known). */
bool call_tools_have(const struct call_tools *tools, const char *name, size_t n);

struct call_traits {  /* how the client is told of a call of a function */
    bool is_custom;   /* it is a call of a custom tool */
    bool is_search;   /* it is a call of the tool that finds tools */
    uint32_t n_space; /* bytes of the namespace, before the dot of the name; 0: none */
};

/* The traits of a function; zero if it was not offered. */
struct call_traits call_tools_traits(const struct call_tools *tools, const char *name);

/* The argument_types (call_value.h) that the function's schema allows for key[0..n); ARGUMENT_ANY:
 * no restriction. */
unsigned call_tools_types(const struct call_tools *tools, const char *name, const char *key,
                          size_t n);
/* As call_tools_types(), for values within arguments: of all members with that name or, is_item, of
 * the items of lists with that name, at any depth. */
unsigned call_tools_inner_types(const struct call_tools *tools, const char *name, const char *key,
                                size_t n, bool is_item);

#endif
