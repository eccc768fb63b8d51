/* server/cli/serve_sandbox.c - see serve_sandbox.h.
 *
 * It reads the settings of the server and of all models, and adds each path that is used after the
 * start with the rights that are needed: read, change or remove. Then it enters the sandbox. A new
 * setting with a path needs a line here, or the server cannot use the path.
 */
#include "server/cli/serve_sandbox.h"

#include "config/adapters.h"
#include "config/config.h"
#include "config/models.h"
#include "core/base/err.h"
#include "core/hub/place.h"
#include "server/cli/serve_model.h"
#include "server/engine_io/store_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)CONFIG_SANDBOX_AUTO == SANDBOX_AUTO &&
                   (int)CONFIG_SANDBOX_STRICT == SANDBOX_STRICT &&
                   (int)CONFIG_SANDBOX_OFF == SANDBOX_OFF,
               "modes are in the order of their words");

static bool is_file_of_template(const char *setting)
{
    return setting[0] != '\0' && strcmp(setting, "plain") != 0 && strcmp(setting, "chatml") != 0;
}

/* Allow to read the weights, and to write their cache beside them if the settings say so. */
static void add_weights(struct sandbox_paths *p, const struct config *c, const char *path)
{
    sandbox_read(p, path);
    if (c->load != CONFIG_LOAD_START) /* the path may name another file when the model is loaded */
        sandbox_read_replaced(p, path);
    if (strcmp(c->weight_cache, "on") == 0) {
        sandbox_allow_folder_of(p, path, LANDLOCK_CHANGE);
        sandbox_allow(p, path, LANDLOCK_CHANGE);
    }
}

/* Allow the paths that the load of a model needs: models are loaded inside the sandbox, and create
 * caches and swap files then. The journal is already open. */
static void allow_model(struct sandbox_paths *p, const struct config *c)
{
    struct model_item item;

    models_get(c->model, 0, &item);
    add_weights(p, c, item.path);
    if (c->draft[0] != '\0')
        add_weights(p, c, c->draft);
    if (is_file_of_template(c->chat_template))
        sandbox_read(p, c->chat_template);
    if (access(c->tool_call_parser, F_OK) == 0) /* a description, not a parser's name */
        sandbox_read(p, c->tool_call_parser);
    if (strcmp(c->weight_cache, "on") != 0 && strcmp(c->weight_cache, "off") != 0)
        sandbox_allow(p, c->weight_cache, LANDLOCK_CHANGE);
    sandbox_allow_folder_of(p, c->swap_file, LANDLOCK_CHANGE);
}

/* Allow reading adapters, which are read again after they were evicted. */
static void add_adapters(struct sandbox_paths *p, const struct config *c)
{
    const char *list = c->adapters;
    struct model_item item;
    char err[8];

    while (adapters_next(&list, &item, err, sizeof(err)) > 0)
        sandbox_read(p, item.path);
    if (c->adapters_dir[0] != '\0')
        sandbox_allow(p, c->adapters_dir, LANDLOCK_READ);
}

static bool is_below(const char *path, const char *folder)
{
    const size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* Allow to read the Hub's cache, if a model or an adapter comes from it: it is searched when
 * settings are read again. */
static void add_hub(struct sandbox_paths *p, const struct served *models, uint32_t n_models)
{
    struct hub_place place;
    struct model_item item;
    bool is_used = false;
    char err[200];

    if (hub_place_init(&place, err, sizeof(err)) < 0)
        return;
    for (uint32_t i = 0; i < n_models; i++) {
        const struct config *c = &models[i].config;
        const char *list = c->adapters;

        models_get(c->model, 0, &item);
        is_used = is_used || is_below(item.path, place.cache) || is_below(c->draft, place.cache);
        while (adapters_next(&list, &item, err, sizeof(err)) > 0)
            is_used = is_used || is_below(item.path, place.cache);
    }
    if (is_used)
        sandbox_allow(p, place.cache, LANDLOCK_READ);
    explicit_bzero(place.token, sizeof(place.token));
}

/* Allow the files that are read again on SIGHUP, opened again on SIGUSR1, and removed at the
 * end. */
static void add_server(struct sandbox_paths *p, const struct config *c)
{
    if (config_path(c) != NULL)
        sandbox_read_replaced(p, config_path(c));
    if (c->models_dir[0] != '\0')
        sandbox_read(p, c->models_dir);
    sandbox_read_replaced(p, c->api_keys);
    sandbox_read_replaced(p, c->tls_certificate);
    sandbox_read_replaced(p, c->tls_key);
    sandbox_allow_folder_of(p, c->log_file, LANDLOCK_APPEND);
    if (c->slot_save_path[0] != '\0')
        sandbox_allow(p, c->slot_save_path, LANDLOCK_READ | LANDLOCK_CHANGE);
    if (c->batch_dir[0] != '\0')
        sandbox_allow(p, c->batch_dir, LANDLOCK_READ | LANDLOCK_CHANGE);
    sandbox_allow_folder_of(p, c->requests_db, LANDLOCK_READ | LANDLOCK_CHANGE);
    sandbox_allow_folder_of(p, c->unix_socket, LANDLOCK_REMOVE);
    sandbox_allow_folder_of(p, c->handover_socket, LANDLOCK_REMOVE);
}

/* Allow the paths at which tests hold the process. */
static void add_debug(struct sandbox_paths *p)
{
#ifdef QUIRE_DEBUG
    static const char *const variables[] = {"QUIRE_DEBUG_HOLD_LOAD", "QUIRE_DEBUG_HOLD_READ",
                                            "QUIRE_DEBUG_HOLD_PACK", "QUIRE_DEBUG_HOLD_PACKED",
                                            "QUIRE_DEBUG_HOLD_PARSE", "QUIRE_DEBUG_HOLD_RELOAD",
                                            "QUIRE_DEBUG_HOLD_ADAPTER",
                                            "QUIRE_DEBUG_HOLD_SETTINGS",
                                            "QUIRE_DEBUG_HOLD_LOAD_MODEL",
                                            "QUIRE_DEBUG_HOLD_KV_EVENTS"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        if (getenv(variables[i]) != NULL)
            sandbox_allow_folder_of(p, getenv(variables[i]), LANDLOCK_READ);
#else
    (void)p;
#endif
}

static void add_store(struct sandbox_paths *p, const struct store_place *place)
{
    if (place->is_on && place->is_redis)
        sandbox_connect(p, place->port);
    else if (place->is_on)
        sandbox_allow(p, place->folder, LANDLOCK_READ | LANDLOCK_CHANGE);
}

int serve_sandbox_enter(const struct config *c, const struct served *models, uint32_t n_models,
                        const struct store_place *place, struct sandbox_state *state, char *err,
                        size_t err_len)
{
    struct sandbox_paths *paths;
    int rc = sandbox_paths_create(&paths);

    if (rc < 0)
        return snprintf(err, err_len, "no memory for the sandbox"), rc;
    for (uint32_t i = 0; i < n_models; i++) {
        allow_model(paths, &models[i].config);
        add_adapters(paths, &models[i].config);
    }
    add_server(paths, c);
    add_hub(paths, models, n_models);
    add_store(paths, place);
    add_debug(paths);
    rc = sandbox_enter((enum sandbox_mode)c->sandbox, paths, state, err, err_len);
    sandbox_paths_destroy(&paths);
    return rc;
}
