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

#include "core/base/buf.h"
#include "core/base/json.h"
#include "core/base/name_list.h"
#include "scheduler/request.h"
#include "server/adapters/adapter_set.h"
#include "server/api/params/constraint_spec.h"
#include "server/api/params/context_edits.h"
#include "server/api/params/conversation.h"
#include "server/api/params/infill_spec.h"
#include "server/api/params/stop.h"
#include "server/http/error.h"

#define PARAMS_MAX_CHOICES 128 /* prompts x n of one HTTP request */
#define PARAMS_MAX_TEXTS 2048 /* that one HTTP request has embedded, ranked or scored */
#define PARAMS_MAX_LOGPROBS SAMPLING_MAX_TOP
#define PARAMS_MAX_TRIGGER 1024 /* bytes */
#define PARAMS_MAX_PRESERVED 64
#define PARAMS_MAX_BREAKERS 16
#define PARAMS_MAX_BREAKER 40 /* bytes */
#define PARAMS_MAX_SALT 256 /* bytes */
#define PARAMS_MAX_PREDICTION ((size_t)64 << 20) /* bytes; the longest body has fewer */
#define PARAMS_MAX_CALLS 16 /* of tools in one constrained text */
#define PARAMS_SEARCH_TOOL "tool_search" /* what the model calls to have tools found */
#define PARAMS_MAX_TOOL_NAME 128
#define PARAMS_MAX_RESPONSE_ID 127 /* bytes */
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
    PARAMS_OLLAMA_GENERATE = 1u << 8,    /* Ollama's: a system message and a prompt, */
    PARAMS_OLLAMA_CHAT = 1u << 9,        /* messages, */
    PARAMS_OLLAMA_RAW = 1u << 10,        /* a prompt that is no message, or that has a suffix, */
    PARAMS_OLLAMA_EMBED = 1u << 11,      /* texts for vectors, */
    PARAMS_OLLAMA_EMBEDDINGS = 1u << 12, /* the older shape of that, */
    PARAMS_OLLAMA_OPTIONS = 1u << 13,    /* and the object `options` in all of them */
    PARAMS_RERANK = 1u << 14,   /* Jina's and Cohere's */
    PARAMS_SCORE = 1u << 15,    /* vLLM's, as the next two */
    PARAMS_CLASSIFY = 1u << 16,
    PARAMS_POOL = 1u << 17,
    PARAMS_PAIRS = PARAMS_RERANK | PARAMS_SCORE,
    PARAMS_NUMBERS = PARAMS_EMBED | PARAMS_POOL,
    PARAMS_INPUTS = PARAMS_NUMBERS | PARAMS_CLASSIFY,
    PARAMS_ANTHROPIC = PARAMS_MESSAGES | PARAMS_COUNT,
    PARAMS_CHATS = PARAMS_CHAT | PARAMS_ANTHROPIC | PARAMS_RESPONSES,
    PARAMS_OPENAI = PARAMS_TEXT | PARAMS_CHATS,
    PARAMS_LLAMA = PARAMS_NATIVE | PARAMS_INFILL,
    PARAMS_COMPLETIONS = PARAMS_TEXT | PARAMS_CHAT | PARAMS_LLAMA,
    PARAMS_SAVED = PARAMS_COMPLETIONS | PARAMS_MESSAGES | PARAMS_RESPONSES, /* by requests_db */
    PARAMS_ALL = PARAMS_OPENAI | PARAMS_LLAMA,
    PARAMS_OLLAMA_TURNS = PARAMS_OLLAMA_GENERATE | PARAMS_OLLAMA_CHAT,
    PARAMS_OLLAMA_TEXTS = PARAMS_OLLAMA_TURNS | PARAMS_OLLAMA_RAW,
    PARAMS_OLLAMA_VECTORS = PARAMS_OLLAMA_EMBED | PARAMS_OLLAMA_EMBEDDINGS,
    PARAMS_OLLAMA = PARAMS_OLLAMA_TEXTS | PARAMS_OLLAMA_VECTORS,
    PARAMS_TURNS = PARAMS_CHATS | PARAMS_OLLAMA_TURNS,    /* a conversation, for the template */
    PARAMS_VECTORS = PARAMS_EMBED | PARAMS_OLLAMA_VECTORS, /* texts to embed */
    PARAMS_LLAMA_ORDER = PARAMS_LLAMA | PARAMS_OLLAMA_TEXTS, /* samplers run as llama-server's */
    PARAMS_POOLED = PARAMS_PAIRS | PARAMS_INPUTS | PARAMS_OLLAMA_VECTORS, /* no tokens come */
    PARAMS_NAMED = PARAMS_TEXT | PARAMS_CHAT | PARAMS_PAIRS | PARAMS_INPUTS, /* have request_id */
    PARAMS_EVERY = PARAMS_ALL | PARAMS_OLLAMA | PARAMS_POOLED,
};

