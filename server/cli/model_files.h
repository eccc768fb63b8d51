/* server/cli/model_files.h - has the file of a model, or what is in its folder, changed?
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_CLI_MODEL_FILES_H
#define SERVER_CLI_MODEL_FILES_H

#include <stdint.h>

/* A number of what the file system says of them: places, sizes and times. Never 0; the same for
 * all that is not there. The bytes are not read. "": the model inside the binary. */
uint64_t model_files_hash(const char *path);

#endif
