/* core/base/file_stem.h - the default name of a model: its file's name without folder and
 * extension.
 *
 * Thread: any.
 * Memory: none; the stem is a part of the path.
 */
#ifndef CORE_BASE_FILE_STEM_H
#define CORE_BASE_FILE_STEM_H

#include <stddef.h>

/* Set *stem to the last name in the path of a model's file, of a part of it or of its folder,
 * without .gguf and the part's number. Returns the stem's length in bytes: 0 for an empty path. */
size_t file_stem(const char *path, const char **stem);

#endif
