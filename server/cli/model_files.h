/* server/cli/model_files.h - the time of a model's file or folder, and changes of its files.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_CLI_MODEL_FILES_H
#define SERVER_CLI_MODEL_FILES_H

#include <stdint.h>

/* Hash the places, sizes and times of the files; their contents are not read. Never 0; equal for
 * all paths that do not exist. "": the model inside the binary. */
uint64_t model_files_hash(const char *path);

/* Return the Unix seconds at which the file last changed; of a folder the latest of its files with
 * weights (.safetensors, .gguf). "": the model inside the binary, whose time is the binary's. 0:
 * there is no file, or the time is in January 1970, which stands for no time in images of
 * containers and in packages. */
int64_t model_files_time(const char *path);

#endif
