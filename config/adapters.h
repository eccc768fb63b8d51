/* config/adapters.h - the LoRA adapters of a model, as in "sql=/a/sql.gguf, french=/a/french".
 *
 * Items are NAME=PATH with commas between; blanks around them are ignored. Names follow the rule of
 * models' names (models.h), because a request names an adapter as its model.
 *
 * Thread: any.
 * Memory: none.
 * Errors: a sentence that shows the item.
 */
#ifndef CONFIG_ADAPTERS_H
#define CONFIG_ADAPTERS_H

#include <stddef.h>

#include "config/models.h"

#define ADAPTERS_MAX 1024

/* Read the next item of *text and move *text past it; after the last one *text is NULL. 1: *out is
 * the item; 0: there are no more; ERR_INVAL with a sentence. */
int adapters_next(const char **text, struct model_item *out, char *err, size_t err_len);

/* Returns the number of items of a list, at most ADAPTERS_MAX, all with different names; or
 * ERR_INVAL. */
int adapters_check(const char *text, char *err, size_t err_len);

#endif
