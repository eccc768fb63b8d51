/* config/setting.h - settings of a struct config with their origins, and the sections of the file.
 *
 * Used within config/ only. A section is a struct config of its own, in which only the settings of
 * the section have an origin; the others are empty.
 *
 * Thread: one.
 * Memory: setting_init() and setting_release() for the origins; strings are the struct config's.
 * Errors: a sentence that names source, setting, value and what is allowed.
 */
#ifndef CONFIG_SETTING_H
#define CONFIG_SETTING_H

#include "config/config.h"
#include "config/models.h"
#include "config/option.h"

#define SETTING_WHERE 160 /* "default", "quire.conf:7", "environment", "command line" */

enum setting_layer {
    SETTING_NONE = 0, /* not in this section */
    SETTING_DEFAULT,
    SETTING_FILE,
    SETTING_ENVIRONMENT,
    SETTING_FLAG,
};

struct setting_origin {
    enum setting_layer layer;
    char where[SETTING_WHERE];
};

struct config_section {
    char name[MODELS_MAX_NAME + 1];
    char where[SETTING_WHERE];
    bool is_listed; /* the file lists a model of this name */
    struct config values;
};

struct config_source {
    char path[4096]; /* path of the settings file; "": none was read */
    struct setting_origin of[OPTION_N];
    struct config_section *sections[MODELS_MAX];
    uint32_t n_sections;
};

/* The destination of values while a layer is read. */
struct setting {
    struct config *config;
    enum setting_layer layer;
    const char *where;
    char *err;
    size_t err_len;
};

/* Make an empty config: no values, no origins. ERR_NOMEM. */
int setting_init(struct config *c);
/* Release all that a config holds, its sections too. */
void setting_release(struct config *c);

/* Set name = text. `shown`: the name as it was written. ERR_INVAL or ERR_NOMEM, with a sentence. */
int setting_apply(const struct setting *s, const char *name, const char *shown, const char *text);

/* Return the section of a model, or NULL. */
const struct config_section *setting_section(const struct config *c, const char *model);
/* Return the config that has a setting's value for the model with this section (or NULL): the
 * section's, or `c` itself. */
const struct config *setting_holder(const struct config *c, const struct config_section *section,
                                    uint32_t id);

#endif
