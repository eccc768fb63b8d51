/* server/api/api_request.h - from the bytes of a body to requests ready to be posted.
 *
 * Thread: any; touches nothing but its arguments.
 * Memory: the plan owns everything it points to; api_request_release() frees what was not taken.
 */
#ifndef SERVER_API_API_REQUEST_H
#define SERVER_API_API_REQUEST_H

#include "core/base/budget.h"
#include "scheduler/request.h"
#include "server/api/params/params.h"
#include "server/api/response/choice.h"
#include "server/api/server_options.h"
#include "server/http/error.h"
#include "server/metrics/metrics.h"
#include "server/api/response/receipt.h"
#include "server/storage/response_store.h"

struct saved_request;
struct wire_format;

/* A body of Responses that goes on from kept ones is parsed twice: first for what it wants of them,
 * and once more with that. */
struct api_headers { /* NULL where there is none */
    const char *priority;      /* X-Priority */
    const char *objective;     /* a trusted proxy's, and what each stands for (objectives.h) */
    const char *objectives;
    const char *ttft_ms;       /* the same proxy's */
    const char *tenant;        /* as auth_tenant() has it: at most WEIGHTS_MAX_NAME bytes */
    uint64_t salt_seed;        /* the server's secret: no client can guess another's salt */
    bool keeps;                /* responses are kept */
    bool keeps_streams, resumable; /* streams are, those of bodies that say nothing as well */
    bool resume_tokens;            /* X-Resume-Tokens: as the field, but of any body */
    int64_t now;               /* Unix seconds, for chat templates; 0: the time of day */
    /* The body was one of an earlier process, and what that has left of its answer; NULL: not. */
    const struct saved_request *restored;
    const struct buf *kept;    /* what response_store_history() gave; NULL: nothing was asked for */
};

struct api_request { /* zero is empty */
    struct params params;
    struct call_tools *tools; /* that were offered; or NULL */
    const struct wire_format *wire_format;
    struct budget *budget;    /* while api_request_parse() runs; borrowed */
    uint32_t *breakers;       /* bits of the tokens that end a repetition; NULL without DRY */
    const struct kept_items *kept; /* the same time: what of kept responses it goes on from */
    struct response_wish wish; /* what the body wants of them; */
    bool has_wish;             /* then nothing else is filled in */
    struct buf input;          /* of a response that is to be kept: the list of its items */
    struct receipt_source receipt; /* where one is wanted */
    struct buf echo;          /* of the body, for the answer; or all of that (wire_format.answer) */
    struct prompt *prompts;    /* [params.n_prompts] */
    struct token_list prediction; /* of the answer; empty: none */
    struct token_list budget_message; /* that ends a thought; empty: none */
    struct request **requests; /* [n_choices] id, prefix owner, tenant and times still to be filled;
                                * an element that was posted is set to NULL by the completion */
    uint32_t n_choices;
    enum finish resume_end;    /* of an answer that is gone on with and is complete: why; */
    bool resume_is_complete;   /* its constraint lets nothing follow; */
    bool resume_is_eog;        /* or its last token is no text */
    struct constraint *constraint; /* counted, or NULL */
    struct adapter *adapter;       /* the same: set by api_request_adapt() */
    struct api_error error; /* status 0 when all is well */
    enum rejection reason;  /* when it is not */
};

/* `headers` may be NULL. All work whose length the body decides spends steps of `budget` (NULL: no
 * limit). Without steps left p->error is a 400 that names the field; after a cancellation it is any
 * error: its client has gone. */
void api_request_parse(struct api_request *p, const struct server_model *model,
                   const struct wire_format *wire_format, const struct buf *body,
                   const struct api_headers *headers, struct budget *budget);
void api_request_release(struct api_request *p);

/* The requests are computed with the adapter that params.adapter names, by as much as it says. */
void api_request_adapt(struct api_request *p, struct adapter *a /* takes */);

/* What the requests may take at most: prompts and max_tokens. */
uint64_t api_request_n_tokens(const struct api_request *p);

/* The name that answers call the model by: an adapter's or an alias, where the body did so. */
const char *api_request_model(const struct api_request *p, const struct server_model *model);

/* The prefix cache of a tenant ("": of all without one) and of those with the same cache_salt
 * ("": none) is their own; `seed` is the server's. */
uint64_t api_request_salt(const char *tenant, const char *cache_salt, uint64_t seed);

#endif
