/* config/setting.c - see setting.h.
 *
 * setting_apply() is the one way in which a text of any layer becomes a value: it finds the row,
 * sets the value and notes layer and place, or makes the error sentence. setting_holder() decides
 * between a section and the main config: a section's value counts unless a variable or a flag has
 * set the same setting.
 */
#include "config/setting.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

int setting_init(struct config *c)
{
    memset(c, 0, sizeof(*c));
    c->source = mem_calloc(1, sizeof(*c->source));
    return c->source != NULL ? 0 : ERR_NOMEM;
}

static void release_values(struct config *c)
{
    for (uint32_t id = 0; id < OPTION_N; id++)
        option_release(option_at(id), c);
    mem_free(c->source);
    memset(c, 0, sizeof(*c));
}

void setting_release(struct config *c)
{
    for (uint32_t i = 0; c->source != NULL && i < c->source->n_sections; i++) {
        release_values(&c->source->sections[i]->values);
        mem_free(c->source->sections[i]);
    }
    release_values(c);
}

int setting_apply(const struct setting *s, const char *name, const char *shown, const char *text)
{
    const uint32_t id = option_find(name);
    struct setting_origin *origin;
    char allowed[200];
    int rc;

    if (id == OPTION_N) {
        snprintf(s->err, s->err_len, "%s: unknown setting '%s'; --help lists them all", s->where,
                 shown);
        return ERR_INVAL;
    }
    rc = option_set(option_at(id), s->config, text);
    if (rc == ERR_NOMEM) {
        snprintf(s->err, s->err_len, "no memory for the setting '%s'", shown);
        return rc;
    }
    if (rc < 0) {
        option_allowed(option_at(id), allowed, sizeof(allowed));
        snprintf(s->err, s->err_len, "%s: '%s' must be %s, got '%s'", s->where, shown, allowed,
                 text);
        return ERR_INVAL;
    }
    origin = &s->config->source->of[id];
    origin->layer = s->layer;
    snprintf(origin->where, sizeof(origin->where), "%s", s->where);
    return 0;
}

const struct config_section *setting_section(const struct config *c, const char *model)
{
    for (uint32_t i = 0; i < c->source->n_sections; i++)
        if (strcmp(c->source->sections[i]->name, model) == 0)
            return c->source->sections[i];
    return NULL;
}

const struct config *setting_holder(const struct config *c, const struct config_section *section,
                                    uint32_t id)
{
    if (section == NULL || section->values.source->of[id].layer == SETTING_NONE)
        return c;
    return c->source->of[id].layer <= SETTING_FILE ? &section->values : c;
}
