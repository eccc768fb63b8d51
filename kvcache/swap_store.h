/* kvcache/swap_store.h - the bytes of swapped blocks: an arena in RAM and a file.
 *
 * A slot holds one block, all layers; swap.h knows to which copy it belongs. The checksum of each
 * file slot (XXH3, 64 bits) is kept in memory, so a read returns what was written, or an error.
 *
 * The file begins with a header page. It is locked while in use and removed by swap_store_close().
 * A file left by a process that was killed has the header and no lock, and is replaced, as is an
 * empty file; any other file at that path is left alone, and opening fails. The file is sparse: a
 * full disk is noticed only when writing.
 *
 * Thread: save and load: engine thread; write and read: any, one at a time per slot.
 * Memory: the arena is mapped at opening; pages cost RAM when first used.
 */
#ifndef KVCACHE_SWAP_STORE_H
#define KVCACHE_SWAP_STORE_H

#include <stddef.h>
#include <stdint.h>

struct swap_store_options {
    size_t block_bytes;
    uint32_t n_ram, n_file;
    const char *path; /* path of the file; used when n_file > 0 */
};

struct swap_store;

/* On failure `err` gets a sentence that names the path. ERR_IO, ERR_BUSY (another process uses it),
 * ERR_FORMAT (not a swap file), ERR_NOMEM. */
int swap_store_open(struct swap_store **out, const struct swap_store_options *options, char *err,
                    size_t err_len);
void swap_store_close(struct swap_store **s);

size_t swap_store_block_bytes(const struct swap_store *s);

void swap_store_save(struct swap_store *s, uint32_t ram, const void *block);
void swap_store_load(const struct swap_store *s, uint32_t ram, void *block);

/* Write n RAM slots to the file, or read them from it; the call waits for the disk. ERR_IO: disk
 * full, failure, short transfer, wrong checksum; errno is logged once a minute at most. */
int swap_store_write(struct swap_store *s, uint32_t n, const uint32_t *ram, const uint32_t *file);
int swap_store_read(struct swap_store *s, uint32_t n, const uint32_t *ram, const uint32_t *file);

#endif
