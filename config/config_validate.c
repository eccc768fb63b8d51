/* config/config_validate.c - see config_impl.h.
 *
 * config_validate() runs a table of small checks over the settings of one model; each returns at
 * its first violation with a sentence that names both settings, their values and the remedy.
 * config_check_models() does that for each model's view, then checks what several models must not
 * share: files that are written, and aliases.
 */
#include "config/config_impl.h"

#include "config/adapters.h"
#include "config/config.h"
#include "config/duration.h"
#include "config/endpoints.h"
#include "config/hosts.h"
#include "config/networks.h"
#include "config/objectives.h"
#include "config/origins.h"
#include "config/setting.h"
#include "config/weights.h"
#include "core/base/err.h"
#include "core/base/name_list.h"

#include <inttypes.h>
#include <string.h>

static int check_batch(const struct config *c, char *err, size_t err_len)
{
    if (c->max_batch_tokens >= c->max_sequences)
        return 0;
    snprintf(err, err_len,
             "'max_batch_tokens' (%" PRId64 ") must be at least 'max_sequences' (%" PRId64
             "): every running sequence needs a row in each step",
             c->max_batch_tokens, c->max_sequences);
    return ERR_INVAL;
}

static int check_swap(const struct config *c, char *err, size_t err_len)
{
    if (c->swap_file[0] != '\0' && c->swap_file_size == 0) {
        snprintf(err, err_len,
                 "'swap_file_size' must be above 0 when 'swap_file' is set, got 0 for '%s'",
                 c->swap_file);
        return ERR_INVAL;
    }
    if (c->preemption == CONFIG_PREEMPTION_SWAP && c->swap_ram == 0 && c->swap_file[0] == '\0') {
        snprintf(err, err_len,
                 "'preemption' is swap, but there is no swap space: set 'swap_ram' above 0, or "
                 "'swap_file' and 'swap_file_size'");
        return ERR_INVAL;
    }
    return 0;
}

/* kv_events needs a model that is loaded once: its readers rely on sequence numbers that never
 * start again. */
static int check_loading(const struct config *c, char *err, size_t err_len)
{
    uint64_t us;

    if (c->idle_unload[0] != '\0' && duration_parse(c->idle_unload, &us) < 0) {
        snprintf(err, err_len,
                 "'idle_unload' must be a duration such as 30s, 10m or 1h30m, or empty, got "
                 "'%.100s'",
                 c->idle_unload);
        return ERR_INVAL;
    }
    if (c->kv_events != CONFIG_KV_EVENTS_OFF &&
        (c->load != CONFIG_LOAD_START || c->idle_unload[0] != '\0')) {
        snprintf(err, err_len,
                 "'kv_events' needs a model that stays loaded: set load = start, and leave "
                 "idle_unload empty");
        return ERR_INVAL;
    }
    return 0;
}

static int check_watermarks(const struct config *c, char *err, size_t err_len)
{
    if (c->kv_critical_percent <= c->kv_low_percent)
        return 0;
    snprintf(err, err_len,
             "'kv_critical_percent' (%" PRId64 ") must not be above 'kv_low_percent' (%" PRId64 ")",
             c->kv_critical_percent, c->kv_low_percent);
    return ERR_INVAL;
}

/* Check the tenant header's name by RFC 9110's rule for field names. */
static int check_header(const struct config *c, char *err, size_t err_len)
{
    for (const char *p = c->tenant_header; *p != '\0'; p++) {
        if (*p > ' ' && *p < 0x7f && strchr("\"(),/:;<=>?@[\\]{}", *p) == NULL)
            continue;
        snprintf(err, err_len, "'tenant_header' must be the name of an HTTP header, got '%s'",
                 c->tenant_header);
        return ERR_INVAL;
    }
    return 0;
}

/* True: the name is listed again in the rest of the list. */
static bool is_repeated(const char *text, const char *name)
{
    struct weight w;

    while (weights_next(&text, &w) > 0)
        if (strcmp(w.name, name) == 0)
            return true;
    return false;
}

/* Return the number of weights, or ERR_INVAL. */
static int64_t count_weights(const char *text, char *err, size_t err_len)
{
    struct weight w;
    int64_t n = 0;
    int rc;

    while ((rc = weights_next(&text, &w)) > 0) {
        n++;
        if (is_repeated(text, w.name)) {
            snprintf(err, err_len, "'tenant_weights' contains '%s' twice", w.name);
            return ERR_INVAL;
        }
    }
    if (rc == 0)
        return n;
    snprintf(err, err_len,
             "'tenant_weights' must be pairs name=weight separated by commas, names of 1 to %d "
             "bytes and weights from 1 to %d, got '%s'",
             WEIGHTS_MAX_NAME, WEIGHTS_MAX_VALUE, text);
    return ERR_INVAL;
}

