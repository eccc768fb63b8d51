/* kvcache/swap.h - keeps track of the swapped copies of sequences: slots in RAM, slots in a file.
 *
 * Bookkeeping only; the bytes are in swap_store. A copy is always made in RAM slots, so that the
 * engine never waits for a disk. When RAM is more than half full the oldest copies are written to
 * the file in the background, and read back before they are wanted:
 *
 *   RAM --write--> WRITING --ok--> FILE --fetch--> READING --ok--> RAM
 *                     | failed: RAM, and no new write    | failed: LOST
 *                     v   for a number of swap_outs
 *
 * While WRITING the copy in RAM is still whole and can be used. A copy that is dropped while I/O is
 * under way keeps its slots until the I/O has ended.
 *
 * Thread: engine thread only.
 * Memory: taken in swap_create().
 */
#ifndef KVCACHE_SWAP_H
#define KVCACHE_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#define SWAP_NONE UINT32_MAX /* no copy */
#define SWAP_MAX_IO 4        /* writes and reads under way at a time */

enum swap_state { SWAP_RAM = 0, SWAP_WRITING, SWAP_FILE, SWAP_READING, SWAP_LOST };

struct swap_options {
    uint32_t n_ram, n_file; /* slots of one block each; n_ram >= 1 when n_file > 0 */
    uint32_t max_copies;    /* copies at a time */
    uint32_t max_blocks;    /* blocks in one copy */
};

struct swap_stats {
    uint32_t n_copies;
    uint32_t ram_slots, ram_used, file_slots, file_used; /* used: reserved or filled */
    uint64_t blocks_out[2], blocks_in[2]; /* moved, by tier: 0 RAM, 1 file */
    uint64_t n_refused;                   /* calls of swap_add() that found no room */
    uint64_t n_write_errors, n_read_errors; /* failed transfers of copies, not of blocks */
};

struct swap_io { /* to be carried out by swap_transfers; arrays stay valid until swap_io_done() */
    uint32_t copy;
    bool is_write;
    uint32_t n; /* slots */
    const uint32_t *ram, *file; /* [n] */
};

struct swap;

int swap_create(struct swap **out, const struct swap_options *options);
void swap_destroy(struct swap **s);

/* True: swap_add() of n blocks would find room. */
bool swap_can_add(const struct swap *s, uint32_t n);

/* Reserve RAM for a copy of n blocks; *ram is its slots [n]. Returns the copy (>= 0), or ERR_AGAIN
 * (counted) with nothing changed. */
int64_t swap_add(struct swap *s, uint32_t n, const uint32_t **ram);

/* Return the *n RAM slots of a copy whose state is RAM or WRITING; NULL in other states. */
const uint32_t *swap_slots(const struct swap *s, uint32_t copy, uint32_t *n);
enum swap_state swap_where(const struct swap *s, uint32_t copy);
uint32_t swap_n_blocks(const struct swap *s, uint32_t copy);

/* Drop a copy whose blocks are in the cache again; n_loaded of them were loaded from RAM (for the
 * statistics). */
void swap_used(struct swap *s, uint32_t copy, uint32_t n_loaded);
void swap_drop(struct swap *s, uint32_t copy);

/* Ask that a copy in the file be read into RAM. 0: it is in RAM or being read, and stays in RAM
 * until it is used or dropped; ERR_AGAIN: no RAM slots or too much I/O under way (try again later);
 * ERR_IO: the copy is lost. */
int swap_fetch(struct swap *s, uint32_t copy);

/* True: a transfer that will free RAM slots is under way or due. */
bool swap_is_freeing(const struct swap *s);

/* The next write or read to start; false: none now. */
bool swap_next_io(struct swap *s, struct swap_io *out);
/* End a transfer: rc is 0, or negative if it failed. The copy may have been dropped meanwhile. */
void swap_io_done(struct swap *s, uint32_t copy, int rc);
uint32_t swap_n_io(const struct swap *s); /* transfers under way */

struct swap_stats swap_stats(const struct swap *s);
/* Check that every slot is free or belongs to one copy, and that counts agree. */
bool swap_check(const struct swap *s);

#endif
