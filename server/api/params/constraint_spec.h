/* server/api/params/constraint_spec.h - the constraint that a request puts on its text.
 *
 * Thread: any.
 * Memory: borrows from the JSON tree of the body.
 */
#ifndef SERVER_API_PARAMS_CONSTRAINT_SPEC_H
#define SERVER_API_PARAMS_CONSTRAINT_SPEC_H

#include <stdint.h>

#include "core/json/json.h"

enum constraint_kind {
    CONSTRAINT_NONE = 0,
    CONSTRAINT_GRAMMAR, /* a string: GBNF */
    CONSTRAINT_REGEX,   /* a string */
    CONSTRAINT_CHOICE,  /* a list of strings */
    CONSTRAINT_SCHEMA,  /* a JSON Schema, or a string that holds one */
    CONSTRAINT_JSON,    /* any JSON object; no value */
    CONSTRAINT_CALLS,   /* tool calls; see constraint_calls.h */
};

enum constraint_trigger { /* llama-server's numbers */
    CONSTRAINT_TRIGGER_TOKEN = 0, /* the id `token` */
    CONSTRAINT_TRIGGER_WORD,
    CONSTRAINT_TRIGGER_PATTERN,
    CONSTRAINT_TRIGGER_WHOLE_PATTERN, /* matched against the whole text so far */
    CONSTRAINT_TRIGGER_COUNT,
};

#define CONSTRAINT_MAX_TRIGGERS 64

struct constraint_spec {
    enum constraint_kind kind;
    const char *field;  /* static: the name of the body's field */
    const cJSON *value; /* borrowed from the body */
    const cJSON *triggers; /* of a lazy grammar: checked objects with a `type` (enum
                            * constraint_trigger) and a `value` or a `token`; borrowed; NULL: the
                            * constraint holds from the first token */
    uint64_t owner;     /* number of the tenant. Tenants share no compiled constraint: the time of a
                         * cache hit would tell one what another asks for */
};

#endif
