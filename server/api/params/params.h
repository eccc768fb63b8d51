/* server/api/params/params.h - the body of a completion, chat or embedding as a checked struct.
 *
 * A JSON null counts as absent, the last of duplicate keys wins, unknown fields are counted and
 * ignored, and a known field of the wrong type or range is a 400 that names it. All values in
 * struct params are in range; only the tokens of the prompts are checked later, when they exist.
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
#include "core/base/name_list.h"
#include "core/json/json.h"
#include "scheduler/request/request.h"
#include "server/adapters/adapter_set.h"
#include "server/api/params/constraint_spec.h"
#include "server/api/params/context_edits.h"
#include "server/api/params/conversation.h"
#include "server/api/params/decision_set.h"
#include "server/api/params/infill_spec.h"
#include "server/api/params/stop.h"
#include "server/http/error.h"

#define PARAMS_MAX_CHOICES 128 /* prompts x n of one HTTP request */
#define PARAMS_MAX_TEXTS 2048 /* texts to embed, rank or score in one request */
#define PARAMS_MAX_LOGPROBS SAMPLING_MAX_TOP
#define PARAMS_MAX_TRIGGER 1024 /* bytes */
#define PARAMS_MAX_PRESERVED 64
#define PARAMS_MAX_BREAKERS 16
#define PARAMS_MAX_BREAKER 40 /* bytes */
#define PARAMS_MAX_SALT 256 /* bytes */
#define PARAMS_MAX_PREDICTION ((size_t)64 << 20) /* bytes; the longest body has fewer */
#define PARAMS_MAX_CALLS 16 /* tool calls in one constrained text */
#define PARAMS_SEARCH_TOOL "tool_search" /* the function with which the model finds tools */
#define PARAMS_MAX_TOOL_NAME 128
#define PARAMS_MAX_RESPONSE_ID 127 /* bytes */
#define PARAMS_NO_LIMIT UINT32_MAX /* max_tokens: as many as there is room for */

