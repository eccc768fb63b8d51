/* server/cli/serve_reload.h - reads the settings again on SIGHUP: finds models that were added,
 * changed or removed, and settings that need a restart.
 *
 * A model whose section or path has changed gets its new settings when its requests have ended and
 * it has been unloaded; it is loaded again if it was loaded before. load, idle_unload, keep_loaded,
 * share, max_queue_ms and request_timeout take effect at once. Of the server's settings only
 * memory_limit and models_dir can change; changes of others, and of a model's settings that need a
 * restart, are logged.
 *
 * Thread: reading on a thread of a pool, one at a time; applying on the I/O thread.
 * Memory: the new settings, until they are applied.
 */
#ifndef SERVER_CLI_SERVE_RELOAD_H
#define SERVER_CLI_SERVE_RELOAD_H

#include "config/config.h"
#include "server/api/server_options.h"

struct serve_models;
struct serve_reload;

struct serve_reload_options { /* borrowed */
    struct serve_models *models;
    struct config *config; /* the server's settings in force */
    int argc;
    char *const *argv; /* arguments of the command line */
};

/* Create. ERR_NOMEM. */
int serve_reload_create(struct serve_reload **out, const struct serve_reload_options *options);
void serve_reload_destroy(struct serve_reload **r);

/* The functions for server_create(). */
struct server_reload serve_reload_callbacks(struct serve_reload *r);

#endif
