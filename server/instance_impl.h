/* server/instance_impl.h - what the files of an instance share: private to them.
 *
 * instance.c: the model, its runner, and how it is told. instance_cache.c: the cache.
 *
 * Thread: the one that starts the program.
 * Memory: the instance's.
 */
#ifndef SERVER_INSTANCE_IMPL_H
#define SERVER_INSTANCE_IMPL_H

#include "server/instance.h"

/* With the model loaded: room for keys and values and for states, swap tiers, the manager of them,
 * and the scheduler's options. ERR_* with a sentence that names the setting. */
int instance_make_cache(struct instance *e, const struct config *c, unsigned flags, char *err,
                        size_t err_len);
/* Lines for what there is beside keys and values. */
void instance_log_cache(const struct instance *e, const struct config *c);

#endif
