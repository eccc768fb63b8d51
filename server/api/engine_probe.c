/* server/api/engine_probe.c - see engine_probe.h. */
#include "server/api/engine_probe.h"

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "server/api/parse_job.h"

static void on_event(struct engine_caller *client, uint32_t part, const struct event *e)
{
    struct probe *p = list_entry(client, struct probe, client);

    if (e->kind != EVENT_END)
        return;
    if (e->finish == FINISH_DRY_RUN)
        p->found[part] = e->probe;
    else
        p->is_failed = true;
    if (--p->n_open == 0)
        p->done(p);
}

/* All are made before the first is posted, so that there is one way back. */
static int make_all(struct request **dry, const struct parsed_request *from)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < from->params.n_prompts; i++)
        rc = request_parse_dry_run(&dry[i], from->requests[i * from->params.n_each]);
    return rc;
}

int probe_start(struct probe *p, const struct parse_job *in, void (*done)(struct probe *p))
{
    const uint32_t n = in->parsed.params.n_prompts;
    struct request **dry = mem_calloc(n, sizeof(*dry));
    int rc;

    *p = (struct probe){.n = n, .done = done};
    p->client = (struct engine_caller){.event = on_event, .request_id = in->request_id};
    p->found = mem_calloc(n, sizeof(*p->found));
    rc = dry == NULL || p->found == NULL ? ERR_NOMEM : make_all(dry, &in->parsed);
    if (rc == 0)
        p->n_open = n;
    for (uint32_t i = 0; dry != NULL && i < n; i++) {
        if (rc < 0) {
            request_destroy(&dry[i]);
            continue;
        }
        engine_client_post(in->engine, dry[i], &p->client, i);
    }
    mem_free(dry);
    if (rc < 0)
        probe_release(p);
    return rc;
}

void probe_release(struct probe *p)
{
    mem_free(p->found);
    p->found = NULL;
}
