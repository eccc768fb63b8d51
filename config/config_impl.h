/* config/config_impl.h - the steps of config_load(): the settings file, and checks across settings.
 *
 * config_file.c reads name = value and the sections [NAME] of models. inih takes the lines apart,
 * but the heads of sections are read here: inih cuts their names at 49 bytes, and says nothing of a
 * section that is empty. config_validate.c checks what the settings must fulfil among each other;
 * each alone is within its range already (options.inc).
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

/* Read all of it; `s` says into what, and where sentences go. Whether sections are those of models
 * is told later, by config_file_check_sections(): flags may list other models. ERR_INVAL or
 * ERR_NOMEM. */
int config_file_load(const struct setting *s, const char *path);

/* Does each section belong to a model that is served, or that the file lists itself? */
int config_file_check_sections(const struct setting *s);

/* One model's settings: 0, or ERR_INVAL with a sentence that names settings and values. */
int config_validate(const struct config *c, char *err, size_t err_len);

/* Each model's settings, and those of several beside each other. ERR_NOMEM too. `c` is what was
 * loaded: its list of models has been checked. */
int config_check_models(const struct config *c, char *err, size_t err_len);

#endif
