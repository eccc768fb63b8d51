/* server/api/params/params_impl.h - internals of params.c and its params_*.c: a function for each
 * field.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_PARAMS_PARAMS_IMPL_H
#define SERVER_API_PARAMS_PARAMS_IMPL_H

#include "server/api/params/field.h"
#include "server/api/params/params.h"

struct field_args { /* arguments of a parse function */
    const cJSON *v; /* never NULL, never a JSON null */
    const char *name;
    struct params *p;
    const struct params_limits *limits;
    struct api_error *e;
};

/* Each function reads its field into *a->p. 0, or a negative ERR_* with *a->e filled. */
#define FIELD(name, forms, row) int params_parse_##row(const struct field_args *a);
#define ALIAS(name, forms, row, of)
#define NO_EFFECT(name, forms, why)
#define REFUSED(name, forms, harmless, why)
#define BOOL_FIELD(name, forms, row, member)
#define UINT_FIELD(name, forms, row, min, max, member)
#define FLOAT_FIELD(name, forms, row, min, max, member)
#define ABOVE_ZERO_FIELD(name, forms, row, max, member)
#include "server/api/params/params_fields.inc"

/* Make the adapter of that name the body's; false: there is none. */
bool params_take_adapter(const struct field_args *a, const char *name);

/* The entry of a token, a new one if need be; NULL when there are too many. */
struct logit_bias *params_bias_slot(struct params *p, int32_t id);

/* Set llama-server's defaults for the values of XTC, mirostat and DRY. */
void params_set_sampling_defaults(struct params *p);
/* Find a member with a name that the server itself sets for templates, so that no request may;
 * NULL: there is none. */
const char *params_taken_kwarg(const cJSON *object);
/* Set the order of samplers: llama-server's for its forms, else the sampler's own. */
void params_set_sampler_defaults(struct params *p);
/* Set how many of the last tokens penalties look at; below 0: all, 0: there are no penalties. */
void params_set_window(struct params *p, double last_n);
/* Set the sampling of a body that says nothing: what `d` (or NULL) sets, else the wire format's
 * own. */
void sampling_defaults_apply(const struct sampling_defaults *d, struct params *p);
/* Clear the values of samplers that are off. */
void params_settle_sampling(struct params *p);
/* Build the chain of the stages that are on, if the request wants another order than the sampler's
 * own. */
int params_settle_samplers(struct params *p, struct api_error *e);

/* Set Ollama's defaults; bodies of other APIs are unchanged. */
void params_set_ollama_defaults(struct params *p);
/* Read the members of an object as the fields of a form. */
int params_take_fields(struct params *p, enum params_form form, const cJSON *object,
                       const struct params_limits *limits, struct api_error *e);

