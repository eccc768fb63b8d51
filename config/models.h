/* config/models.h - the models to serve, as in "chat=/models/chat.gguf, /models/embed.gguf".
 *
 * Items are PATH or NAME=PATH with commas between; blanks around them do not count. What stands
 * before the first '=' is a name, which may be OWNER/NAME, unless it begins as a path does, so that
 * ./a=b.gguf is one. An empty path
 * is the demo model inside the binary: "" lists that one alone, and "NAME=" gives it a name. A path
 * may be a model of the Hub, hf:OWNER/NAME:QUANT (core/hub/reference.h), until it has been fetched.
 * Where no name is given, the model is called after its file, folder or repository.
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
#define MODELS_DEMO "quire-demo" /* what the model inside the binary is called */

struct model_item {
    char name[MODELS_MAX_NAME + 1]; /* never empty: given, or the path's last name, cut to fit */
    char path[MODELS_MAX_PATH + 1]; /* empty: the demo model */
};

#define MODELS_MAX_TEXT (sizeof(struct model_item)) /* of an item as text: '=' in place of a NUL */

/* May models be called this? The rule as the end of a sentence. */
#define MODELS_NAME_RULE                                                                           \
    "a model's name has 1 to 127 bytes of printable ASCII without blanks, quotes, backslashes "    \
    "and any of , = [ ], slashes only between others, and does not begin as a path does"
bool models_is_name(const char *name, size_t len);

/* Read the next item of *text and move behind it; behind the last one *text is NULL. 1: *out is it;
 * 0: there are no more; ERR_INVAL with a sentence. */
int models_next(const char **text, struct model_item *out, char *err, size_t err_len);

/* How many items a list has: MODELS_MAX at most, no two with the same name; or ERR_INVAL. */
int models_check(const char *text, char *err, size_t err_len);

/* Item i of a list that has been checked, and has as many. */
void models_get(const char *text, uint32_t i, struct model_item *out);

/* The index of a name in a list, or -1; an item that cannot be read ends the search. Also for what
 * models_next() has left: NULL is no list. */
int models_find(const char *text, const char *name);

/* "a, b": the names in a list that has been checked; what has no room is cut. */
void models_names(const char *text, char *out, size_t size);

/* The item as a list of its own. */
void models_text(const struct model_item *item, char out[MODELS_MAX_TEXT]);

#endif
