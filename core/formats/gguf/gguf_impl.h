/* core/formats/gguf/gguf_impl.h - the inside of struct gguf, for the files that fill and read it.
 *
 * parse.c parses the keys, tensors.c the tensor infos, parts.c opens the other files of a set,
 * placed.c those that hold tensors of a header in memory.
 *
 * Thread: see gguf.h.
 * Memory: gguf_parse() allocates into the struct; gguf_close() frees, also after a failure.
 * Errors: as gguf_open().
 */
#ifndef CORE_FORMATS_GGUF_GGUF_IMPL_H
#define CORE_FORMATS_GGUF_GGUF_IMPL_H

#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/mapped_file.h"
#include "core/formats/gguf/name_index.h"

/* More than any model has by far (1024 layers have about 12,000 tensors); limits the memory that a
 * file of nothing but tiny entries can make us allocate. */
#define GGUF_MAX_KV (1u << 16)
#define GGUF_MAX_TENSORS (1u << 17)

/* The least bytes of a tensor's entry: the name's length and one byte of it, the number of
 * dimensions, one dimension, type, offset. */
#define GGUF_MIN_TENSOR_BYTES (8 + 1 + 4 + 8 + 4 + 8)

struct cursor;

struct gguf {
    char *name;
    struct mapped_file file;
    uint8_t *owned;   /* bytes to be freed, or NULL */
    struct gguf **more; /* [n_more] other files: parts, or files that hold tensors */
    uint32_t n_more;
    /* places of the tensors, while they are parsed; NULL: in the file */
    const struct gguf_location *places;
    bool owns_recipes; /* frees the tensors' recipes */
    uint64_t data_at; /* offset of the tensors' data */
    uint32_t version;
    uint64_t alignment; /* alignment of tensor data: a power of two, 8 .. 65536 */
    struct gguf_kv *kv;
    struct gguf_tensor *tensors;
    uint32_t n_kv; /* keys parsed so far, whose indices are freed */
    uint32_t n_tensors;     /* tensors of all files */
    uint32_t n_own_tensors; /* tensors whose data is in this file */
    struct name_index kv_index;
    struct name_index tensor_index;
};

int gguf_parse(struct gguf *g, char *err, size_t err_len);

/* Create an empty handle; create one with the file mapped and, if `parse`, parsed; make room for n
 * more files. */
struct gguf *gguf_create(const char *name);
int gguf_map(struct gguf **out, const char *path, bool parse, char *err, size_t err_len);
int gguf_make_room(struct gguf *g, uint32_t n, char *err, size_t err_len);

/* Open the other parts, if the file is one of a set. *g may become the first part's handle. */
int gguf_open_parts(struct gguf **g, char *err, size_t err_len);

/* Return the bytes of a scalar metadata type; 0 for strings, arrays and unknown types. */
size_t gguf_scalar_bytes(uint32_t type);

/* Parse the n tensor infos at the cursor; then place their data: inside the file, without
 * overlaps. */
int gguf_parse_tensors(struct gguf *g, struct cursor *p, uint32_t n);

#endif
