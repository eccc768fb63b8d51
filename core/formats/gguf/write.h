/* core/formats/gguf/write.h - writes GGUF version 3 files, for fixtures, benches and the demo
 * model.
 *
 * Keys and tensors are collected in memory and laid out by gguf_writer_finish(). Errors are
 * sticky: the calls may be made in a row and the result checked once, at the end.
 *
 * Thread: one owner.
 * Memory: everything added is copied, but for the tensors of gguf_writer_tensor_fill(), whose
 *         bytes are made when the file is laid out.
 */
#ifndef CORE_FORMATS_GGUF_WRITE_H
#define CORE_FORMATS_GGUF_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/formats/gguf/gguf.h"

struct gguf_writer;

int gguf_writer_create(struct gguf_writer **out);
void gguf_writer_destroy(struct gguf_writer **w);

void gguf_writer_u16(struct gguf_writer *w, const char *key, uint16_t value);
void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_writer_f32(struct gguf_writer *w, const char *key, float value);
void gguf_writer_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_writer_str(struct gguf_writer *w, const char *key, const char *value);
/* Add a text key whose value may hold NULs. */
void gguf_writer_text(struct gguf_writer *w, const char *key, struct gguf_str value);
void gguf_writer_str_array(struct gguf_writer *w, const char *key, const struct gguf_str *values,
                           size_t n);
void gguf_writer_f32_array(struct gguf_writer *w, const char *key, const float *values, size_t n);
void gguf_writer_i32_array(struct gguf_writer *w, const char *key, const int32_t *values, size_t n);

/* Add a copy of another file's key. */
void gguf_writer_kv(struct gguf_writer *w, const struct gguf_kv *kv);

/* Add a tensor and encode `values` (row-major, dims[0] contiguous) into `type`. */
void gguf_writer_tensor(struct gguf_writer *w, const char *name, enum block_type type,
                        uint32_t n_dims, const uint64_t *dims, const float *values);

/* Add a tensor whose encoded bytes `fill` makes, piece by piece from offset 0 on, each piece whole
 * blocks, or whole rows where rows have heads. `fill` and `ud` are borrowed until
 * gguf_writer_destroy(). */
typedef void gguf_writer_fill(void *ud, uint64_t offset, uint8_t *dst, size_t n);
void gguf_writer_tensor_fill(struct gguf_writer *w, const char *name, enum block_type type,
                             uint32_t n_dims, const uint64_t *dims, gguf_writer_fill *fill,
                             void *ud);

/* Add a tensor whose bytes are in another file and take no room here: for gguf_open_placed()
 * only. */
void gguf_writer_tensor_elsewhere(struct gguf_writer *w, const char *name, enum block_type type,
                                  uint32_t n_dims, const uint64_t *dims);

/* Return the file's bytes in *data (8-byte aligned; free with mem_free). 0, or the first error of
 * any call above: ERR_NOMEM, ERR_INVAL (a row that is not whole blocks, a dimension of 0, a name
 * that no reader takes, an invalid "general.alignment"), ERR_UNSUPPORTED (no encoder). */
int gguf_writer_finish(struct gguf_writer *w, uint8_t **data, size_t *bytes);

/* Write the file to a path, without a second copy of the data. ERR_IO: it cannot be written; then
 * no file is left. */
int gguf_writer_save(struct gguf_writer *w, const char *path);

#endif
