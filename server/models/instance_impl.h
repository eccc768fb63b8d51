/* server/models/instance_impl.h - shared by the files of an instance, private to them.
 *
 * instance.c makes the model and its runner and logs their sizes; instance_cache.c makes the cache.
 *
 * Thread: the one that starts the program.
 * Memory: the instance's.
 */
#ifndef SERVER_MODELS_INSTANCE_IMPL_H
#define SERVER_MODELS_INSTANCE_IMPL_H

#include "server/models/instance.h"

/* Create the cache of a loaded model: blocks, states, swap tiers, the manager, and the scheduler's
 * options. ERR_* with a sentence that names the setting. */
int instance_make_cache(struct instance *e, const struct config *c, unsigned flags, char *err,
                        size_t err_len);
/* Log the sizes of recurrent states and swap tiers, if there are any. */
void instance_log_cache(const struct instance *e, const struct config *c);

#endif
