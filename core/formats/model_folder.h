/* core/formats/model_folder.h - finds the model that a folder holds.
 *
 * A folder holds one GGUF file, or the parts of one, or a model as transformers save it
 * (config.json). If it holds several GGUF files, the error lists them, so that one can be named;
 * subfolders are not searched.
 *
 * Thread: any.
 * Memory: the caller's.
 * Errors: a sentence that names the folder.
 */
#ifndef CORE_FORMATS_MODEL_FOLDER_H
#define CORE_FORMATS_MODEL_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#define MODEL_FOLDER_MAX_PATH 4096

bool model_folder_is(const char *path);

/* Set `path` to the GGUF file in the folder, or, with *is_hf, to the folder itself without a slash
 * at its end. */
int model_folder_find(const char *folder, char path[MODEL_FOLDER_MAX_PATH], bool *is_hf, char *err,
                      size_t err_len);

#endif
