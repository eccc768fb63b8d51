/* server/api/response/choice.h - one choice of a completion: tokens in, text out.
 *
 * A choice is a request of the engine. It decodes the tokens of its events, looks for stop strings,
 * and keeps the output that was not sent yet: everything for a plain answer, the delta since the
 * last frame for a stream. Offsets count characters of prompt + completion.
 *
 * Thread: the loop's.
 * Memory: text and logprobs are bounded; see HTTP_MAX_REPLY.
 */
#ifndef SERVER_API_RESPONSE_CHOICE_H
#define SERVER_API_RESPONSE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/tokenizer/tokenizer.h"
#include "scheduler/queue.h"
#include "server/api/chat/output_parser.h"
#include "server/api/params/params.h"
#include "server/api/params/stop.h"
#include "server/api/response/indent.h"
#include "server/api/response/label_path.h"
#include "server/api/response/logprobs.h"

struct prompt { /* one prompt of the request, shared by its n choices */
    char *text; /* the given text, or decoded from ids; only for echo */
    size_t n_text;
    struct token_list ids;
    bool is_text;       /* the prompt was given as a string */
    bool has_added_bos; /* ids[0] was added, not sent by the client */
    bool at_start;      /* the prompt has no text: the completion begins the text */
    float *pooled;      /* [n_skipped + n_pooled][width] of an embedding; the engine's until the
                         * request ends */
    uint32_t n_pooled;  /* vectors; with is_each, or if several, one for each token */
    uint32_t n_skipped; /* tokens before these whose vectors are computed, but not given */
    bool is_each;
    uint32_t width;     /* numbers of each vector */
    bool has_token_labels; /* the vectors are the outputs of a classifier of tokens */
    bool has_weights;      /* the vectors have one number, the token's lexical weight */
    float *labels;      /* [n_labels] outputs of the classifier, in memory after the vectors; NULL:
                         * not asked for */
    uint32_t second_at; /* index of the second of two texts, or 0 */
    uint64_t pooled_bytes; /* bytes of vectors and labels */
    bool thinks;        /* a chat's prompt ends inside a thought */
    struct thought thought; /* the thought with which its requests begin */
    uint64_t hash;      /* hash of the ids */
    uint32_t twin;      /* index of the first prompt with the same ids; its own if there is none
                         * before */
    uint32_t n_shared;  /* most first tokens that a prompt before it has, too; counted for plans and
                         * deadlines */
    int32_t *label_ids;    /* [n_labels] of a decision: the token of each option; or NULL */
    float *label_logprobs; /* [n_labels] filled by the engine */
    uint32_t n_labels;
    struct label_path *paths; /* [n_paths] of a decision whose labels have several tokens: the steps
                               * of each option's; or NULL */
    uint32_t n_paths;
    struct marks marks;    /* of a decision by a model's head; owns `at` and `outs` */
    uint32_t n_pins;
    struct request_pin pins[REQUEST_MAX_PINS]; /* [n_pins] beginnings of it that stay cached */
    struct buf scores;  /* prompt_logprobs, "null,{…}": made by the first choice for all of them */
};

struct choice_rules { /* shared by all choices of a request */
    const struct tokenizer *tokenizer;
    const struct stop_list *stop;
    const struct output_style *style; /* style of a chat; NULL: the text is not parsed */
    const struct call_tools *tools;   /* tools that were offered, or NULL */
    bool finds_calls;                 /* tools were offered */
    bool has_forced_call;             /* only a call may come, after a thought */
    bool insists;                     /* only a call in the family's format may come */
    const char *forced_name;          /* name of the function, NULL: any */
    bool has_one_call;                /* the first call ends the text */
    bool has_entries; /* log-probabilities as in chats, with ids */
    bool has_functions;               /* calls are sent as OpenAI's older function_call */
    enum reasoning_format reasoning;  /* how thoughts are sent; never LEGACY */
    bool includes_stop, shows_special;
    const int32_t *preserved;         /* [n_preserved] control tokens that are text */
    uint32_t n_preserved;
    bool keeps_tokens;                /* token ids are kept, for the slot, a receipt or a resumable
                                       * stream */
    bool keeps_slot;                  /* the slot gets the token ids at the end */
    uint32_t slot;                    /* slot of the first choice */
    bool skips_thoughts;              /* no log-probabilities of thoughts */
    bool has_shares, tokens_as_ids;   /* numbers are probabilities; tokens are named by ids */
    uint32_t n_indent;                /* 0, or the blanks that a line must begin with */
    bool echo, wants_logprobs, wants_ids, wants_timings;
    uint32_t n_top;          /* alternatives of each token, with wants_logprobs */
    bool wants_prompt_scores;
    uint32_t n_prompt_top;   /* alternatives of each prompt token, with wants_prompt_scores */
    uint32_t min_tokens; /* stop strings are ignored until so many tokens were generated */
};