enum params_form { /* the wire format of a body */
    PARAMS_TEXT = 1u << 0,
    PARAMS_CHAT = 1u << 1,
    PARAMS_EMBED = 1u << 2,
    PARAMS_NATIVE = 1u << 3,    /* llama-server's own /completion */
    PARAMS_INFILL = 1u << 4,    /* llama-server's /infill */
    PARAMS_MESSAGES = 1u << 5,  /* Anthropic's /v1/messages */
    PARAMS_COUNT = 1u << 6,     /* Anthropic's count_tokens, which needs no max_tokens */
    PARAMS_RESPONSES = 1u << 7, /* OpenAI's /v1/responses */
    PARAMS_OLLAMA_GENERATE = 1u << 8,    /* Ollama: a system message and a prompt */
    PARAMS_OLLAMA_CHAT = 1u << 9,        /* Ollama: messages */
    PARAMS_OLLAMA_RAW = 1u << 10,        /* Ollama: a raw prompt, or one with a suffix */
    PARAMS_OLLAMA_EMBED = 1u << 11,      /* Ollama: texts to embed */
    PARAMS_OLLAMA_EMBEDDINGS = 1u << 12, /* Ollama: the older form of that */
    PARAMS_OLLAMA_OPTIONS = 1u << 13,    /* Ollama: the object `options` in all of these */
    PARAMS_RERANK = 1u << 14,   /* Jina's and Cohere's /rerank */
    PARAMS_SCORE = 1u << 15,    /* vLLM's /score; the next two are vLLM's, too */
    PARAMS_CLASSIFY = 1u << 16,
    PARAMS_POOL = 1u << 17,
    PARAMS_DECIDE = 1u << 18,    /* OpenAI's /v1/decisions */
    PARAMS_SYSTEMONE = 1u << 19, /* TypeSafe's /v1/systemone */
    PARAMS_SCORING = 1u << 20,   /* vLLM's /generative_scoring */
    PARAMS_COHERE_EMBED = 1u << 21, /* Cohere's /v2/embed */
    PARAMS_DECISIONS = PARAMS_DECIDE | PARAMS_SYSTEMONE,
    PARAMS_PAIRS = PARAMS_RERANK | PARAMS_SCORE,
    PARAMS_NUMBERS = PARAMS_EMBED | PARAMS_POOL,
    PARAMS_INPUTS = PARAMS_NUMBERS | PARAMS_CLASSIFY,
    PARAMS_ANTHROPIC = PARAMS_MESSAGES | PARAMS_COUNT,
    PARAMS_CHATS = PARAMS_CHAT | PARAMS_ANTHROPIC | PARAMS_RESPONSES,
    PARAMS_OPENAI = PARAMS_TEXT | PARAMS_CHATS,
    PARAMS_LLAMA = PARAMS_NATIVE | PARAMS_INFILL,
    PARAMS_COMPLETIONS = PARAMS_TEXT | PARAMS_CHAT | PARAMS_LLAMA,
    PARAMS_SAVED = PARAMS_COMPLETIONS | PARAMS_MESSAGES | PARAMS_RESPONSES, /* in requests_db */
    PARAMS_ALL = PARAMS_OPENAI | PARAMS_LLAMA,
    PARAMS_OLLAMA_TURNS = PARAMS_OLLAMA_GENERATE | PARAMS_OLLAMA_CHAT,
    PARAMS_OLLAMA_TEXTS = PARAMS_OLLAMA_TURNS | PARAMS_OLLAMA_RAW,
    PARAMS_OLLAMA_VECTORS = PARAMS_OLLAMA_EMBED | PARAMS_OLLAMA_EMBEDDINGS,
    PARAMS_OLLAMA = PARAMS_OLLAMA_TEXTS | PARAMS_OLLAMA_VECTORS,
    /* bodies with a conversation */
    PARAMS_TURNS = PARAMS_CHATS | PARAMS_OLLAMA_TURNS | PARAMS_DECISIONS,
    PARAMS_VECTORS = PARAMS_EMBED | PARAMS_OLLAMA_VECTORS, /* bodies with texts to embed */
    PARAMS_LLAMA_ORDER = PARAMS_LLAMA | PARAMS_OLLAMA_TEXTS, /* samplers in llama-server's order */
    /* generate no tokens */
    PARAMS_POOLED = PARAMS_PAIRS | PARAMS_INPUTS | PARAMS_OLLAMA_VECTORS | PARAMS_COHERE_EMBED,
    /* calls of many texts, which are posted as the queue has room, and never streamed */
    PARAMS_MANY = PARAMS_POOLED | PARAMS_DECISIONS | PARAMS_SCORING,
    PARAMS_NAMED = PARAMS_TEXT | PARAMS_CHAT | PARAMS_PAIRS | PARAMS_INPUTS, /* have request_id */
    PARAMS_EVERY = PARAMS_ALL | PARAMS_OLLAMA | PARAMS_MANY,
};

enum pooling_task {
    TASK_UNSET = 0,
    TASK_EMBED,
    TASK_CLASSIFY,
    TASK_TOKEN_EMBED,
    TASK_TOKEN_CLASSIFY,
};

enum embedding_type { /* what Cohere's answers make of a vector; bits of params.embedding_types */
    EMBEDDING_FLOAT = 1u << 0,
    EMBEDDING_INT8 = 1u << 1,
    EMBEDDING_UINT8 = 1u << 2,
    EMBEDDING_BINARY = 1u << 3,
    EMBEDDING_UBINARY = 1u << 4,
    EMBEDDING_BASE64 = 1u << 5,
};

enum text_cut { /* COHERE_EMBED: what becomes of a text that is too long */
    TEXT_CUT_END = 0,
    TEXT_CUT_START,
    TEXT_CUT_NONE, /* it is refused */
};

enum number_type { NUMBER_FLOAT32 = 0, NUMBER_FLOAT16, NUMBER_BFLOAT16 };

enum thinking { THINKING_UNSET = 0, THINKING_OFF, THINKING_ON };

enum tool_choice {
    TOOL_CHOICE_AUTO = 0,
    TOOL_CHOICE_NONE,
    TOOL_CHOICE_REQUIRED, /* some call */
    TOOL_CHOICE_NAMED,    /* a call of tool_name */
};

enum reasoning_format { /* the place of a chat's thoughts */
    REASONING_APART = 0, /* in a member of their own */
    REASONING_INLINE,    /* in the content, between the marks of the template's style */
    REASONING_LEGACY,    /* INLINE in streams, else APART */
    REASONING_HIDDEN,    /* left out of the answer */
};

