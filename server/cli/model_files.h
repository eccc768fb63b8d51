/* server/cli/model_files.h - detects whether the file of a model, or a file in its folder, has
 * changed.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_CLI_MODEL_FILES_H
#define SERVER_CLI_MODEL_FILES_H

#include <stdint.h>

/* A hash of what the file system tells about the files: places, sizes and times; their contents are
 * not read. Never 0; the same for all paths that do not exist. "": the model inside the binary. */
uint64_t model_files_hash(const char *path);

#endif
