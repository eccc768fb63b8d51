/* server/models/instance_draft.h - the draft model of a served model, put together from the
 * settings.
 *
 * The draft model is loaded and released with its model. It has its own KV cache, of
 * draft_kv_memory bytes or (0) for as many tokens as the model's.
 *
 * Thread: the one that starts the program.
 * Memory: owns all its parts; instance_draft_release() frees them.
 * Errors: a sentence in `err`; the caller prints it and exits.
 */
#ifndef SERVER_MODELS_INSTANCE_DRAFT_H
#define SERVER_MODELS_INSTANCE_DRAFT_H

#include "core/hub/cached.h"
#include "server/models/instance.h"

struct draft_runner;

struct instance_draft { /* zero: there is no draft model */
    struct instance engine;
    struct draft_runner *runner; /* NULL with INSTANCE_PLAN */
};

/* Replace a reference to the Hub in the setting `draft` (of one model's settings) by its path in
 * the Hub's cache; `find` is hub_pull, or hub_cached, which downloads nothing. */
int instance_draft_fetch(struct config *c, hub_find_fn *find, char *err, size_t err_len);

/* Load the draft model for `e`, whose settings are c; does nothing when no draft model is set or
 * speculation is off. Flags: INSTANCE_PLAN or 0. Returns an exit_code. */
int instance_draft_init(struct instance_draft *d, const struct instance *e, const struct config *c,
                        unsigned flags, const struct instance_company *company, char *err,
                        size_t err_len);
void instance_draft_release(struct instance_draft *d);

#endif
