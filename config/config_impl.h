/* config/config_impl.h - the steps of config_load(): the settings file, and checks across settings.
 *
 * config_file.c reads name = value and the sections [NAME] of models. inih splits the lines, but
 * section heads are read here, because inih cuts their names at 49 bytes and does not report empty
 * sections. config_validate.c checks rules between settings; the value of each alone is already
 * within its range (options.inc).
 *
 * Thread: one.
 * Memory: what is read goes into the struct config of the setting.
 * Errors: a sentence; of config_file_load() it begins with file:line.
 */
#ifndef CONFIG_CONFIG_IMPL_H
#define CONFIG_CONFIG_IMPL_H

#include <stddef.h>

struct config;
struct setting;

/* Read the file into the config of `s`; errors go to its `err`. Whether sections belong to models
 * is checked later, by config_file_check_sections(), because flags may list other models. ERR_INVAL
 * or ERR_NOMEM. */
int config_file_load(const struct setting *s, const char *path);

/* Check that each section belongs to a model that is served, or that the file itself lists. */
int config_file_check_sections(const struct setting *s);

/* Check one model's settings: 0, or ERR_INVAL with a sentence that names settings and values. */
int config_validate(const struct config *c, char *err, size_t err_len);

/* Check each model's settings, and rules between models. ERR_NOMEM too. `c` is the loaded config,
 * whose list of models has been checked. */
int config_check_models(const struct config *c, char *err, size_t err_len);

#endif