enum pooling_task { TASK_UNSET = 0, TASK_EMBED, TASK_CLASSIFY, TASK_TOKEN_EMBED };

enum number_type { NUMBER_FLOAT32 = 0, NUMBER_FLOAT16, NUMBER_BFLOAT16 };

enum thinking { THINKING_UNSET = 0, THINKING_OFF, THINKING_ON };

enum tool_choice {
    TOOL_CHOICE_AUTO = 0,
    TOOL_CHOICE_NONE,
    TOOL_CHOICE_REQUIRED, /* some call */
    TOOL_CHOICE_NAMED,    /* a call of tool_name */
};

enum reasoning_format { /* where a chat's thoughts go */
    REASONING_APART = 0, /* into a member of their own */
    REASONING_INLINE,    /* into the content, between the marks of the template's style */
    REASONING_LEGACY,    /* INLINE in streams, else APART */
    REASONING_HIDDEN,    /* nowhere */
};

#define PARAMS_MAX_ANSWER_ID 47

struct resume_spec { /* an answer that is gone on with */
    bool is_on;
    int32_t *tokens; /* [n] of it, owned */
    uint32_t n;
    char id[PARAMS_MAX_ANSWER_ID + 1]; /* "": it gets a new one */
    int64_t created;                   /* Unix seconds, 0: now */
    /* Of a request that an earlier process had begun: tokens behind the first n_past, which are
     * those of the body, where has_past, are to be told again. */
    bool is_restored, has_past;
    uint32_t n_past;
    uint32_t finish; /* enum finish of the answer, if these are all of its tokens; or FINISH_NONE */
};