#define PARAMS_MAX_ANSWER_ID 47

struct resume_spec { /* an earlier answer that the request continues */
    bool is_on;
    int32_t *tokens; /* [n] tokens of the answer; owned */
    uint32_t n;
    char id[PARAMS_MAX_ANSWER_ID + 1]; /* "": the answer gets a new id */
    int64_t created;                   /* Unix seconds, 0: now */
    /* is_restored: an earlier process had begun the request. With has_past the first n_past tokens
     * are those of the body; the tokens after them are sent to the client again. */
    bool is_restored, has_past;
    uint32_t n_past;
    uint32_t finish; /* enum finish, if `tokens` is the whole answer; else FINISH_NONE */
};

struct params {
    enum params_form form;
    bool stream, include_usage, echo, ignore_eos, return_token_ids, timings;
    bool continuous_usage;  /* every frame of a stream has the usage so far */
    bool timings_per_token; /* every frame of a stream has llama-server's timings */
    bool return_progress;   /* frames of a stream say how much of the prompt is computed */
    bool includes_stop;     /* the text ends with the stop string that was found */
    bool shows_special;     /* special tokens appear as text */
    bool tokens_as_ids;     /* log-probabilities name tokens "token_id:5" */
    bool has_seed, has_priority;
    bool resumable, has_resumable; /* the stream is kept (server/storage); the body has the field */
    bool resume_tokens;            /* the stream tells what `resume` needs */
    struct resume_spec resume;
    bool receipt;                  /* the answer tells what it was computed from */
    bool without_drafts;           /* no speculative decoding */
    struct buf prediction;         /* a guess at the answer; owned; empty: none */
    uint32_t n_prompts, n;
    uint32_t n_each; /* choices generated for each prompt, of which the best n are given: best_of,
                      * or n; n_prompts * n_each <= PARAMS_MAX_CHOICES */
    uint32_t max_tokens, min_tokens;
    uint32_t default_max_tokens; /* a default; cut to the room there is, not refused */
    uint32_t deadline_ms;  /* 0 = none */
    uint32_t ttft_ms;      /* limit to the first token, from a gateway; 0 = none */
    uint32_t max_queue_ms; /* 0 = the setting */
    enum priority priority;
    struct adapter_choice adapter; /* named as the body's model or in `lora` */
    bool is_adapter_model;
    /* The name by which the body calls the model; the answer repeats it. "": the served name. */
    char asked_model[NAME_LIST_MAX_BARE];
    bool has_lora;         /* the body has `lora`: no other adapter is used */
    struct sampling sampling; /* n_top -1 = no logprobs; its biases are in `bias` */
    uint32_t n_samplers;      /* the order of the stages; those that are on become a chain */
    uint8_t samplers[SAMPLING_MAX_CHAIN]; /* enum sampling_stage */
    bool has_samplers, has_penalties_last, uses_penalties, uses_dry;
    bool has_no_window;       /* repeat_last_n 0: no penalties */
    uint32_t *allowed;        /* [n_allowed] bits of allowed_token_ids; owned */
    uint32_t n_allowed;
    int32_t *top_ids;         /* for sampling.top_ids; owned */
    int32_t *bad_words;       /* for sampling.bad_words; owned */
    uint32_t n_bad_words;     /* numbers in bad_words, with the 0 at the end */
    struct logit_bias bias[SAMPLING_MAX_BIAS];
    bool has_mirostat;
    uint32_t n_breakers; /* texts that DRY does not look across */
    char breakers[PARAMS_MAX_BREAKERS][PARAMS_MAX_BREAKER + 1];
    uint32_t n_stop_ids;
    int32_t stop_ids[REQUEST_MAX_STOP_IDS];
    struct stop_list stop;
    char cache_salt[PARAMS_MAX_SALT + 1]; /* "" = none */
    struct constraint_spec constraint;    /* its value is borrowed from the JSON tree */
    uint32_t slot;             /* id_slot of the first choice (server/storage) */
    bool is_lazy;              /* the constraint begins at one of the triggers */
    const cJSON *triggers;     /* see struct constraint_spec; NULL: none */
    uint32_t n_preserved;      /* control tokens that appear as text */
    int32_t preserved[PARAMS_MAX_PRESERVED];
    uint32_t n_indent;         /* the text ends before a line that is indented by less; 0 = off */
    uint32_t t_max_predict_ms; /* the text ends after this time, once it has a line; 0 = off */
    cJSON *response_fields;    /* members that the answer has; owned; NULL: all */
    bool has_add_special, add_special; /* add the tokens that begin and end a text */
    uint32_t max_prompt;  /* longer prompts are cut to this many tokens; UINT32_MAX: to those that
                           * fit; 0 = no prompt is cut */
    bool cuts_end;        /* cut prompts lose their end, not their beginning */
    int32_t n_keep;       /* context shift: the first tokens, which stay; -1: the prompt */
    uint32_t n_discard;   /* context shift: tokens after the kept ones that are discarded; 0: half
                           * of the rest */
    bool ends_with_context; /* the context is not shifted */
    uint32_t max_context; /* tokens of prompt and answer; 0 = as many as there is room for */
    bool drops_messages;  /* a conversation that is too long loses its oldest messages */
    bool cuts_middle;     /* OLLAMA: a prompt that is still too long loses its middle */
    const cJSON *context; /* OLLAMA_GENERATE: ids that come before the conversation, or NULL */
    uint32_t n_unknown;  /* unknown fields of the body */
    const cJSON *prompt; /* INPUTS: string, [string], [int] or [[int]]; TEXT, NATIVE: the same,
                          * strings beside ids, and {"prompt_string":…}; INFILL: a string or NULL */
    bool is_prompt_list; /* `prompt` is a list of prompts */
    bool has_content;    /* EMBED: the prompt is in `content`, llama-server's field */
    struct infill_spec infill;
    int32_t prompt_logprobs; /* alternatives for each prompt token; -1 = not scored */
    /* PAIRS: a text, an object with the string `text`, or a list of these. SCORING: a text or token
     * ids, and a list of these */
    const cJSON *queries, *documents;
    uint32_t n_queries, n_documents;
    uint32_t top_n;      /* 0 = all */
    uint32_t max_query_tokens, max_document_tokens; /* longer texts are cut; 0 = no limit */
    bool has_return_documents, return_documents;
    bool is_texts;       /* RERANK: the body has the shape of text-embeddings-inference */
    enum pooling_task task; /* POOL */
    bool has_normalize;  /* the body sets embd_normalize */
    bool without_activation; /* a classifier's scores are its last layer's outputs */
    uint32_t dimensions; /* VECTORS: 0 = all */
    /* COHERE_EMBED */
    unsigned embedding_types; /* bits of enum embedding_type; at least one */
    enum text_cut text_cut;
    uint32_t max_text;   /* most tokens of a text; 0: as many as fit into the context */
    bool has_inputs;     /* the texts come from `inputs`, not from `texts` */
    const char *input_type; /* borrowed from the body's tree; NULL: none */
    cJSON *joined_texts; /* [n_prompts] texts that the body has in parts or without the model's
                          * prompt, to which `prompt` points then; owned */
    char request_id[PARAMS_MAX_ANSWER_ID + 1]; /* end of the answer's id; "": any */
    bool return_token_offsets; /* for a prompt that is only rendered */
    bool echoes_message; /* CHAT: the answer begins with the last message's text */
    bool as_base64;
    enum number_type number_type; /* type of the numbers in base64 */
    bool big_endian;
    int32_t embd_normalize; /* p of the norm that vectors are scaled by, default 2; 0: the largest
                             * number becomes 32760; -1: as the model gives them */
    /* TURNS */
    struct conversation chat;     /* checked; at least one message */
    bool has_messages;            /* the body has `messages` or `input` */
    const cJSON *template_kwargs; /* NULL or an object */
    const char *reasoning_effort; /* static; NULL: not given */
    enum thinking thinking;       /* the body's own switch */
    const cJSON *default_kwargs;    /* the settings' template variables */
    enum thinking default_thinking; /* the settings' switch, when the request says nothing */
    uint32_t cache_ttl_s;         /* seconds that cache breakpoints last which do not say it; 0:
                                   * the API's default */
    uint32_t last_breakpoint_s;   /* seconds of a breakpoint behind the last part; 0: none */
    struct context_edits edits;   /* edits of the conversation before the model reads it */
    uint32_t thinking_budget;     /* tokens of a thought, or THOUGHT_NO_LIMIT */
    bool reasoning_control;       /* the client may end a thought while it is generated */
    const char *budget_message;   /* text that ends a thought at its budget; NULL or "": none.
                                   * Borrowed from the body's tree or the settings */
    enum reasoning_format reasoning_format;
    bool has_functions;           /* OpenAI's older form of tools, and of calls in the answer */
    enum tool_choice tool_choice;
    char tool_name[PARAMS_MAX_TOOL_NAME + 1];
    cJSON *forced_schema; /* schema that the constraint of tool calls borrows; owned */
    bool forces_own_form; /* forced calls are written in the form of the model's family */
    bool parallel_tool_calls, add_generation_prompt, continue_final_message;
    struct decision_set decisions; /* DECISIONS */
    int32_t *label_ids;   /* [n_label_ids] SCORING: the tokens to choose among; owned */
    uint32_t n_label_ids;
    bool item_first;      /* SCORING: items stand before the query */
    bool over_all_tokens; /* SCORING: probabilities are shares of all tokens, not of the labels */
    /* RESPONSES */
    bool store, background;
    char previous_id[PARAMS_MAX_RESPONSE_ID + 1]; /* "" = none */
};

