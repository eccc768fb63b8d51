/* config/models_dir.h - the models in a folder, as items of the setting `model`.
 *
 * A model is a .gguf file, all parts of a split one together, or a folder in it that holds a .gguf
 * file or a config.json. Models are named after their files and folders. Projectors of other kinds
 * of input (mmproj) and names that begin with a dot are ignored.
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

/* Append the folder's models whose names are not in the list yet, in the order of their names; of
 * two with the same name the first is taken. ERR_IO, ERR_NOMEM or ERR_INVAL with a sentence. */
int models_dir_add(const char *folder, struct buf *list, char *err, size_t err_len);

/* True: models_dir_add() can make this path for this folder. False for folder "". */
bool models_dir_has(const char *folder, const char *path);

#endif