struct params {
    enum params_form form;
    bool stream, include_usage, echo, ignore_eos, return_token_ids, timings;
    bool continuous_usage;  /* every frame has the usage so far */
    bool timings_per_token; /* every frame of a stream has llama-server's timings */
    bool return_progress;   /* frames say how much of the prompt is computed */
    bool includes_stop;     /* the stop string that was found ends the text */
    bool shows_special;     /* special tokens are text */
    bool tokens_as_ids;     /* in log-probabilities: "token_id:5" */
    bool has_seed, has_priority;
    bool resumable, has_resumable; /* a stream that is kept (server/streams); the body says so */
    bool resume_tokens;            /* it says what `resume` takes */
    struct resume_spec resume;
    bool receipt;                  /* what it was computed from is wanted too */
    bool without_drafts;           /* no tokens are guessed ahead */
    struct buf prediction;         /* a guess at the answer; owned; empty: none */
    uint32_t n_prompts, n;
    uint32_t n_each; /* generated for each prompt, of which the best n are given: best_of, or n;
                      * n_prompts * n_each <= PARAMS_MAX_CHOICES */
    uint32_t max_tokens, min_tokens;
    uint32_t default_max_tokens; /* cut to what there is room for, and not refused */
    uint32_t deadline_ms;  /* 0 = none */
    uint32_t ttft_ms;      /* until the first token, as a gateway wants it; 0 = none */
    uint32_t max_queue_ms; /* 0 = what the settings say */
    enum priority priority;
    struct adapter_choice adapter; /* that the body names, by its name as a model or in `lora` */
    bool is_adapter_model;
    /* Another name that the body calls the model by, which the answer then has; "": its own. */
    char asked_model[NAME_LIST_MAX_BARE];
    bool has_lora;         /* then no other adapter is meant than that one, or none */
    struct sampling sampling; /* n_top -1 = no logprobs; bias and seed as below */
    uint32_t n_samplers;      /* the order of the stages; of them those that are on are a chain */
    uint8_t samplers[SAMPLING_MAX_CHAIN]; /* enum sampling_stage */
    bool has_samplers, has_penalties_last, uses_penalties, uses_dry;
    bool has_no_window;       /* repeat_last_n 0: no penalties */
    uint32_t *allowed;        /* [n_allowed] bits of allowed_token_ids; owned */
    uint32_t n_allowed;
    int32_t *top_ids;         /* as struct sampling has them; owned */
    int32_t *bad_words;       /* as struct sampling has them; owned */
    uint32_t n_bad_words;     /* numbers in it, with the 0 at the end */
    struct logit_bias bias[SAMPLING_MAX_BIAS];
    bool has_mirostat;
    uint32_t n_breakers; /* texts that DRY does not look across */
    char breakers[PARAMS_MAX_BREAKERS][PARAMS_MAX_BREAKER + 1];
    uint32_t n_stop_ids;
    int32_t stop_ids[REQUEST_MAX_STOP_IDS];
    struct stop_list stop;
    char cache_salt[PARAMS_MAX_SALT + 1]; /* "" = none */
    struct constraint_spec constraint;    /* NONE where there is none; its value is the tree's */
    uint32_t slot;             /* of the first choice: a name for its text (server/slots) */
    bool is_lazy;              /* it begins at one of the triggers */
    const cJSON *triggers;     /* as struct constraint_spec has them; NULL: none */
    uint32_t n_preserved;      /* control tokens that are text in the answer */
    int32_t preserved[PARAMS_MAX_PRESERVED];
    uint32_t n_indent;         /* the text ends before a line that is indented by less; 0 = off */
    uint32_t t_max_predict_ms; /* after a first line it ends when so long generated; 0 = off */
    cJSON *response_fields;    /* the members of the answer that are wanted; owned; NULL: all */
    bool has_add_special, add_special; /* tokens that begin and end a text */
    uint32_t max_prompt;  /* longer prompts are cut to so many tokens; UINT32_MAX: to those that
                           * fit; 0 = none is cut */
    bool cuts_end;        /* and lose their end, not their beginning */
    int32_t n_keep;       /* of a context that is shifted: the first tokens, which stay; -1: the
                           * prompt */
    uint32_t n_discard;   /* those behind them, which go; 0: half of the rest */
    bool ends_with_context; /* it is not to be shifted */
    uint32_t max_context; /* tokens of prompt and answer; 0 = as many as there is room for */
    bool drops_messages;  /* the oldest ones go where a conversation is too long */
    bool cuts_middle;     /* OLLAMA: of a prompt that is still too long its middle goes */
    const cJSON *context; /* OLLAMA_GENERATE: ids that come before the conversation, or NULL */
    uint32_t n_unknown;  /* fields that are not known */
    const cJSON *prompt; /* INPUTS: string, [string], [int] or [[int]]; TEXT, NATIVE: the same,
                          * strings beside ids, and {"prompt_string":…}; INFILL: a string or NULL */
    bool is_prompt_list; /* it holds prompts, and is not one */
    bool has_content;    /* EMBED: the prompt is in llama-server's field */
    struct infill_spec infill;
    int32_t prompt_logprobs; /* alternatives of the prompt's tokens; -1 = none is scored */
    /* PAIRS: a text, an object with the string `text`, or a list of these */
    const cJSON *queries, *documents;
    uint32_t n_queries, n_documents;
    uint32_t top_n;      /* 0 = all */
    uint32_t max_query_tokens, max_document_tokens; /* what is longer is cut; 0 = nothing is */
    bool has_return_documents, return_documents;
    bool is_texts;       /* RERANK: the body has the shape of text-embeddings-inference */
    enum pooling_task task; /* POOL */
    bool has_normalize;  /* embd_normalize was told */
    bool without_activation; /* scores of a classifier as its last layer gives them */
    uint32_t dimensions; /* VECTORS: 0 = all */
    char request_id[PARAMS_MAX_ANSWER_ID + 1]; /* what the answer's id ends with; "": anything */
    bool return_token_offsets; /* of a prompt that is only rendered */
    bool echoes_message; /* CHAT: the last message stands before what follows it */
    bool as_base64;
    enum number_type number_type; /* of its bytes */
    bool big_endian;
    int32_t embd_normalize; /* p of the norm that vectors have, 2 unless told; 0: the largest number
                             * is 32760; -1: as the model gives them */
    /* TURNS */
    struct conversation chat;     /* checked; at least one message */
    bool has_messages;            /* `messages` or `input` was there */
    const cJSON *template_kwargs; /* NULL or an object */
    const char *reasoning_effort; /* static; NULL: not given */
    enum thinking thinking;       /* Anthropic's switch */
    const cJSON *default_kwargs;    /* the settings', as template_kwargs */
    enum thinking default_thinking; /* theirs, where the request does not say */
    struct context_edits edits;   /* what is done to the conversation before the model reads it */
    uint32_t thinking_budget;     /* tokens of a thought, or THOUGHT_NO_LIMIT */
    bool reasoning_control;       /* may its client end a thought while it runs? */
    const char *budget_message;   /* what ends a thought then; NULL or "": nothing. The body's tree
                                   * or the settings have it */
    enum reasoning_format reasoning_format;
    bool has_functions;           /* OpenAI's older shape of tools, and of calls in the answer */
    enum tool_choice tool_choice;
    char tool_name[PARAMS_MAX_TOOL_NAME + 1];
    cJSON *forced_schema; /* what the constraint of tool calls borrows; owned */
    bool forces_own_form; /* calls that are insisted on are written as the model's family does */
    bool parallel_tool_calls, add_generation_prompt, continue_final_message;
    /* RESPONSES */
    bool store, background;
    char previous_id[PARAMS_MAX_RESPONSE_ID + 1]; /* or "" */
};

