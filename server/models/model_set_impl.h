/* server/models/model_set_impl.h - shared by the files of model_set.h.
 *
 * model_set.c decides the next step. model_set_jobs.c runs it on a thread of the pool and takes its
 * result. model_set_calls.c takes calls, operators' requests and changed settings.
 *
 * Thread: the loop's.
 * Memory: as model_set.h says.
 */
#ifndef SERVER_MODELS_MODEL_SET_IMPL_H
#define SERVER_MODELS_MODEL_SET_IMPL_H

#include "server/models/model_set.h"
#include "server/process/worker_pool.h"

enum model_job_kind { MODEL_JOB_LOOK = 0, MODEL_JOB_LOAD, MODEL_JOB_UNLOAD };

struct model_set_job {
    struct worker_job job;
    struct model_set *set;
    uint32_t i;
    enum model_job_kind kind;
    bool is_running;
    int rc;
    struct server_look look;
    char err[400];
};

/* True: the model accepts calls now. */
bool model_set_is_served(const struct served_model *h);

/* Set the callback by which the set learns that the calls of model i (index in opt.models) have
 * ended. */
void model_set_watch(struct model_set *s, uint32_t i);

struct model_set_job *model_set_job_of(struct model_set *s, const struct served_model *h);
/* Start a job of the model; it must have no running job. */
void model_set_begin_job(struct model_set *s, struct served_model *h, enum model_job_kind kind);
/* Put changed settings in force, if nothing uses the model and no thread works on it. */
void model_set_take_change(struct model_set *s, struct served_model *h);
/* Note that the model shall be loaded, also if no call waits for it. */
void model_set_want(struct served_model *h);

#endif
