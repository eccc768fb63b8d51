/* server/api/params/params_impl.h - what the files of params.c share: a function for each field.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_PARAMS_PARAMS_IMPL_H
#define SERVER_API_PARAMS_PARAMS_IMPL_H

#include "server/api/params/params.h"

struct field_args { /* what a parse function gets */
    const cJSON *v; /* never NULL, never a JSON null */
    const char *name;
    struct params *p;
    const struct params_limits *limits;
    struct api_error *e;
};

/* Each takes the field into *a->p. 0, or a negative ERR_* with *a->e filled. */
#define FIELD(name, forms, parse) int params_parse_##parse(const struct field_args *a);
#include "server/api/params/params_fields.inc"
#undef FIELD

/* The entry of a token, a new one if need be; NULL when there are too many. */
struct logit_bias *params_bias_slot(struct params *p, int32_t id);

/* What llama-server takes for the knobs of XTC, mirostat and DRY. */
void params_set_sampling_defaults(struct params *p);
/* Knobs of what is not on do nothing. */
void params_settle_sampling(struct params *p);

/* The fields of a chat against each other. */
int params_check_chat(const struct params *p, struct api_error *e);
/* Tools and tool_choice are known to fit: where a call is insisted on, constrain to it. */
int params_force_call(struct params *p, struct api_error *e);

#endif
