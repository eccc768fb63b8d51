/* core/formats/gguf/mapped_file.h - the bytes of a regular file, mapped read-only.
 *
 * Private to core/formats/gguf. Another process may truncate the file at any time: the missing part
 * then reads as zeros, and mapped_file_check() reports it.
 *
 * Thread: any may read and give hints.
 * Memory: address space; the pages are the kernel's. A zeroed struct is a valid empty file.
 * Errors: a sentence that names the file.
 */
#ifndef CORE_FORMATS_GGUF_MAPPED_FILE_H
#define CORE_FORMATS_GGUF_MAPPED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapped_file {
    const uint8_t *base;
    uint64_t bytes;
    void *mapping; /* NULL when the bytes are not from a file */
    int guard;     /* number of its guard: mapped_guard.h */
    uint64_t device, inode;
    int64_t mtime_ns;
};

/* Map the file. ERR_IO (cannot be opened or read, or is not a regular file), ERR_FORMAT (empty),
 * ERR_NOMEM. */
int mapped_file_open(struct mapped_file *f, const char *path, char *err, size_t err_len);
void mapped_file_close(struct mapped_file *f);

/* True: `data` is within the file's mapping. */
bool mapped_file_holds(const struct mapped_file *f, const void *data);

/* Hints about a part of the mapping; see gguf.h. */
void mapped_file_will_read(const struct mapped_file *f, const void *data, uint64_t bytes);
void mapped_file_has_read(const struct mapped_file *f, const void *data, uint64_t bytes);

/* Check that all bytes read so far could be read. ERR_IO with a sentence. */
int mapped_file_check_read(const struct mapped_file *f, const char *path, char *err,
                           size_t err_len);

/* Like mapped_file_check_read(), and check that the file was not written to since it was opened. A
 * new file under the same path is not a change: the mapping is of the old one. ERR_IO with a
 * sentence. */
int mapped_file_check(const struct mapped_file *f, const char *path, char *err, size_t err_len);

#endif