/* A 400 that names the field: "'top_k' must be …"; `format` is what follows the name. */
int params_refuse(const struct field_args *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Helpers of the chats' wire formats; they return as a parse function does. A text or a call goes
 * to the last message. */
int params_add_message(const struct field_args *a, const char *role);
int params_add_text(const struct field_args *a, const char *text);
int params_add_call(const struct field_args *a, const struct tool_call *call);
/* p: the path of the object that has the tool's name and parameters. */
int params_add_tool(const struct field_args *a, const struct field_path *p,
                    const struct tool *tool);
/* Add OpenAI's custom tool of the object v, with `name`, `description` and `format`; space: the
 * namespace around it, NULL: none. params_add_custom_call() adds an earlier answer's call of such a
 * tool: v has its text, *call the rest. */
int params_add_custom(const struct field_args *a, const struct field_path *p, const cJSON *v,
                      const char *space);
int params_add_custom_call(const struct field_args *a, const struct field_path *p, const cJSON *v,
                           struct tool_call *call);
/* The name that the model sees: "SPACE.NAME", or the name alone where space is NULL. NULL: there
 * was no memory, and *a->e says so. */
const char *params_name_within(const struct field_args *a, const char *space, const char *name);
/* Put the namespace's description before the tool's own. */
int params_introduce_tool(const struct field_args *a, struct tool *tool, const char *intro);
/* OpenAI's Responses: take a tool of any type, the tool tool_search, or the tools in an item's
 * `tools`; params_tell_found() puts the names of the tools from the first-th on into the last
 * message. */
int params_take_flat_tool(const struct field_args *a, const struct field_path *p, const cJSON *v);
int params_take_search(const struct field_args *a, const struct field_path *p, const cJSON *v);
int params_take_more_tools(const struct field_args *a, const struct field_path *p,
                           const cJSON *item);
int params_tell_found(const struct field_args *a, uint32_t first);
/* The description of tool_search names the tools that are still deferred, which are then
 * dropped. */
int params_settle_search(struct params *p, struct api_error *e);
/* Anthropic's: take a block of a turn of `role`. The blocks of a turn go into one message, but each
 * tool_result is a message of its own; *is_open says whether the last message is the turn's.
 * params_take_system() puts a string or blocks of a system message into the last message; the third
 * takes a tool. */
int params_take_block(const struct field_args *a, const struct field_path *p, const char *role,
                      const cJSON *block, bool *is_open);
int params_take_system(const struct field_args *a, const struct field_path *p, const char *member,
                       const cJSON *v);
int params_take_custom_tool(const struct field_args *a, const struct field_path *p, const cJSON *v);
/* Settle the fields of Anthropic's bodies that depend on each other. */
int params_settle_anthropic(struct params *p, struct api_error *e);
/* Take the cache breakpoint that a part, a block or a tool may have, after what the object itself
 * is; params_refuse_breakpoint() refuses one in an object that can have none. _settle: give the
 * breakpoints their ttl, and add the one behind the last part. */
int params_take_breakpoint(const struct field_args *a, const struct field_path *p,
                           const cJSON *object);
int params_take_tool_breakpoint(const struct field_args *a, const struct field_path *p,
                                const cJSON *tool);
int params_refuse_breakpoint(const struct field_args *a, const struct field_path *p,
                             const cJSON *object);
int params_settle_breakpoints(struct params *p, struct api_error *e);
/* Call `take` for each item of the list a->v; params_take_tools() also checks that it is a list. */
int params_take_each(const struct field_args *a,
                     int (*take)(const struct field_args *a, const struct field_path *p,
                                 const cJSON *item));
int params_take_tools(const struct field_args *a,
                      int (*take)(const struct field_args *a, const struct field_path *p,
                                  const cJSON *tool));
/* Read how many alternatives are wanted; vLLM's -1, all, is refused with the reason. */
int params_top_count(const struct field_args *a, uint32_t *n);

/* Set tool_choice: by a function's name, which stands in `field`; by a word (auto, none or
 * required); or by OpenAI's field, which has either of them or allowed_tools. Names stand in the
 * object `function`, or, is_flat, beside the type. */
int params_choose_tool(const struct field_args *a, const char *field, const char *name);
int params_choose_tool_by_word(const struct field_args *a, const char *word);
int params_choose_either(const struct field_args *a, const char *field, bool is_flat);
int params_set_effort(const struct field_args *a, const char *field, const char *effort);

int params_set_format(const struct field_args *a, const char *field, const cJSON *format);
/* Constrain the text to the grammar, schema or the like in `value`; one such field at most. */
int params_constrain(const struct field_args *a, const char *field, enum constraint_kind kind,
                     const cJSON *value);

/* Give a lazy grammar its triggers, when all fields are read. */
int params_settle_lazy(struct params *p, struct api_error *e);

/* params_missing_pair() names the missing one of queries and documents, or gives NULL;
 * params_settle_pairs() counts the prompts that they make. */
const char *params_missing_pair(const struct params *p);
int params_settle_pairs(struct params *p, const struct params_limits *limits, struct api_error *e);

/* Number the prompts of the questions, and set what every decision needs: no thought, one token. */
int params_settle_decisions(struct params *p, struct api_error *e);

/* Check that Cohere's /v2/embed has texts, put the model's prompt of the input type before them,
 * and set how long ones are cut. */
int params_settle_cohere(struct params *p, const struct params_limits *limits, struct api_error *e);

/* Check that /generative_scoring has all that it needs, and count its prompts. */
int params_settle_scoring(struct params *p, struct api_error *e);

/* Check the fields of a chat against each other. */
int params_check_chat(const struct params *p, struct api_error *e);
/* Constrain the answer to a call, if tool_choice forces one; tools and tool_choice were checked. */
int params_force_call(struct params *p, struct api_error *e);

#endif
