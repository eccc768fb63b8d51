/* server/storage/slot_file.h - a slot's text with its keys and values, in a file.
 *
 * All numbers in the writer's byte order:
 *
 *   header   one struct, see slot_file.c: magic, version, byte order, the owner, sizes, and a
 *            checksum (XXH3, 64 bits) of the header and all that follows up to the blocks
 *   ids      the text's tokens, 32 bits each
 *   sums     a 64-bit XXH3 of each block
 *   blocks   keys and values of 16 tokens each, as in the cache, in the order of the text
 *
 * `kv_id` identifies the model that computed them: a file of another model, another type of keys or
 * another context is refused. `owner` is the tenant: each owner has file names of its own, and
 * cannot open another one's file. Nothing in a file is trusted: a file that differs, is cut off, or
 * fails a checksum is refused with a sentence.
 *
 * A file is written under another name and renamed when it is on the disk, so a reader sees all or
 * nothing. It has its full size from the beginning.
 *
 * Thread: any, one call at a time; every call may wait for a disk.
 * Memory: ids and sums: 8 bytes a token at most.
 * Errors: *e filled: a 400 or 404 for the client's mistakes, a 413 when the folder's limit is
 *         reached, a 503 when the disk fails.
 */
#ifndef SERVER_STORAGE_SLOT_FILE_H
#define SERVER_STORAGE_SLOT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/error.h"
#include "server/storage/slot_folder.h"

#define SLOT_FILE_MAX_NAME 200 /* bytes of a client's name; the file's name is longer if it has an
                                * owner */

struct slot_file;

struct slot_file_owner {
    uint64_t kv_id[2];
    uint64_t owner; /* 0: no owner */
    uint64_t block_bytes;
    uint32_t n_vocab;
    uint32_t max_tokens; /* most tokens of a text */
    struct slot_limits limits; /* limits of the folder, for slot_file_create() */
};

/* True: `name` is a file name without a path: no '/', no '\\', no control characters, neither "."
 * nor "..", no leading dot, 1 to SLOT_FILE_MAX_NAME bytes. */
bool slot_file_is_name(const char *name);

/* Create a file, to be filled with n_blocks blocks, slot_file_finish()ed and closed. */
int slot_file_create(struct slot_file **out, const char *folder, const char *name,
                     const struct slot_file_owner *owner, const int32_t *ids, uint32_t n_ids,
                     uint32_t n_blocks, struct api_error *e);
int slot_file_write(struct slot_file *f, uint32_t first, uint32_t n, const uint8_t *bytes,
                    struct api_error *e);
/* Complete the file and give it its name; called when all blocks were written. */
int slot_file_finish(struct slot_file *f, struct api_error *e);

int slot_file_open(struct slot_file **out, const char *folder, const char *name,
                   const struct slot_file_owner *owner, struct api_error *e);
int slot_file_read(struct slot_file *f, uint32_t first, uint32_t n, uint8_t *bytes,
                   struct api_error *e);
const int32_t *slot_file_ids(const struct slot_file *f, uint32_t *n_ids);
uint32_t slot_file_n_blocks(const struct slot_file *f);
uint64_t slot_file_bytes(const struct slot_file *f);

/* Close the file; an unfinished one is removed. *f may be NULL. */
void slot_file_close(struct slot_file **f);

#endif
