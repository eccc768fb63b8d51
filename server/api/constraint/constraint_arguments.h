/* server/api/constraint/constraint_arguments.h - the arguments of a tool call that stand one by
 * one, as a piece of a grammar; see constraint_calls.h.
 *
 * Thread: any. Memory, errors: the builder's.
 */
#ifndef SERVER_API_CONSTRAINT_CONSTRAINT_ARGUMENTS_H
#define SERVER_API_CONSTRAINT_CONSTRAINT_ARGUMENTS_H

#include "core/grammar/builder.h"
#include "core/grammar/json_schema.h"
#include "core/json/json.h"

struct call_pattern;
struct family;
struct token_trie;

#define CALLS_MAX_SHARED 32

struct calls_shared { /* rules that many calls and arguments share */
    bool has_blanks;
    uint32_t blanks;
    uint32_t n;
    struct {
        char *key; /* schema of a string, and texts that its reader takes for another value */
        uint32_t rule;
    } strings[CALLS_MAX_SHARED];
};

struct calls_tool { /* the tool whose call is written */
    struct grammar_builder *b;
    struct calls_shared *shared;
    const struct family *family;
    const struct token_trie *trie; /* for the vocabulary's control tokens; NULL: none */
    const char *name;              /* name of the function */
    const cJSON *parameters;       /* schema of the arguments */
    bool is_terse;                 /* at most one blank between the parts of a call */
    bool is_lazy;                  /* the text before the call is not constrained */
    bool is_argument;              /* an argument is written; the next two are set */
    const struct schema_key *key;
    unsigned read_types; /* types that the parser may take its value for (call_value.h) */
};

/* Returns the first keyword of a schema that cannot be enforced on single arguments, or NULL. Other
 * such keywords are found when the piece is made. */
const char *calls_arguments_unsupported(const cJSON *parameters);

/* Writes all arguments, in the order of the schema's properties; if the schema refers to several,
 * in the order of each. */
struct grammar_piece calls_arguments_piece(const struct calls_tool *t);

/* ---- constraint_calls.c ---- */

/* Writes items from..to-1 of a pattern. An optional item at its beginning may be missing. */
struct grammar_piece calls_pattern_piece(const struct calls_tool *t, const struct call_pattern *p,
                                         uint32_t from, uint32_t to);
/* Writes a text of the family, in which names of control tokens are these tokens. */
struct grammar_piece calls_text_piece(const struct calls_tool *t, const char *text);
/* Writes white space, or none. */
struct grammar_piece calls_blanks(const struct calls_tool *t);

#endif
