/* server/api/response/choice.h - one choice of a completion: tokens in, text out.
 *
 * A choice is what the engine knows as a request. It turns events into decoded text, looks for
 * stop strings, and keeps what has not been sent yet: everything for a plain answer, the delta
 * since the last frame for a stream. Offsets count characters of prompt + completion.
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
#include "server/api/response/logprobs.h"

struct prompt { /* one prompt of the request, shared by its n choices */
    char *text; /* as it was given, or decoded from ids; only for echo */
    size_t n_text;
    struct token_list ids;
    bool is_text;       /* was given as a string */
    bool has_added_bos; /* ids[0] was not written by the client */
    bool at_start;      /* nothing in it is text: the completion begins one */
    float *pooled;      /* [n_embd] of an embedding, the engine's until its end */
    uint32_t n_pooled;  /* vectors in it; more than one, or is_each: one for each token */
    bool is_each;
    float *labels;      /* [n_labels] behind them, of the classifier; NULL: it was not asked */
    uint32_t second_at; /* where the second of two texts begins, or 0 */
    uint64_t pooled_bytes; /* of all of that */
    bool thinks;        /* a chat's prompt that ends inside a thought */
    struct thought thought; /* as its requests begin */
    uint64_t hash;      /* of the ids */
    uint32_t twin;      /* the first prompt of the request with the same ids: itself, if none is */
    struct buf scores;  /* prompt_logprobs: "null,{…}", by its first choice, for all of them */
};

struct choice_rules { /* the same for all choices of a request */
    const struct tokenizer *tokenizer;
    const struct stop_list *stop;
    const struct output_style *style; /* of a chat; NULL: the text is not taken apart */
    const struct call_tools *tools;   /* that were offered, or NULL */
    bool finds_calls;                 /* tools were offered */
    bool has_forced_call;             /* nothing but a call may come, behind a thought */
    bool insists;                     /* the same, written as the model's family does */
    const char *forced_name;          /* of the function, NULL: of any */
    bool has_one_call;                /* a second one is not wanted: the first ends the text */
    bool has_entries; /* log-probabilities as chats have them, with ids */
    bool has_functions;               /* calls are told in OpenAI's older shape */
    enum reasoning_format reasoning;  /* where thoughts go; never LEGACY */
    bool includes_stop, shows_special;
    const int32_t *preserved;         /* [n_preserved] control tokens that are text */
    uint32_t n_preserved;
    bool keeps_tokens;                /* all that are generated: for a slot, or a stream that */
    bool keeps_slot;                  /* others may go on with */
    uint32_t slot;                    /* of the first choice */
    bool skips_thoughts;              /* log-probabilities are those of the text alone */
    bool has_shares, tokens_as_ids;   /* log-probabilities are shares; tokens are told by ids */
    uint32_t n_indent;                /* 0, or how many blanks a line must begin with */
    bool echo, wants_logprobs, wants_ids, wants_timings;
    uint32_t n_top;          /* alternatives of each token, with wants_logprobs */
    bool wants_prompt_scores;
    uint32_t n_prompt_top;   /* alternatives of the prompt's tokens, then */
    uint32_t min_tokens; /* stop strings count from here on */
};

struct choice {
    uint32_t index;
    uint64_t id; /* of its request; 0 before the post and after the end */
    bool is_cancelled;          /* the engine has been told */
    bool is_thought_ended;      /* the same of a thought that its client has ended */
    uint64_t seed;              /* its own */
    uint64_t first_us, last_us; /* when its first and its latest token came */
    uint32_t max_known, n_discard; /* of its request */
    struct prompt *prompt;
    const struct choice_rules *rules;
    struct detok detok, echo_detok;
    struct stop stop;
    struct indent indent;
    struct buf text;          /* certain, not yet sent; of a chat it is in `output` */
    struct output_parser output; /* chat only */
    struct logprobs logprobs; /* not yet sent */
    struct buf entries;       /* the same as a chat has them: "{…},{…}" */
    struct buf ids;           /* "1,2,3", not yet sent */
    struct token_list tokens; /* with keeps_tokens: as far as there was memory */
    uint64_t n_chars;         /* decoded so far, sent or not */
    uint32_t n_scores_due; /* prompt tokens whose score has not come: until then nothing goes out */
    uint32_t n_tokens, n_thinking; /* generated; of them inside thoughts */
    uint32_t n_predicted; /* tokens of the prediction that came true with them */
    double sum_logprob;            /* of those, where the engine was asked for it */
    bool has_opened;               /* its first frame was sent */
    bool has_new_line;             /* in what was generated */
    bool has_run_out; /* of time, or of indented lines: the same, and it is cut */
    bool has_open_thought; /* in the content, where thoughts go there */
    bool has_progress;     /* something of the prompt was computed since the last frame */
    uint32_t n_cached, n_computed; /* of the prompt, as told by progress */
    uint64_t begun_us, computed_us;
    bool has_stopped; /* a stop string was found: what still comes is not wanted */
    bool is_complete; /* the latest token completed what a constraint asks for */
    bool has_prompt_ids_sent;
    bool is_past; /* the tokens that come are of an answer that is gone on with: told before */
    enum finish finish; /* FINISH_NONE until the end */
    struct event_times times; /* after the end, with wants_timings */
    uint64_t total_us;        /* from arrival until the end was heard of */
    uint64_t blocked_us;      /* of what came after the engine's end: spent before a full socket */
};

/* The prompt must outlive the choice. With echo its text and first token stand ready. */
void choice_init(struct choice *c, uint32_t index, struct prompt *prompt,
                 const struct choice_rules *rules);
void choice_release(struct choice *c);

/* An echo without its scores, which were told before. */
void choice_pass_prompt(struct choice *c);

/* A prompt token's log-probability. */
void choice_score(struct choice *c, const struct event *e);

/* Some of the prompt was computed. */
void choice_progress(struct choice *c, const struct event *e, uint64_t now_us);

/* A generated token. `scratch` is emptied and used. Returns true when nothing more is wanted:
 * the engine may be told to stop. */
bool choice_token(struct choice *c, const struct event *e, struct buf *scratch);

/* No more tokens come: held-back text goes out. */
void choice_end(struct choice *c, enum finish finish, struct buf *scratch);

/* Is there something that a frame should carry now? */
bool choice_has_output(const struct choice *c);

/* Forget what was gathered: it was sent. */
void choice_clear(struct choice *c);

/* "length", or NULL before the end. */
const char *choice_finish_name(const struct choice *c);

/* The first error of any buffer: the answer would be incomplete. */
int choice_error(const struct choice *c);

#endif
