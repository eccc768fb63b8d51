/* server/api/served_model.c - see served_model.h. */
#include "server/api/served_model.h"

#include "core/base/err.h"
#include "server/api/engine_client.h"
#include "server/engine_io/journal_file.h"

#include <stdio.h>

int hosted_open(struct hosted *h, const struct hosted_shared *shared,
                const struct server_model *model, char *err, size_t err_len)
{
    const struct desk_options desk = {
        .house = shared->options,
        .model = &h->model,
        .loop = shared->loop,
        .metrics = &h->metrics,
        .tenants = shared->tenants,
        .text_pool = shared->text_pool,
        .constraint_pool = shared->constraint_pool,
        .memory = shared->memory,
    };

    *h = (struct hosted){.model = *model};
    metrics_init(&h->metrics);
    if (desk_create(&h->desk, &desk) < 0) {
        snprintf(err, err_len, "no memory for %u requests", model->max_outstanding);
        return ERR_NOMEM;
    }
    debug_init(&h->debug, h->desk);
    h->swapper.loop = shared->loop;
    if (model->journal_path == NULL || model->journal == NULL)
        return 0;
    return journal_file_open(&h->journal, model->journal_path, model->journal, err, err_len);
}

void hosted_close(struct hosted *h)
{
    desk_destroy(&h->desk);
    journal_file_close(&h->journal);
}

void hosted_set_model(struct hosted *h, const struct server_model *model)
{
    h->model = *model;
    h->swapper.store = model->swap;
}

void hosted_attach(struct hosted *h, struct queue *q)
{
    desk_attach(h->desk, q);
    h->swapper.queue = q;
}

void hosted_kick(struct hosted *h)
{
    swapper_kick(&h->swapper);
    desk_take_events(h->desk);
    debug_take(&h->debug);
    journal_file_kick(h->journal, h->desk->loop);
}

const char *hosted_trouble(struct hosted *h)
{
    if (facts_is_stuck(swapper_oldest_us(&h->swapper), FACTS_STUCK_DISK_US))
        return "the swap file has not answered for a minute";
    if (facts_is_stuck(journal_file_begin_us(h->journal), FACTS_STUCK_DISK_US))
        return "the journal's file has not answered for a minute";
    return facts_trouble(h->desk, &h->watchdog);
}

void hosted_drain(struct hosted *h, bool now)
{
    desk_close(h->desk, now);
    debug_close(&h->debug);
}

bool hosted_is_over(const struct hosted *h)
{
    return h->desk->n_jobs == 0 && hosted_n_outstanding(h) == 0 &&
           journal_file_is_idle(h->journal) && swapper_is_idle(&h->swapper);
}

uint32_t hosted_n_outstanding(const struct hosted *h)
{
    return h->desk->queue != NULL ? queue_n_outstanding(h->desk->queue) : 0;
}