static int check_weights(const struct config *c, char *err, size_t err_len)
{
    const int64_t n = count_weights(c->tenant_weights, err, err_len);

    if (n < 0)
        return (int)n;
    if (n > 0 && c->tenant_header[0] == '\0' && c->api_keys[0] == '\0') {
        snprintf(err, err_len,
                 "'tenant_weights' has no effect without 'tenant_header' or 'api_keys', which tell "
                 "the tenant of a request: set one of them");
        return ERR_INVAL;
    }
    /* Two more: one for requests without a name, one shared by names beyond the limit. */
    if (n > 0 && n + 2 > c->max_tenants) {
        snprintf(err, err_len,
                 "'max_tenants' must be at least %" PRId64 " for the %" PRId64
                 " names in 'tenant_weights', got %" PRId64,
                 n + 2, n, c->max_tenants);
        return ERR_INVAL;
    }
    return 0;
}

static int check_listen(const struct config *c, char *err, size_t err_len)
{
    const char *mode = c->unix_socket_mode;

    if (c->host[0] == '\0' && c->unix_socket[0] == '\0') {
        snprintf(
            err, err_len,
            "'host' and 'unix_socket' are both empty, so no client could connect: set one of them");
        return ERR_INVAL;
    }
    if (strlen(mode) < 3 || strlen(mode) > 4 || strspn(mode, "01234567") != strlen(mode)) {
        snprintf(err, err_len,
                 "'unix_socket_mode' must be three or four octal digits, such as 660, got '%s'",
                 mode);
        return ERR_INVAL;
    }
    return 0;
}

static int check_tls(const struct config *c, char *err, size_t err_len)
{
    if ((c->tls_certificate[0] == '\0') == (c->tls_key[0] == '\0'))
        return 0;
    snprintf(err, err_len, "'tls_certificate' and 'tls_key' must be set together; only '%s' is set",
             c->tls_key[0] == '\0' ? "tls_certificate" : "tls_key");
    return ERR_INVAL;
}

static int check_origins(const struct config *c, char *err, size_t err_len)
{
    if (c->cors_origins[0] == '\0' || origins_are_valid(c->cors_origins))
        return 0;
    snprintf(err, err_len,
             "'cors_origins' must be * or origins such as https://a.example:8443 separated by "
             "commas, without paths and blanks, got '%s'",
             c->cors_origins);
    return ERR_INVAL;
}

static int check_hosts(const struct config *c, char *err, size_t err_len)
{
    if (c->allowed_hosts[0] == '\0' || hosts_are_valid(c->allowed_hosts))
        return 0;
    snprintf(err, err_len,
             "'allowed_hosts' must be * or names such as llm.example.org separated by commas, "
             "without ports and blanks, got '%s'",
             c->allowed_hosts);
    return ERR_INVAL;
}

static int check_proxies(const struct config *c, char *err, size_t err_len)
{
    if (c->trusted_proxies[0] != '\0' && !networks_are_valid(c->trusted_proxies)) {
        snprintf(err, err_len,
                 "'trusted_proxies' must be * or addresses, networks such as 10.0.0.0/8 and unix, "
                 "separated by commas, got '%.200s'",
                 c->trusted_proxies);
        return ERR_INVAL;
    }
    if (!objectives_are_valid(c->objectives)) {
        snprintf(err, err_len,
                 "'objectives' must be NAME=PRIORITY items separated by commas, each priority low, "
                 "normal, high or critical, got '%.200s'",
                 c->objectives);
        return ERR_INVAL;
    }
    if (c->objectives[0] == '\0' || c->trusted_proxies[0] != '\0')
        return 0;
    snprintf(err, err_len,
             "'objectives' has no effect without 'trusted_proxies', whose headers name the "
             "objectives: set both or neither");
    return ERR_INVAL;
}

static int check_alias(const struct config *c, char *err, size_t err_len)
{
    if (name_list_is_valid(c->alias))
        return 0;
    snprintf(err, err_len, "'alias' must be " NAME_LIST_RULE ", got '%.200s'", c->alias);
    return ERR_INVAL;
}

static int check_metrics_names(const struct config *c, char *err, size_t err_len)
{
    const char *list = c->metrics_names;
    struct name_list_item item;
    bool is_known = name_list_is_valid(list) && list[strspn(list, " \t")] != '\0';

    while (is_known && name_list_next(&list, &item)) {
        char name[NAME_LIST_MAX_NAME + 1];

        snprintf(name, sizeof(name), "%.*s", (int)item.len, item.text);
        is_known = name_list_has("quire,vllm,llamacpp", name);
    }
    if (is_known)
        return 0;
    snprintf(err, err_len,
             "'metrics_names' must be one or more of quire, vllm and llamacpp separated by commas, "
             "got '%.200s'",
             c->metrics_names);
    return ERR_INVAL;
}

static int check_adapters(const struct config *c, char *err, size_t err_len)
{
    const int n = adapters_check(c->adapters, err, err_len);

    return n < 0 ? n : 0;
}

static int check_endpoint(const char *setting, const char *text, char *err, size_t err_len)
{
    struct endpoint e;

    if (endpoint_parse(text, &e) == 0)
        return 0;
    snprintf(err, err_len,
             "'%s' must be tcp://ADDRESS:PORT, such as tcp://*:5557 or tcp://[::1]:5557, got '%s'",
             setting, text);
    return ERR_INVAL;
}

