/* server/api/engine_client_probe.c - questions to the engine; see engine_client.h. */
#include "server/api/engine_client.h"

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/mem.h"

static void on_event(struct engine_caller *client, uint32_t part, const struct event *e)
{
    struct engine_probe *p = list_entry(client, struct engine_probe, client);

    if (e->kind != EVENT_END)
        return;
    if (e->finish == FINISH_DRY_RUN)
        p->found[part] = e->probe;
    else
        p->is_failed = true;
    if (--p->n_open == 0)
        p->done(p);
}

/* All dry runs are made before the first one is posted, so that a probe that could not be started
 * gets no event. */
static int make_all(struct request **dry, struct request *const *like, uint32_t n, uint32_t step)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = request_create_dry_run(&dry[i], like[i * step]);
    return rc;
}

int engine_probe_start(struct engine_probe *p, struct engine_client *engine,
                       struct request *const *like, uint32_t n, uint32_t step)
{
    struct request **dry = mem_calloc(n, sizeof(*dry));
    int rc;

    p->n = n;
    p->client.event = on_event;
    p->found = mem_calloc(n, sizeof(*p->found));
    rc = dry == NULL || p->found == NULL ? ERR_NOMEM : make_all(dry, like, n, step);
    if (rc == 0)
        p->n_open = n;
    for (uint32_t i = 0; dry != NULL && i < n; i++) {
        if (rc < 0)
            request_destroy(&dry[i]);
        else
            engine_client_register(engine, dry[i], &p->client, i);
    }
    if (rc == 0)
        engine_client_post(engine, dry, n);
    mem_free(dry);
    if (rc < 0)
        engine_probe_release(p);
    return rc;
}

void engine_probe_release(struct engine_probe *p)
{
    mem_free(p->found);
    p->found = NULL;
}
