/* config/adapters.h - the LoRA adapters of a model, as in "sql=/a/sql.gguf, french=/a/french".
 *
 * Items are NAME=PATH with commas between; blanks around them do not count. Names are as models'
 * (models.h), since requests call adapters like models.
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

/* Read the next item of *text and move behind it; behind the last one *text is NULL. 1: *out is it;
 * 0: there are no more; ERR_INVAL with a sentence. */
int adapters_next(const char **text, struct model_item *out, char *err, size_t err_len);

/* How many items a list has: ADAPTERS_MAX at most, no two with the same name; or ERR_INVAL. */
int adapters_check(const char *text, char *err, size_t err_len);

#endif
