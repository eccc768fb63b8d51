/* core/model/weight_cache.h - keeps packed panels in a file, so that the next start need not pack
 * them.
 *
 * The file, all numbers in the writer's byte order:
 *
 *   header    one struct, see weight_cache.c: magic, byte order, version of this format, sizes, the
 *             id of what was packed, a checksum of the chunks' checksums, one of the header itself
 *   sums      a 64-bit XXH3 of each chunk of 4 MiB of panels, seeded with the chunk's number
 *   padding   to a multiple of 4,096 bytes
 *   panels    the bytes of the model's panel mapping, as the products read them
 *
 * The id identifies the packed model and the way it was packed: size and time of the model file, a
 * hash of all its bytes before the tensors' data, a hash of samples of the data (all that for every
 * file, where there are several), and a hash of the layout: the place and type of each matrix, and
 * the result of packing a known pattern into that type (so another version of the panels gives
 * another layout, without a version number).
 *
 * Nothing in the file is trusted: it must be a regular file that only its owner can write, the
 * owner being this process's user or root; anything that differs or fails its checksum is a reason,
 * as a text, not to use it. Files are written under another name, synced and renamed, so a reader
 * sees all or nothing.
 *
 * The panels are read into huge pages, not mapped. Mapping 0.5 GB and checking it would take 0.03 s
 * instead of 0.07 (two cores, from the page cache). But each decode step would then read the panels
 * 4 % slower where the file system has large folios and 15 % where it has 4 KiB pages (34 and 29
 * GB/s instead of 35), they could be evicted under memory pressure, and a truncation of the file
 * would end the process.
 *
 * Thread: weight_cache_load() makes threads of its own for the call. A writer works in a thread of
 *         its own, reading panels that no thread changes any more.
 * Memory: the caller's mapping; the writer is heap.
 * Errors: a short text for the log ("cause=..."); none of them is fatal.
 */
#ifndef CORE_MODEL_WEIGHT_CACHE_H
#define CORE_MODEL_WEIGHT_CACHE_H

#include <stddef.h>
#include <stdint.h>

#define WEIGHT_CACHE_MAX_PATH 4096
#define WEIGHT_CACHE_MAX_CAUSE 96

struct gguf;
struct matrix_job;
struct weight_cache_writer;

struct weight_cache_id {
    uint64_t model_bytes;   /* bytes of all files */
    int64_t model_mtime_ns; /* the sum of the files' times */
    uint64_t directory[2];  /* XXH3-128 of the file up to the tensors' data */
    uint64_t samples[2];   /* hash of samples of the data */
    uint64_t layout[2];    /* hash of the offsets and types of the matrices, and of the panels'
                            * form */
};

void weight_cache_identify(struct weight_cache_id *id, const struct gguf *g,
                           const struct matrix_job *jobs, size_t n_jobs);

/* Write the path of a model file's cache: with `folder` NULL or "" beside the model, else in that
 * folder, under a name with a hash of the model's full path. ERR_LIMIT: the path is too long. */
int weight_cache_path(char path[WEIGHT_CACHE_MAX_PATH], const char *folder, const char *model);

/* Read the file into `panels` on n threads. 0; ERR_NOENT: there is no file; any other error:
 * `cause` says why the file is not used, and the panels may hold anything. */
int weight_cache_load(const char *path, const struct weight_cache_id *id, void *panels,
                      uint64_t bytes, uint32_t n_threads, char cause[WEIGHT_CACHE_MAX_CAUSE]);

/* Write the file on a thread of its own and log the outcome. `panels` must stay until the writer is
 * destroyed, which abandons an unfinished file. NULL, with a log line: out of memory, or no thread
 * could be started. */
struct weight_cache_writer *weight_cache_write(const char *path, const struct weight_cache_id *id,
                                               const void *panels, uint64_t bytes);
void weight_cache_writer_destroy(struct weight_cache_writer **w);

#endif
