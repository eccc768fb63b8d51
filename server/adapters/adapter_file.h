/* server/adapters/adapter_file.h - finds an adapter's file and opens it, in each supported format.
 *
 * Thread: any.
 * Memory: the caller's.
 */
#ifndef SERVER_ADAPTERS_ADAPTER_FILE_H
#define SERVER_ADAPTERS_ADAPTER_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define ADAPTER_FILE_MAX_PATH 4096

struct gguf;

/* Open an adapter: a GGUF file, a folder saved by PEFT, or a folder with one GGUF file. ERR_* with
 * a sentence. */
int adapter_file_open(struct gguf **out, const char *path, char *err, size_t err_len);

/* Resolve a client's path, with its links: false unless it exists inside the folder. */
bool adapter_file_find(const char *folder, const char *path, char found[ADAPTER_FILE_MAX_PATH]);

#endif
