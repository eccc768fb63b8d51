/* server/models/served_model.c - see served_model.h.
 *
 * The parts of a model that outlive its load (engine client, journal, slots, metrics) are made in
 * served_model_open(), so that calls can wait and be counted while it is not loaded. A load fills
 * in the pointers to the loaded parts, and served_model_detach() clears all of them before a pool
 * thread frees the parts. served_model_pump() passes between queue and HTTP, on each wake of the
 * loop.
 */
#include "server/models/served_model.h"

#include "core/base/err.h"
#include "server/adapters/adapter_set.h"
#include "server/api/completion/completion.h"
#include "server/api/engine_client.h"
#include "server/engine_io/journal_file.h"

#include <stdio.h>

int served_model_open(struct served_model *h, const struct engine_shared *shared,
                      const struct server_model *model, char *err, size_t err_len)
{
    *h = (struct served_model){.model = *model};
    metrics_init(&h->metrics);
    slots_init(&h->slots, shared->options->slot_save_path);
    if (engine_client_create(&h->engine, shared, &h->model, &h->metrics, &h->slots) < 0) {
        snprintf(err, err_len, "no memory for %u requests", model->max_outstanding);
        return ERR_NOMEM;
    }
    debug_init(&h->debug, h->engine);
    model_waits_init(&h->life.waits, h->engine, model->max_outstanding, completion_start);
    h->life.idle_us = model->idle_unload_us;
    h->transfers.loop = shared->loop;
    if (model->journal_path == NULL || model->journal == NULL)
        return 0;
    return journal_file_open(&h->journal, model->journal_path, model->journal, err, err_len);
}

void served_model_close(struct served_model *h)
{
    engine_client_destroy(&h->engine);
    slots_release(&h->slots);
    journal_file_close(&h->journal);
}

void served_model_set_model(struct served_model *h, const struct server_model *model)
{
    h->model = *model;
    snprintf(h->arch, sizeof(h->arch), "%s", model->arch);
    snprintf(h->ftype, sizeof(h->ftype), "%s", model->ftype);
    h->model.arch = h->arch;
    h->model.ftype = h->ftype;
    h->transfers.store = model->swap;
}

void served_model_attach(struct served_model *h, struct queue *q)
{
    engine_client_attach(h->engine, q);
    h->transfers.queue = q;
}

bool served_model_is_idle(const struct served_model *h)
{
    return h->engine->n_jobs == 0 && served_model_n_outstanding(h) == 0 &&
           swap_transfers_is_idle(&h->transfers) && debug_is_idle(&h->debug) &&
           adapter_set_is_idle(h->model.adapters);
}

void served_model_detach(struct served_model *h)
{
    struct server_model *m = &h->model;

    engine_client_detach(h->engine);
    h->transfers.queue = NULL;
    h->transfers.store = NULL;
    h->watchdog = (struct info_watchdog){0};
    m->tokenizer = NULL;
    m->sampling = NULL;
    m->chat = NULL;
    m->decider = NULL;
    m->constraint_cache = NULL;
    m->adapters = NULL;
    m->fetch = NULL;
    m->swap = NULL;
    m->labels = NULL;
    m->receipt_origin = NULL;
}

bool served_model_pump(struct served_model *h)
{
    bool has_more;

    swap_transfers_pump(&h->transfers);
    has_more = engine_client_take_events(h->engine);
    debug_take(&h->debug);
    journal_file_pump(h->journal, h->engine->shared->loop);
    return has_more;
}

const char *served_model_trouble(struct served_model *h)
{
    if (info_is_stuck(swap_transfers_oldest_us(&h->transfers), INFO_STUCK_DISK_US))
        return "the swap file has not answered for a minute";
    if (info_is_stuck(journal_file_begin_us(h->journal), INFO_STUCK_DISK_US))
        return "the journal's file has not answered for a minute";
    if (h->engine->queue == NULL && !h->engine->is_draining)
        return NULL; /* it is loaded on demand */
    return info_trouble(h->engine, &h->watchdog);
}

void served_model_drain(struct served_model *h, bool now)
{
    engine_client_close(h->engine, now);
    debug_close(&h->debug);
    adapter_set_close(h->model.adapters);
}

bool served_model_is_over(const struct served_model *h)
{
    return h->engine->n_jobs == 0 && served_model_n_outstanding(h) == 0 &&
           journal_file_is_idle(h->journal) && swap_transfers_is_idle(&h->transfers);
}

bool served_model_is_reading(const struct served_model *h)
{
    return !adapter_set_is_idle(h->model.adapters);
}

uint32_t served_model_n_outstanding(const struct served_model *h)
{
    return h->engine->queue != NULL ? queue_n_outstanding(h->engine->queue) : 0;
}
