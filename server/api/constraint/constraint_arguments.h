/* server/api/constraint/constraint_arguments.h - the arguments of a tool call that stand one by
 * one, as a piece of a grammar; see constraint_calls.h.
 *
 * Thread: any. Memory, errors: the builder's.
 */
#ifndef SERVER_API_CONSTRAINT_CONSTRAINT_ARGUMENTS_H
#define SERVER_API_CONSTRAINT_CONSTRAINT_ARGUMENTS_H

#include "core/base/json.h"
#include "core/grammar/builder.h"
#include "core/grammar/json_schema.h"

struct call_pattern;
struct family;
struct token_trie;

#define CALLS_MAX_SHARED 32

struct calls_shared { /* what many calls and arguments have in common, as rules */
    bool has_blanks;
    uint32_t blanks;
    uint32_t n;
    struct {
        char *key; /* the schema of a string, and what its reader takes for another value */
        uint32_t rule;
    } strings[CALLS_MAX_SHARED];
};

struct calls_tool { /* whose call is written */
    struct grammar_builder *b;
    struct calls_shared *shared;
    const struct family *family;
    const struct token_trie *trie; /* of the vocabulary, for its control tokens; NULL: none */
    const char *name;              /* of the function */
    const cJSON *parameters;       /* their schema */
    bool is_terse;                 /* one blank at most between its parts */
    bool is_lazy;                  /* the text before it is not constrained */
    bool is_argument;              /* one of them is written: */
    const struct schema_key *key;
    unsigned read_types; /* that a reader takes its value for (call_value.h) */
};

/* The first keyword of a schema that arguments one by one cannot be held to, or NULL. What else
 * they cannot be held to is found out when the piece is made. */
const char *calls_arguments_unsupported(const cJSON *parameters);

/* All arguments, in the order of the schema's properties; of a schema that is made of several, in
 * the order of each. */
struct grammar_piece calls_arguments_piece(const struct calls_tool *t);

/* ---- constraint_calls.c ---- */

/* Items from..to-1 of a pattern. One that it begins with and that is optional may be missing. */
struct grammar_piece calls_pattern_piece(const struct calls_tool *t, const struct call_pattern *p,
                                         uint32_t from, uint32_t to);
/* A text of the family, in which names of control tokens are these tokens. */
struct grammar_piece calls_text_piece(const struct calls_tool *t, const char *text);
/* White space, or none. */
struct grammar_piece calls_blanks(const struct calls_tool *t);

#endif
