/* core/model/pack.h - packs matrices of a file into panels, on several threads.
 *
 * Every type is interleaved as it is: the kernels know them all. Only floats that the job wants in
 * another type are quantised on the way, a panel's rows at a time.
 *
 * Thread: the calling thread packs too, and makes the progress calls.
 * Memory: none but the panels, which the caller has mapped.
 */
#ifndef CORE_MODEL_PACK_H
#define CORE_MODEL_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "core/model/load.h"
#include "core/model/model.h"

/* Pack all jobs; their panels are mapped and their tensors are in `g`. Each part of the file is
 * prefetched, and dropped from memory when it is packed. 0; ERR_NOMEM; ERR_FORMAT: a tensor has a
 * value that is not finite, and *bad is the first such job. */
int pack_matrices(const struct gguf *g, const struct matrix_job *jobs, size_t n,
                  const struct model_options *options, size_t *bad);

/* Return how many bytes of the file a job packs; the type of its packed rows. */
uint64_t pack_job_bytes(const struct matrix_job *job);
enum block_type pack_job_type(const struct matrix_job *job);

#endif