struct kept_items;
struct request_defaults;
struct sampling_defaults;

struct params_limits {
    uint32_t n_embd;
    const char *model;   /* the name under which it is served */
    const char *aliases; /* the model's other names; NULL: none */
    const struct adapter_set *adapters; /* the model's; NULL: none */
    const struct tokenizer *tokenizer;
    const struct sampling_defaults *defaults; /* the model's; NULL: none */
    const struct request_defaults *request_defaults; /* the settings'; NULL: none */
    bool can_infill;
    bool shifts_context; /* the context is shifted unless a request says otherwise */
    bool keeps;        /* responses are kept */
    bool keeps_streams, resumable; /* streams are kept; also those of bodies that do not say so */
    bool resume_tokens; /* streams tell what `resume` needs, also unasked */
    const struct kept_items *kept; /* the kept items that the body uses; NULL: none */
    bool is_cross;       /* the model reads query and document in one prompt */
    int32_t n_vocab;
    struct budget *budget; /* borrowed; NULL: no limit */
};

/* Set what a body without any fields asks for; `defaults` as in struct params_limits. */
void params_set_defaults(struct params *p, enum params_form form,
                         const struct sampling_defaults *defaults);

/* True: the prompt is a conversation, as that of an embedding may be. */
bool params_has_turns(const struct params *p);