struct kept_items;
struct request_defaults;
struct sampling_defaults;

struct params_limits {
    uint32_t n_embd;
    const char *model;   /* the served name */
    const char *aliases; /* others that it answers to; NULL: none */
    const struct adapter_set *adapters; /* the model's; NULL: none */
    const struct tokenizer *tokenizer;
    const struct sampling_defaults *defaults; /* the model's; NULL: none */
    const struct request_defaults *request_defaults; /* the settings'; NULL: none */
    bool can_infill;
    bool shifts_context; /* where a request does not say otherwise */
    bool keeps;        /* responses are kept */
    bool keeps_streams, resumable; /* streams are; those of bodies that say nothing as well */
    bool resume_tokens; /* where it is a stream */
    const struct kept_items *kept; /* what of them the body goes on from; NULL: nothing */
    bool is_cross;       /* it reads query and document together */
    int32_t n_vocab;
    struct budget *budget; /* borrowed; NULL: no limit */
};

/* What a body without any fields would ask for; `defaults` as in struct params_limits. */
void params_set_defaults(struct params *p, enum params_form form,
                         const struct sampling_defaults *defaults);

/* Is the prompt a conversation? That of an embedding may be one. */
bool params_has_turns(const struct params *p);

/* Of an object. 0, or a negative ERR_* with *e filled. params_release() in both cases. */
int params_parse(struct params *p, enum params_form form, const cJSON *body,
                 const struct params_limits *limits, struct api_error *e);
void params_release(struct params *p);

/* {"id","scale"} of a list of adapters, of which one at most has a scale that is not 0: that one
 * becomes *to, whose name is "" before. 0, or a negative ERR_* with the path's error filled. */
struct field_path;
int params_take_adapter_item(const struct adapter_set *set, const struct field_path *p,
                             const cJSON *item, struct adapter_choice *to);

/* A copy of the schema of a tool's arguments, which it holds to be an object. NULL: no memory. */
cJSON *params_tool_schema(const struct tool *tool);
/* Is the constraint a format (response_format and its like) of an answer that is no call? */
bool params_has_answer_format(const struct params *p);

/* Does an item of Responses' input stand for one that was kept? */
bool params_is_reference(const cJSON *item);

/* Is it a name of the model: its own, an alias, or either with Ollama's tag ":latest"? */
bool params_is_model(const char *own, const char *aliases, const char *name);

/* The i-th prompt of all but PARAMS_TURNS and PAIRS: a string, an array of ids (and strings) within
 * the vocabulary, or an object with the string prompt_string. */
const cJSON *params_prompt(const struct params *p, uint32_t i);

/* PAIRS: the text of query or document i; i below n_queries, n_documents. */
const cJSON *params_query(const struct params *p, uint32_t i);
const cJSON *params_document(const struct params *p, uint32_t i);

#endif