#define MAX_TOPIC 400

static int check_kv_events(const struct config *c, char *err, size_t err_len)
{
    int rc = check_endpoint("kv_events_endpoint", c->kv_events_endpoint, err, err_len);

    if (rc == 0 && c->kv_events_replay_endpoint[0] != '\0')
        rc = check_endpoint("kv_events_replay_endpoint", c->kv_events_replay_endpoint, err,
                            err_len);
    if (rc == 0 && strlen(c->kv_events_topic) > MAX_TOPIC) {
        snprintf(err, err_len, "'kv_events_topic' must have at most %d bytes, got %zu", MAX_TOPIC,
                 strlen(c->kv_events_topic));
        rc = ERR_INVAL;
    }
    return rc;
}

int config_validate(const struct config *c, char *err, size_t err_len)
{
    static int (*const checks[])(const struct config *c, char *err, size_t err_len) = {
        check_batch, check_swap, check_loading, check_watermarks, check_header, check_weights,
        check_listen, check_tls, check_origins, check_hosts, check_proxies, check_alias,
        check_metrics_names, check_adapters, check_kv_events,
    };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(checks) / sizeof(checks[0]); i++)
        rc = checks[i](c, err, err_len);
    return rc;
}

/* ---- several models ---- */

/* Return the value of a setting that names a file (journal or swap_file) for model i; "": none. */
static const char *file_of(const struct config *c, uint32_t i, uint32_t id,
                           struct model_item *item)
{
    const struct config *from;

    models_get(c->model, i, item);
    from = setting_holder(c, setting_section(c, item->name), id);
    return id == OPTION_ID_journal ? from->journal : from->swap_file;
}

/* Check that no two models have the same file for a setting: each file may be written by one model
 * only. */
static int check_file(const struct config *c, uint32_t n, uint32_t id, char *err, size_t err_len)
{
    struct model_item a, b;

    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = 0; j < i; j++) {
            const char *file = file_of(c, i, id, &b), *other = file_of(c, j, id, &a);

            if (file[0] == '\0' || strcmp(file, other) != 0)
                continue;
            snprintf(err, err_len,
                     "two models cannot share one '%s', but '%s' and '%s' both have '%s': set it "
                     "in their sections [%s] and [%s] of the file",
                     option_at(id)->name, a.name, b.name, file, a.name, b.name);
            return ERR_INVAL;
        }
    return 0;
}

/* Return the aliases of model i; *item gets the model. */
static const char *aliases_of(const struct config *c, uint32_t i, struct model_item *item)
{
    models_get(c->model, i, item);
    return setting_holder(c, setting_section(c, item->name), OPTION_ID_alias)->alias;
}

/* Check that no alias of model i is the name or an alias of model j. */
static int check_two_aliases(const struct config *c, uint32_t i, uint32_t j, char *err,
                             size_t err_len)
{
    struct model_item a, b;
    struct name_list_item item;
    const char *list = aliases_of(c, i, &a), *others = aliases_of(c, j, &b);

    while (name_list_next(&list, &item)) {
        char name[NAME_LIST_MAX_NAME + 1];

        snprintf(name, sizeof(name), "%.*s", (int)item.len, item.text);
        if (strcmp(name, b.name) != 0 && !name_list_has(others, name))
            continue;
        snprintf(err, err_len,
                 "the 'alias' '%s' of the model '%s' is also a name of the model '%s': set it in "
                 "only one section of the file",
                 name, a.name, b.name);
        return ERR_INVAL;
    }
    return 0;
}

static int check_aliases(const struct config *c, uint32_t n, char *err, size_t err_len)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++)
        for (uint32_t j = 0; rc == 0 && j < n; j++)
            if (i != j)
                rc = check_two_aliases(c, i, j, err, err_len);
    return rc;
}

/* Check model i's settings; where there are several models the sentence names it. */
static int check_model(const struct config *c, uint32_t i, uint32_t n, char *err, size_t err_len)
{
    struct model_item item;
    struct config own;
    int len = 0, rc = config_model(&own, c, i, err, err_len);

    if (rc < 0)
        return rc;
    models_get(c->model, i, &item);
    if (n > 1)
        len = snprintf(err, err_len, "model '%s': ", item.name);
    len = len < (int)err_len ? len : (int)err_len;
    rc = config_validate(&own, err + len, err_len - (size_t)len);
    config_release(&own);
    return rc;
}

int config_check_models(const struct config *c, char *err, size_t err_len)
{
    const uint32_t n = config_n_models(c);
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = check_model(c, i, n, err, err_len);
    if (rc == 0)
        rc = check_file(c, n, OPTION_ID_swap_file, err, err_len);
    if (rc == 0)
        rc = check_file(c, n, OPTION_ID_journal, err, err_len);
    return rc == 0 ? check_aliases(c, n, err, err_len) : rc;
}

bool config_is_exposed(const struct config *c)
{
    return !hosts_is_local_address(c->host) && c->api_keys[0] == '\0' && c->insecure != CONFIG_ON;
}
