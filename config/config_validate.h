/* config/config_validate.h - what the settings must fulfil among each other.
 *
 * Each alone is within its range already (options.inc).
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CONFIG_CONFIG_VALIDATE_H
#define CONFIG_CONFIG_VALIDATE_H

#include <stddef.h>

struct config;

/* One model's settings: 0, or ERR_INVAL with a sentence that names settings and values. */
int config_validate(const struct config *c, char *err, size_t err_len);

/* Each model's settings, and those of several beside each other. ERR_NOMEM too. `c` is what was
 * loaded: its list of models has been checked. */
int config_check_models(const struct config *c, char *err, size_t err_len);

#endif
