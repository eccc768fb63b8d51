/* core/gguf/gguf_write.h - write GGUF version 3 files, for fixtures, benches and the demo model.
 *
 * Keys and tensors are collected in memory and laid out by gguf_writer_finish(). Errors are
 * sticky: the calls may be made in a row and the result checked once, at the end.
 *
 * Thread: one owner.
 * Memory: everything added is copied.
 */
#ifndef CORE_GGUF_GGUF_WRITE_H
#define CORE_GGUF_GGUF_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "core/gguf/gguf.h"

struct gguf_writer;

int gguf_writer_create(struct gguf_writer **out);
void gguf_writer_destroy(struct gguf_writer **w);

void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_writer_f32(struct gguf_writer *w, const char *key, float value);
void gguf_writer_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_writer_str(struct gguf_writer *w, const char *key, const char *value);
void gguf_writer_str_array(struct gguf_writer *w, const char *key, const struct gguf_str *values,
                           size_t n);
void gguf_writer_f32_array(struct gguf_writer *w, const char *key, const float *values, size_t n);
void gguf_writer_i32_array(struct gguf_writer *w, const char *key, const int32_t *values, size_t n);

/* Add a tensor and encode `values` (row-major, dims[0] contiguous) into `type`. */
void gguf_writer_tensor(struct gguf_writer *w, const char *name, enum block_type type,
                        uint32_t n_dims, const uint64_t *dims, const float *values);

/* The file's bytes (8-byte aligned; free with mem_free). 0, or the first error of any call above:
 * ERR_NOMEM, ERR_INVAL (row length no multiple of the block), ERR_UNSUPPORTED (no encoder). */
int gguf_writer_finish(struct gguf_writer *w, uint8_t **data, size_t *bytes);

/* gguf_writer_finish() into a file. */
int gguf_writer_save(struct gguf_writer *w, const char *path);

#endif
