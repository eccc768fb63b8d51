/* core/model/pack.h - matrices of a file into panels, on several threads.
 *
 * Types that the kernels know are interleaved as they are. Q5_0 becomes Q8_0: the same numbers.
 * The others are decoded and become F32 panels: the same numbers again, only larger.
 *
 * Thread: the calling thread packs too, and makes the progress calls.
 * Memory: scratch for 16 rows a thread, freed at the end.
 */
#ifndef CORE_MODEL_PACK_H
#define CORE_MODEL_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "core/model/load.h"
#include "core/model/model.h"

/* Does a matrix of this type grow to floats because no kernel knows it? */
bool pack_is_expanded(enum block_type type);

/* Pack all of the jobs, whose matrices have their place. 0; ERR_NOMEM; ERR_FORMAT when a tensor
 * holds a number that is not finite: *bad is the first such job. */
int pack_matrices(const struct matrix_job *jobs, size_t n, const struct model_options *options,
                  size_t *bad);

#endif
