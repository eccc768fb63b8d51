/* config/config.h - every setting once, read-only after start.
 *
 * defaults < file < the file's section of a model < environment (QUIRE_KV_MEMORY) < flags
 * (--kv-memory). The list is options.inc; this struct, the parser, the range errors, --help and the
 * check of quire.conf all come from it.
 *
 * `model` may list several models (models.h). The loaded config holds the values outside the
 * sections; config_model() gives the settings of one model, with the values of its section in
 * force.
 *
 * Thread: loaded once by main(), then const.
 * Memory: strings are owned; config_release() frees them.
 * Errors: one sentence naming key, value and what is allowed; the caller exits with 2.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/words.h"

struct config {
#define STR(scope, name, def, help) char *name;
#define INT(scope, name, def, min, max, help) int64_t name;
#define SIZE(scope, name, def, min, max, help) uint64_t name;
#define ENUM(scope, name, def, list, help) enum config_##list name;
#define NUM(scope, name, kind, min, max, help) double name; /* NAN: auto */
#include "config/options.inc"
#undef STR
#undef INT
#undef SIZE
#undef ENUM
#undef NUM
    struct config_source *source; /* private: where each value came from, and the sections */
};

enum config_action { /* what the command line asks for besides settings */
    CONFIG_RUN = 0,
    CONFIG_HELP,
    CONFIG_PRINT, /* --print-config */
    CONFIG_VERSION,
};

/* Read all layers. argv[0] is skipped; `--config FILE` names the file (QUIRE_CONFIG too; a named
 * file must exist). Flags are --name value or --name=value. ERR_INVAL with a sentence. */
int config_load(struct config *c, int argc, char *const *argv, enum config_action *action,
                char *err, size_t err_len);
void config_release(struct config *c);

/* Return the number of models to serve, at least 1. */
uint32_t config_n_models(const struct config *c);
/* Replace the value of the setting `model` by a list with the same names. ERR_NOMEM, or ERR_INVAL
 * with a sentence. */
int config_set_models(struct config *c, const char *list, char *err, size_t err_len);
/* Set *out to the settings in force for model i; the caller releases them. In *out `model` lists
 * only that model, and `load` is not auto. ERR_NOMEM with a sentence. */
int config_model(struct config *out, const struct config *c, uint32_t i, char *err, size_t err_len);

/* True: other machines of the network can use the server without a key, although no setting says
 * that this is intended. */
bool config_is_exposed(const struct config *c);

/* Return the path of the settings file that was read, or NULL. */
const char *config_path(const struct config *c);

/* Return the name of the next setting, from *at on, whose values in a and b differ: a setting of
 * the whole server or, with of_models, of models, but never `model`. NULL: there are no more. */
const char *config_differs(const struct config *a, const struct config *b, bool of_models,
                           uint32_t *at);
/* Copy the value of one setting. ERR_NOMEM: the old value stays. */
int config_take(struct config *c, const struct config *from, const char *name);

/* Print name = value # source, one line for each setting; then, for each model with a section, its
 * [NAME] and the values in force of the settings in the section. */
void config_print(const struct config *c, FILE *out);

/* Return the value of a setting as text: in `buf` (32 bytes are enough), or a string owned by the
 * config. The name must be one of options.inc. */
const char *config_show(const struct config *c, const char *name, char *buf, size_t size);

/* Print the options part of --help. */
void config_print_help(FILE *out);

/* Parse "512m" into bytes (k, m, g, t: powers of 1024). ERR_INVAL, ERR_RANGE. */
int config_parse_size(const char *text, uint64_t *out);

#endif
