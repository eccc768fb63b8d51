/* server/cli/system_file.h - reads small files of /sys and /proc, of the machine or of a folder
 * in its place.
 *
 * Thread: any.
 * Memory: the caller's.
 * Errors: a file that cannot be read is "", or no number.
 */
#ifndef SERVER_CLI_SYSTEM_FILE_H
#define SERVER_CLI_SYSTEM_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read the text without the line end after it; false when there is none. `path` begins with '/'. */
bool system_file_read(const char *root, const char *path, char *text, size_t size);

/* Read a number at the beginning of the text. */
bool system_file_number(const char *root, const char *path, uint64_t *out);

/* Read the word in brackets of a text like "always [madvise] never"; else the whole text. */
bool system_file_choice(const char *root, const char *path, char *text, size_t size);

/* The least memory limit in bytes of the control groups of the process (v2 and v1); UINT64_MAX: no
 * limit. */
uint64_t system_file_memory_limit(const char *root);

#endif
