/* config/models.h - the models to serve, as in "chat=/models/chat.gguf, /models/embed.gguf".
 *
 * Items are PATH or NAME=PATH with commas between; blanks around them are ignored. The text before
 * the first '=' is a name, which may be OWNER/NAME, unless it begins like a path: ./a=b.gguf is a
 * path. An empty path is the demo model inside the binary: "" lists only that, and "NAME=" gives it
 * a name. A path may be a model of the Hub, hf:OWNER/NAME:QUANT (core/hub/reference.h), until it
 * has been fetched. A model without a given name is named after its file, folder or repository.
 *
 * Thread: any.
 * Memory: none.
 * Errors: a sentence that shows the item.
 */
#ifndef CONFIG_MODELS_H
#define CONFIG_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODELS_MAX 128
#define MODELS_MAX_NAME 127
#define MODELS_MAX_PATH 4095
#define MODELS_DEMO "quire-demo" /* name of the model inside the binary */

struct model_item {
    char name[MODELS_MAX_NAME + 1]; /* never empty: given, or the path's last part, cut to fit */
    char path[MODELS_MAX_PATH + 1]; /* empty: the demo model */
};

#define MODELS_MAX_TEXT (sizeof(struct model_item)) /* bytes of an item as text, with '=' in place
                                                     * of a NUL */

/* True: name[0..len) is a valid name of a model. MODELS_NAME_RULE is the rule as the end of a
 * sentence. */
#define MODELS_NAME_RULE                                                                           \
    "a model's name has 1 to 127 bytes of printable ASCII without blanks, quotes, backslashes "    \
    "and any of , = [ ], has slashes only between other characters, and does not begin like a "    \
    "path"
bool models_is_name(const char *name, size_t len);

/* Read the next item of *text and move *text past it; after the last one *text is NULL. 1: *out is
 * the item; 0: there are no more; ERR_INVAL with a sentence. */
int models_next(const char **text, struct model_item *out, char *err, size_t err_len);

/* Returns the number of items of a list, at most MODELS_MAX, all with different names; or
 * ERR_INVAL. */
int models_check(const char *text, char *err, size_t err_len);

/* Copy item i of a list that was checked and has more than i items. */
void models_get(const char *text, uint32_t i, struct model_item *out);

/* Return the index of a name in a list, or -1; an invalid item ends the search. `text` may be NULL,
 * as models_next() leaves it: an empty list. */
int models_find(const char *text, const char *name);

/* Write the names in a checked list, as in "a, b"; names that do not fit are cut. */
void models_names(const char *text, char *out, size_t size);

/* Write the item as a list with that item alone. */
void models_text(const struct model_item *item, char out[MODELS_MAX_TEXT]);

#endif
