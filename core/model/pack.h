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

/* Pack all of the jobs, whose matrices have their panels mapped and whose tensors are in `g`. Each
 * part of the file is prefetched, and dropped when it is packed. 0; ERR_NOMEM; ERR_FORMAT when a
 * tensor holds a number that is not finite: *bad is the first such job. */
int pack_matrices(const struct gguf *g, const struct matrix_job *jobs, size_t n,
                  const struct model_options *options, size_t *bad);

/* Bytes of the file that a job packs, and the type of the packed rows. */
uint64_t pack_job_bytes(const struct matrix_job *job);
enum block_type pack_job_type(const struct matrix_job *job);

#endif
