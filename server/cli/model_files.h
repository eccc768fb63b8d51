/* server/cli/model_files.h - detects changes of a model's file, or of a file in its folder.
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

#endif
