/* config/models_dir.h - the models in a folder, as items of the setting `model`.
 *
 * Each .gguf file is one, or all parts of a split one, and each folder in it that holds a .gguf
 * file or a config.json. They are called after their files and folders. Projectors of other kinds
 * of input (mmproj) are none, nor is what begins with a dot.
 *
 * Thread: any.
 * Memory: the caller's.
 * Errors: a sentence that names the folder.
 */
#ifndef CONFIG_MODELS_DIR_H
#define CONFIG_MODELS_DIR_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

/* Append those that have no name of the list's models, in the order of their names; a name that
 * comes twice is the first one's. ERR_IO, ERR_NOMEM or ERR_INVAL with a sentence. */
int models_dir_add(const char *folder, struct buf *list, char *err, size_t err_len);

/* Is the path one that models_dir_add() makes for this folder? "" is none. */
bool models_dir_has(const char *folder, const char *path);

#endif
