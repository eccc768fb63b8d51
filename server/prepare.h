/* server/prepare.h - from the bytes of a body to requests ready to be posted.
 *
 * Thread: any; touches nothing but its arguments.
 * Memory: the plan owns everything it points to; prepare_release() frees what was not taken.
 */
#ifndef SERVER_PREPARE_H
#define SERVER_PREPARE_H

#include "scheduler/request.h"
#include "server/choice.h"
#include "server/error.h"
#include "server/metrics.h"
#include "server/params.h"
#include "server/server.h"

struct prepared { /* zero is empty */
    struct params params;
    struct prompt *prompts;    /* [params.n_prompts] */
    struct request **requests; /* [n_choices] id, arrival and deadline still to be filled; an
                                * element that was posted is set to NULL by whoever posted it */
    uint32_t n_choices;
    struct api_error error; /* status 0 when all is well */
    enum rejection reason;  /* when it is not */
};

/* `priority` is the X-Priority header or NULL. */
void prepare(struct prepared *p, const struct server_options *opt, const struct buf *body,
             const char *priority);
void prepare_release(struct prepared *p);

#endif
