/* server/api/params/params.h - the body of a completion, chat or embedding as a checked struct.
 *
 * A JSON null counts as absent, of duplicate keys the last one holds, unknown fields are counted
 * and ignored, and a known field of the wrong type or range is a 400 that names it. What comes
 * out has proven ranges; only the tokens of the prompts are checked later, when they exist.
 *
 * Thread: any.
 * Memory: prompts and the texts of a chat are borrowed from the JSON tree, which must live as long
 *         as they are used.
 */
#ifndef SERVER_API_PARAMS_PARAMS_H
#define SERVER_API_PARAMS_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/json.h"
#include "scheduler/request.h"
#include "server/api/params/constraint_spec.h"
#include "server/api/params/conversation.h"
#include "server/api/params/infill_spec.h"
#include "server/api/params/stop.h"
#include "server/http/error.h"

#define PARAMS_MAX_CHOICES 128 /* prompts x n of one HTTP request */
#define PARAMS_MAX_LOGPROBS SAMPLING_MAX_TOP
#define PARAMS_MAX_BREAKERS 16
#define PARAMS_MAX_BREAKER 40 /* bytes */
#define PARAMS_MAX_SALT 256 /* bytes */
#define PARAMS_MAX_TOOL_NAME 128
#define PARAMS_NO_LIMIT UINT32_MAX /* max_tokens: as many as there is room for */

enum params_form { /* whose body it is */
    PARAMS_TEXT = 1u << 0,
    PARAMS_CHAT = 1u << 1,
    PARAMS_EMBED = 1u << 2,
    PARAMS_NATIVE = 1u << 3,    /* llama-server's own /completion */
    PARAMS_INFILL = 1u << 4,    /* and /infill */
    PARAMS_MESSAGES = 1u << 5,  /* Anthropic's */
    PARAMS_COUNT = 1u << 6,     /* the same for count_tokens, which needs no max_tokens */
    PARAMS_RESPONSES = 1u << 7, /* OpenAI's */
    PARAMS_ANTHROPIC = PARAMS_MESSAGES | PARAMS_COUNT,
    PARAMS_CHATS = PARAMS_CHAT | PARAMS_ANTHROPIC | PARAMS_RESPONSES,
    PARAMS_OPENAI = PARAMS_TEXT | PARAMS_CHATS,
    PARAMS_LLAMA = PARAMS_NATIVE | PARAMS_INFILL,
    PARAMS_ALL = PARAMS_OPENAI | PARAMS_LLAMA,
    PARAMS_EVERY = PARAMS_ALL | PARAMS_EMBED,
};

enum thinking { THINKING_UNSET = 0, THINKING_OFF, THINKING_ON };

enum tool_choice {
    TOOL_CHOICE_AUTO = 0,
    TOOL_CHOICE_NONE,
    TOOL_CHOICE_REQUIRED, /* some call */
    TOOL_CHOICE_NAMED,    /* a call of tool_name */
};

struct params {
    enum params_form form;
    bool stream, include_usage, echo, ignore_eos, return_token_ids, timings;
    bool has_seed, has_priority;
    uint32_t n_prompts, n;
    uint32_t n_each; /* generated for each prompt, of which the best n are given: best_of, or n;
                      * n_prompts * n_each <= PARAMS_MAX_CHOICES */
    uint32_t max_tokens, min_tokens;
    uint32_t deadline_ms;  /* 0 = none */
    uint32_t max_queue_ms; /* 0 = what the settings say */
    enum priority priority;
    struct sampling sampling; /* n_top -1 = no logprobs; bias and seed as below */
    struct logit_bias bias[SAMPLING_MAX_BIAS];
    bool has_mirostat;
    uint32_t n_breakers; /* texts that DRY does not look across */
    char breakers[PARAMS_MAX_BREAKERS][PARAMS_MAX_BREAKER + 1];
    uint32_t n_stop_ids;
    int32_t stop_ids[REQUEST_MAX_STOP_IDS];
    struct stop_list stop;
    char cache_salt[PARAMS_MAX_SALT + 1]; /* "" = none */
    struct constraint_spec constraint;    /* NONE where there is none; its value is the tree's */
    uint32_t n_unknown;  /* fields that are not known */
    const cJSON *prompt; /* TEXT, EMBED: string, [string], [int] or [[int]]; NATIVE: the same, and
                          * strings beside ids; INFILL: a string or NULL */
    bool is_prompt_list; /* it holds prompts, and is not one */
    struct infill_spec infill;
    int32_t prompt_logprobs; /* alternatives of the prompt's tokens; -1 = none is scored */
    uint32_t dimensions; /* EMBED: 0 = all */
    bool as_base64;
    /* CHATS */
    struct conversation chat;     /* checked; at least one message */
    bool has_messages;            /* `messages` or `input` was there */
    const cJSON *template_kwargs; /* NULL or an object */
    const char *reasoning_effort; /* static; NULL: not given */
    enum thinking thinking;       /* Anthropic's switch */
    enum tool_choice tool_choice;
    char tool_name[PARAMS_MAX_TOOL_NAME + 1];
    cJSON *forced_schema; /* what a call that is insisted on must be; owned */
    bool parallel_tool_calls, add_generation_prompt, continue_final_message;
};

struct params_limits {
    uint32_t n_embd;
    const char *model; /* the served name */
    const struct tokenizer *tokenizer;
    bool can_infill;
    int32_t n_vocab;
    struct budget *budget; /* borrowed; NULL: no limit */
};

/* What a body without any fields would ask for. */
void params_set_defaults(struct params *p, enum params_form form);

/* Of an object. 0, or a negative ERR_* with *e filled. params_release() in both cases. */
int params_parse(struct params *p, enum params_form form, const cJSON *body,
                 const struct params_limits *limits, struct api_error *e);
void params_release(struct params *p);

/* The i-th prompt of all but PARAMS_CHAT: a string or an array of ids (and strings) within the
 * vocabulary. */
const cJSON *params_prompt(const struct params *p, uint32_t i);

#endif
