/* server/api/params/params_impl.h - what the files of params.c share: a function for each field.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_PARAMS_PARAMS_IMPL_H
#define SERVER_API_PARAMS_PARAMS_IMPL_H

#include "server/api/params/field.h"
#include "server/api/params/params.h"

struct field_args { /* what a parse function gets */
    const cJSON *v; /* never NULL, never a JSON null */
    const char *name;
    struct params *p;
    const struct params_limits *limits;
    struct api_error *e;
};

/* Each takes the field into *a->p. 0, or a negative ERR_* with *a->e filled. */
#define FIELD(name, forms, row) int params_parse_##row(const struct field_args *a);
#define NO_EFFECT(name, forms, why)
#define REFUSED(name, forms, harmless, why)
#define BOOL_FIELD(name, forms, row, member)
#define UINT_FIELD(name, forms, row, min, max, member)
#define FLOAT_FIELD(name, forms, row, min, max, member)
#define ABOVE_ZERO_FIELD(name, forms, row, max, member)
#include "server/api/params/params_fields.inc"

/* Is it the name of an adapter? Then it is the body's. */
bool params_take_adapter(const struct field_args *a, const char *name);

/* The entry of a token, a new one if need be; NULL when there are too many. */
struct logit_bias *params_bias_slot(struct params *p, int32_t id);

/* What llama-server takes for the knobs of XTC, mirostat and DRY, and its order of samplers. */
void params_set_sampling_defaults(struct params *p);
/* A name among the members that the server itself gives a meaning, or NULL: a template's variable
 * cannot have it. */
const char *params_taken_kwarg(const cJSON *object);
void params_set_sampler_defaults(struct params *p);
/* How many of the last tokens penalties look at; below 0: all, 0: there are no penalties. */
void params_set_window(struct params *p, double last_n);
/* Of a body that says nothing: the wire format's own, and before these what `d` (or NULL) says. */
void sampling_defaults_apply(const struct sampling_defaults *d, struct params *p);
/* Knobs of what is not on do nothing. */
void params_settle_sampling(struct params *p);
/* The chain of the stages that are on, where the sampler's own order is not the one that is
 * wanted. */
int params_settle_samplers(struct params *p, struct api_error *e);

/* What a body of Ollama's asks for that says nothing; of others nothing changes. */
void params_set_ollama_defaults(struct params *p);
/* The members of an object as the fields of a form. */
int params_take_fields(struct params *p, enum params_form form, const cJSON *object,
                       const struct params_limits *limits, struct api_error *e);

/* A 400 that names the field: "'top_k' must be …"; `format` is what follows the name. */
int params_refuse(const struct field_args *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What the wire formats of chats share; they return as a parse function does. The text or the call
 * goes to the last message. */
int params_add_message(const struct field_args *a, const char *role);
int params_add_text(const struct field_args *a, const char *text);
int params_add_call(const struct field_args *a, const struct tool_call *call);
/* p: where the tool's name and parameters stand. */
int params_add_tool(const struct field_args *a, const struct field_path *p,
                    const struct tool *tool);
/* OpenAI's custom tool of the object v, with `name`, `description` and `format`; space: the
 * namespace that it stands in, NULL: none. Then, a call of such a tool by an earlier answer: v has
 * its text, and *call what else is known of it. */
int params_add_custom(const struct field_args *a, const struct field_path *p, const cJSON *v,
                      const char *space);
int params_add_custom_call(const struct field_args *a, const struct field_path *p, const cJSON *v,
                           struct tool_call *call);
/* The name that the model sees: "SPACE.NAME", or the name alone where space is NULL. NULL: there
 * was no memory, and *a->e says so. */
const char *params_name_within(const struct field_args *a, const char *space, const char *name);
/* What a namespace says of its tools goes before what this one of them says of itself. */
int params_introduce_tool(const struct field_args *a, struct tool *tool, const char *intro);
/* OpenAI's Responses: a tool of whatever type. Then, the tool tool_search; those that the item
 * brings in `tools`; to the last message, the names of the tools from the first-th on. */
int params_take_flat_tool(const struct field_args *a, const struct field_path *p, const cJSON *v);
int params_take_search(const struct field_args *a, const struct field_path *p, const cJSON *v);
int params_take_more_tools(const struct field_args *a, const struct field_path *p,
                           const cJSON *item);
int params_tell_found(const struct field_args *a, uint32_t first);
/* Tools that are still deferred are named by the search, and dropped. */
int params_settle_search(struct params *p, struct api_error *e);
/* Anthropic's: a block of a turn of `role`. The blocks of a turn go into one message, but that a
 * tool_result is one of its own: *is_open says whether the last message is the one that the block
 * goes into. Then, a string or blocks of a message of the system, to the last message; a tool. */
int params_take_block(const struct field_args *a, const struct field_path *p, const char *role,
                      const cJSON *block, bool *is_open);
int params_take_system(const struct field_args *a, const struct field_path *p, const char *member,
                       const cJSON *v);
int params_take_custom_tool(const struct field_args *a, const struct field_path *p, const cJSON *v);
/* The fields of Anthropic's bodies against each other. */
int params_settle_anthropic(struct params *p, struct api_error *e);
/* Take each item of the list a->v; of `tools`, which must be a list. */
int params_take_each(const struct field_args *a,
                     int (*take)(const struct field_args *a, const struct field_path *p,
                                 const cJSON *item));
int params_take_tools(const struct field_args *a,
                      int (*take)(const struct field_args *a, const struct field_path *p,
                                  const cJSON *tool));
/* How many alternatives are wanted; vLLM's -1, all, is refused with the reason. */
int params_top_count(const struct field_args *a, uint32_t *n);

/* tool_choice: a function's name, which stands in `field`; auto, none or required; either, as
 * OpenAI has it, or allowed_tools. Names stand in the object `function`, or, flat, beside the
 * type. */
int params_choose_tool(const struct field_args *a, const char *field, const char *name);
int params_choose_tool_by_word(const struct field_args *a, const char *word);
int params_choose_either(const struct field_args *a, const char *field, bool is_flat);
int params_set_effort(const struct field_args *a, const char *field, const char *effort);

int params_set_format(const struct field_args *a, const char *field, const cJSON *format);
/* Constrain to what a grammar, a schema or the like in `value` says; one such field at most. */
int params_constrain(const struct field_args *a, const char *field, enum constraint_kind kind,
                     const cJSON *value);

/* All fields are known: a lazy grammar gets its triggers. */
int params_settle_lazy(struct params *p, struct api_error *e);

/* Of queries and documents: which is not there, NULL: none; then, how many prompts they are. */
const char *params_missing_pair(const struct params *p);
int params_settle_pairs(struct params *p, const struct params_limits *limits, struct api_error *e);

/* The fields of a chat against each other. */
int params_check_chat(const struct params *p, struct api_error *e);
/* Tools and tool_choice are known to fit: where a call is insisted on, constrain to it. */
int params_force_call(struct params *p, struct api_error *e);

#endif