struct choice {
    uint32_t index;
    uint64_t id; /* id of its request; 0 before the post and after the end */
    bool is_cancelled;          /* queue_cancel() was called */
    bool is_thought_ended;      /* queue_end_thought() was called */
    uint64_t seed;              /* the choice's own seed */
    uint64_t first_us, last_us; /* when its first and its latest token came */
    uint32_t max_known, n_discard; /* as in its request */
    struct prompt *prompt;
    const struct choice_rules *rules;
    struct detok detok, echo_detok;
    struct stop stop;
    struct indent indent;
    struct buf text;          /* final text that was not sent yet; a chat's text is in `output` */
    struct output_parser output; /* chat only */
    struct logprobs logprobs; /* not sent yet */
    struct buf entries;       /* log-probabilities of chats, "{…},{…}" */
    struct buf ids;           /* "1,2,3", not sent yet */
    struct token_list tokens; /* kept with keeps_tokens; incomplete if memory ran out */
    uint64_t n_chars;         /* decoded so far, sent or not */
    uint32_t n_scores_due; /* prompt tokens without a score: output waits for them */
    uint32_t n_tokens, n_thinking; /* generated tokens; those inside thoughts */
    uint32_t n_predicted; /* accepted tokens of the prediction */
    double sum_logprob;            /* sum of the log-probabilities of generated tokens, if the
                                    * engine computes them */
    bool has_opened;               /* its first frame was sent */
    bool has_new_line;             /* the generated text has a line end */
    bool has_run_out; /* the time is over, or a line is not indented enough: the text is cut here */
    bool has_open_thought; /* a thought is open in the content, if thoughts are written there */
    bool has_progress;     /* prompt tokens were computed since the last frame */
    uint32_t n_cached, n_computed; /* prompt tokens, by the latest progress event */
    uint64_t begun_us, computed_us;
    bool has_stopped; /* a stop string was found: later tokens are dropped */
    bool is_complete; /* the latest token completed the constraint's text */
    bool has_prompt_ids_sent;
    bool is_past; /* a resumed answer's old tokens are replayed, which were sent before */
    enum finish finish; /* FINISH_NONE until the end */
    struct event_pins pins;   /* after the end */
    struct event_times times; /* after the end, with wants_timings */
    uint64_t total_us;        /* from arrival until the end event */
    uint64_t blocked_us;      /* part of it after the engine's end: waiting for a full socket */
};

/* Begins a choice; the prompt must outlive it. With echo the prompt's text and first token are
 * ready to be sent. */
void choice_init(struct choice *c, uint32_t index, struct prompt *prompt,
                 const struct choice_rules *rules);
void choice_release(struct choice *c);

/* Echoes the prompt without its scores, which were sent before. */
void choice_pass_prompt(struct choice *c);

/* Takes a prompt token's log-probability. */
void choice_score(struct choice *c, const struct event *e);

/* Takes the progress of the prompt. */
void choice_progress(struct choice *c, const struct event *e, uint64_t now_us);

/* Takes a generated token; `scratch` is cleared and used. True: the choice needs no more tokens,
 * and the engine may be told to stop. */
bool choice_token(struct choice *c, const struct event *e, struct buf *scratch);

/* Ends the choice: text that was held back becomes output. */
void choice_end(struct choice *c, enum finish finish, struct buf *scratch);

/* True: there is output that a frame should carry now. */
bool choice_has_output(const struct choice *c);

/* Forgets the output so far, which was sent. */
void choice_clear(struct choice *c);

/* Returns "length", "stop" and so on, or NULL before the end. */
const char *choice_finish_name(const struct choice *c);

/* Return the first error of any buffer, with which the answer would be incomplete; 0: none. */
int choice_error(const struct choice *c);

#endif
