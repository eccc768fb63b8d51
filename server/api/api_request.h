/* server/api/api_request.h - turns the bytes of a body into requests that can be posted.
 *
 * Thread: any; touches nothing but its arguments.
 * Memory: the api_request owns everything it points to; api_request_release() frees what was not
 *         taken.
 */
#ifndef SERVER_API_API_REQUEST_H
#define SERVER_API_API_REQUEST_H

#include "core/base/budget.h"
#include "scheduler/request/request.h"
#include "server/api/params/params.h"
#include "server/api/response/choice.h"
#include "server/api/server_options.h"
#include "server/http/error.h"
#include "server/metrics/metrics.h"
#include "server/api/response/receipt.h"
#include "server/storage/response_store.h"

struct saved_request;
struct wire_format;

/* A Responses body that uses kept responses is parsed twice: first to collect their ids, and again
 * with the responses. */
struct api_headers { /* pointers are NULL if the call lacks them */
    const char *priority;      /* X-Priority */
    const char *objective;     /* a class of requests, from a trusted proxy; the setting
                                * `objectives` maps it to a priority (objectives.h) */
    const char *objectives;
    const char *ttft_ms;       /* a trusted proxy's */
    const char *tenant;        /* from auth_tenant(): at most WEIGHTS_MAX_NAME bytes */
    uint64_t salt_seed;        /* the server's secret: no client can guess another's salt */
    bool keeps;                /* responses are kept */
    bool keeps_streams, resumable; /* keeps_streams: streams can be kept; resumable: also those
                                    * whose bodies do not ask for it */
    bool resume_tokens;            /* X-Resume-Tokens was sent: as if the body had the field
                                    * resume_tokens */
    int64_t now;               /* Unix seconds, for chat templates; 0: the current time */
    /* The part of the answer that an earlier process has generated; NULL: no earlier process had
     * begun the request. */
    const struct saved_request *restored;
    const struct buf *kept;    /* result of response_store_history(); NULL: it was not called */
};

struct api_request { /* zero is empty */
    struct params params;
    struct call_tools *tools; /* the tools that were offered, or NULL */
    const struct wire_format *wire_format;
    struct budget *budget;    /* while api_request_parse() runs; borrowed */
    bool is_trial;            /* set by the caller: where the budget's steps do not suffice, it
                               * parses again with more */
    uint32_t *breakers;       /* bits of the tokens that end a repetition; NULL without DRY */
    const struct kept_items *kept; /* while api_request_parse() runs: kept items */
    struct response_wish wish; /* the kept responses that the body names */
    bool has_wish;             /* only `wish` is filled in: the caller reads the kept responses and
                                * parses again */
    struct buf input;          /* the items of a response that is to be kept */
    struct receipt_source receipt; /* if the body wants a receipt */
    struct buf echo;          /* JSON members that the answer repeats, or the whole answer
                               * (wire_format.answer) */
    struct prompt *prompts;    /* [params.n_prompts] */
    struct token_list prediction; /* tokens of `prediction`; empty: none */
    struct token_list budget_message; /* tokens that end a thought; empty: none */
    struct request **requests; /* [n_choices] without id, prefix owner, tenant and times, which the
                                * completion fills in; it sets an element to NULL when it posts
                                * it */
    uint32_t n_choices;
    enum finish resume_end;    /* why a resumed answer is complete, or FINISH_NONE */
    bool resume_is_complete;   /* the resumed answer's constraint allows no further token */
    bool resume_is_eog;        /* the resumed answer's last token ends the generation, and is not
                                * text */
    struct constraint *constraint; /* a reference, or NULL */
    struct adapter *adapter;       /* a reference, from api_request_adapt(); or NULL */
    struct api_error error; /* status 0 when all is well */
    enum rejection reason;  /* why the request is refused */
};

/* Parse a body. `headers` may be NULL. All work whose length the body decides spends steps of
 * `budget` (NULL: no limit). If the steps are used up, p->error is a 400 that names the field;
 * after a cancellation it may be any error, because the client has disconnected. */
void api_request_parse(struct api_request *p, const struct server_model *model,
                   const struct wire_format *wire_format, const struct buf *body,
                   const struct api_headers *headers, struct budget *budget);
void api_request_release(struct api_request *p);

/* Set the adapter of the requests, with the scale of params.adapter. */
void api_request_adapt(struct api_request *p, struct adapter *a /* takes */);

/* Return the most tokens that the requests may take: prompts and max_tokens. */
uint64_t api_request_n_tokens(const struct api_request *p);

/* Return the model's name for answers: the adapter or alias that the body named, else the model's
 * id. */
const char *api_request_model(const struct api_request *p, const struct server_model *model);

/* Return the salt with which requests of one tenant ("": all clients without one) and one
 * cache_salt ("": none) share cached prefixes only with each other; `seed` is the server's
 * secret. */
uint64_t api_request_salt(const char *tenant, const char *cache_salt, uint64_t seed);

#endif
