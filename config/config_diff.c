/* config/config_diff.c - finds settings that differ between two configs, and copies one; see
 * config.h.
 *
 * Values are compared as text, by option_show(), so one function serves all types. The server calls
 * these on SIGHUP, when it has loaded a second config beside the one in use: it copies settings
 * that may change at run time and reports the others.
 */
#include "config/config.h"

#include "config/setting.h"

#include <string.h>

static bool differs(const struct option *o, const struct config *a, const struct config *b)
{
    char x[32], y[32];

    return strcmp(option_show(o, a, x, sizeof(x)), option_show(o, b, y, sizeof(y))) != 0;
}

const char *config_differs(const struct config *a, const struct config *b, bool of_models,
                           uint32_t *at)
{
    while (*at < OPTION_N) {
        const struct option *o = option_at((*at)++);

        if ((o->scope == OPTION_MODEL) == of_models && o != option_at(OPTION_ID_model) &&
            differs(o, a, b))
            return o->name;
    }
    return NULL;
}

int config_take(struct config *c, const struct config *from, const char *name)
{
    return option_copy(option_at(option_find(name)), c, from);
}

const char *config_path(const struct config *c)
{
    return c->source->path[0] != '\0' ? c->source->path : NULL;
}