/* Parse the body, an object. 0, or a negative ERR_* with *e filled. params_release() in both
 * cases. */
int params_parse(struct params *p, enum params_form form, const cJSON *body,
                 const struct params_limits *limits, struct api_error *e);
void params_release(struct params *p);

/* Take one {"id","scale"} of a list of adapters. Only one of the list may have a scale that is not
 * 0: it becomes *to, whose name is "" before. 0, or a negative ERR_* with the path's error
 * filled. */
struct field_path;
int params_take_adapter_item(const struct adapter_set *set, const struct field_path *p,
                             const cJSON *item, struct adapter_choice *to);

/* Copy the schema of a tool's arguments so that only objects satisfy it. NULL: no memory. */
cJSON *params_tool_schema(const struct tool *tool);
/* Does the constraint come from a format (response_format and its like) of an answer without
 * calls? */
bool params_has_answer_format(const struct params *p);

/* True: an item of Responses' input refers to a kept item. */
bool params_is_reference(const cJSON *item);

/* True: it is a name of the model: its own, an alias, or either with Ollama's tag ":latest". */
bool params_is_model(const char *own, const char *aliases, const char *name);

/* The i-th prompt of any form but PARAMS_TURNS and PAIRS: a string, an array of ids (and strings)
 * within the vocabulary, or an object with the string prompt_string. */
const cJSON *params_prompt(const struct params *p, uint32_t i);

/* PAIRS: the text of query or document i; i below n_queries, n_documents. */
const cJSON *params_query(const struct params *p, uint32_t i);
const cJSON *params_document(const struct params *p, uint32_t i);

#endif
