/* core/formats/gguf/gguf.h - a GGUF file (versions 2 and 3), mapped and checked.
 *
 * One model may be split over several files, named X-00001-of-00003.gguf and so on, each with
 * tensors of its own; the keys are in the first. Opening any of them opens all, and what this
 * header says about the file holds for the set.
 *
 * The file is not trusted: every count, length, offset, type and alignment is checked against the
 * bytes that are there before it is used, and nothing is allocated in proportion to a number that
 * the file merely claims. After gguf_open() returns 0 every key, string, array and tensor lies
 * inside the mapping, names are unique, tensors are aligned, whole and do not overlap, so readers
 * need no further bounds checks. Lengths are kept as they were checked: a file that is changed
 * meanwhile gives other contents, but never an access outside of it (gguf_check_read()).
 *
 * Thread: gguf_open/close anywhere; reading an open file from any thread.
 * Memory: the directory is allocated, the data stays in the mapping; every pointer given out lives
 *         until gguf_close().
 * Errors: `err` receives one sentence that names the file and the key or tensor, and says what was
 *         found.
 * Source: github.com/ggml-org/ggml, docs/gguf.md (the format description).
 */
#ifndef CORE_FORMATS_GGUF_GGUF_H
#define CORE_FORMATS_GGUF_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/formats/gguf/blocks.h"
#include "core/formats/gguf/str.h"

#define GGUF_MAX_DIMS 4
#define GGUF_MAX_NAME 128 /* longest tensor name or key that is accepted: 127 bytes */

enum gguf_type { /* the metadata types, with the numbers of the file format */
                 GGUF_U8 = 0,
                 GGUF_I8 = 1,
                 GGUF_U16 = 2,
                 GGUF_I16 = 3,
                 GGUF_U32 = 4,
                 GGUF_I32 = 5,
                 GGUF_F32 = 6,
                 GGUF_BOOL = 7,
                 GGUF_STRING = 8,
                 GGUF_ARRAY = 9,
                 GGUF_U64 = 10,
                 GGUF_I64 = 11,
                 GGUF_F64 = 12,
};

struct gguf_kv {
    struct gguf_str key;
    enum gguf_type type;
    enum gguf_type elem;   /* type of an array's elements; nested arrays are refused at open */
    uint64_t count;        /* elements of an array, else 1 */
    uint64_t len;          /* bytes of a string */
    const uint8_t *data;   /* the value, or the first element: little-endian, unaligned */
    const uint64_t *index; /* arrays of strings: [count + 1] offsets of elements from `data` */
};

/* A run of bytes in one of the files. */
struct gguf_part {
    uint32_t file;
    uint64_t offset, bytes;
    const uint8_t *data; /* set by gguf_open_placed() */
};

/* Makes the rows of a tensor that no file contains in this form, each when gguf_row() asks for it,
 * so that a model is never in memory twice. Rows are numbered through all dimensions but the first.
 * Rows rows_each * k to rows_each * (k + 1) - 1 are made of parts n_each * k to n_each * (k + 1) -
 * 1. `make` may be called by several threads at once and writes gguf_row_bytes() bytes. A recipe is
 * one block of memory, freed with mem_free(). */
struct gguf_recipe {
    void (*make)(const struct gguf_recipe *r, uint64_t row, uint8_t *to);
    struct gguf_part *parts; /* [n_parts], in the same block */
    uint32_t n_parts, n_each;
    uint64_t rows_each;
    bool is_in_order; /* row i of n comes from bytes i/n .. (i + 1)/n of its parts */
    uint64_t id;      /* differs between recipes that make different rows of the same parts */
};

struct gguf_tensor {
    struct gguf_str name;
    enum block_type type;
    uint32_t n_dims;
    uint64_t dims[GGUF_MAX_DIMS]; /* dims[0] is contiguous (row length); unused ones are 1 */
    uint64_t bytes;
    const void *data; /* 8-byte aligned, unless gguf_open_placed() got another offset; NULL: a
                       * recipe makes the rows */
    const struct gguf_recipe *recipe; /* NULL: the rows are in `data` */
};

struct gguf;

/* Map and check the file. On failure *out is NULL and `err` holds the sentence.
 * ERR_IO (cannot open or read), ERR_FORMAT (malformed), ERR_UNSUPPORTED (another version, byte
 * order or tensor type), ERR_NOMEM. */
int gguf_open(struct gguf **out, const char *path, char *err, size_t err_len);

/* Open bytes in memory (borrowed until gguf_close) like a file; `name` stands for the path in
 * messages. `data` needs 8-byte alignment. */
int gguf_open_memory(struct gguf **out, const char *name, const void *data, size_t bytes, char *err,
                     size_t err_len);
void gguf_close(struct gguf **g);

/* Open a header in memory whose tensors are elsewhere: tensor i is `offset` bytes into file
 * `places[i].file` of `paths`, or, with GGUF_OWN_DATA, after the header as in any file, or, with a
 * recipe, made from its parts. They must be whole and not overlap there either. `head` and the
 * recipes are taken, to be freed with mem_free(), when this succeeds. */
#define GGUF_OWN_DATA UINT32_MAX
struct gguf_location {
    uint32_t file;
    uint64_t offset;
    struct gguf_recipe *recipe; /* or NULL; with a recipe the other members are ignored */
};
struct gguf_placed {
    const char *const *paths;
    uint32_t n_paths;
    const struct gguf_location *places;
    uint64_t n_places; /* the header's tensors */
};
int gguf_open_placed(struct gguf **out, const char *name, uint8_t *head, size_t bytes,
                     const struct gguf_placed *placed, char *err, size_t err_len);

/* Return the bytes of a row; return a row, which a recipe, if the tensor has one, makes in
 * `room`. */
uint64_t gguf_row_bytes(const struct gguf_tensor *t);
const uint8_t *gguf_row(const struct gguf_tensor *t, uint64_t row, uint8_t *room);

/* Hints about rows first .. first + n - 1 of a tensor: they will be read soon (prefetched from the
 * disk), or will not be read again (they leave the process's memory; reading them after all brings
 * them back). They do nothing for bytes in memory. Any thread. */
void gguf_will_read(const struct gguf *g, const struct gguf_tensor *t, uint64_t first, uint64_t n);
void gguf_has_read(const struct gguf *g, const struct gguf_tensor *t, uint64_t first, uint64_t n);

/* Return the path or name as given; for a set of files, the path of its first part. */
const char *gguf_name(const struct gguf *g);
uint32_t gguf_version(const struct gguf *g);
uint64_t gguf_file_bytes(const struct gguf *g); /* bytes of all files */
bool gguf_is_file(const struct gguf *g);        /* false: bytes in memory */

/* One of the files; the first one has the keys. */
struct gguf_file {
    const char *name;
    const uint8_t *data;
    uint64_t bytes;
    uint64_t data_at; /* offset of the tensors' data; 0: the whole file is data */
    uint64_t n_tensors;
    int64_t mtime_ns; /* mtime when it was opened; 0 in memory */
};
uint32_t gguf_n_files(const struct gguf *g);
struct gguf_file gguf_file_at(const struct gguf *g, uint32_t i);

/* Check that all bytes read so far were there. ERR_IO with a sentence: a file was truncated
 * meanwhile, or the disk failed. Zeros were read instead, which may have caused any other error. */
int gguf_check_read(const struct gguf *g, char *err, size_t err_len);

/* Like gguf_check_read(), and ERR_IO if one of the files was written to since it was opened. */
int gguf_check_unchanged(const struct gguf *g, char *err, size_t err_len);

uint64_t gguf_n_kv(const struct gguf *g);
const struct gguf_kv *gguf_kv_at(const struct gguf *g, uint64_t i);
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key); /* or NULL */

uint64_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, uint64_t i);
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name); /* or NULL */

/* Typed look-ups. 0 with *out set; ERR_NOENT when the key is absent (*out untouched, no sentence);
 * ERR_FORMAT with a sentence when it has another type or does not fit the range. Any integer type
 * is accepted for u32, any integer or float type for f32. */
int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out, char *err, size_t err_len);
int gguf_get_f32(const struct gguf *g, const char *key, float *out, char *err, size_t err_len);
int gguf_get_int(const struct gguf *g, const char *key, int64_t *out, char *err, size_t err_len);
int gguf_get_bool(const struct gguf *g, const char *key, bool *out, char *err, size_t err_len);
int gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out, char *err,
                 size_t err_len);
/* Look up an array whose elements have type `elem`; *out is its key-value pair. */
int gguf_get_array(const struct gguf *g, const char *key, enum gguf_type elem,
                   const struct gguf_kv **out, char *err, size_t err_len);

/* Return element i of an array; the caller has checked i < kv->count and the element type. */
struct gguf_str gguf_array_str(const struct gguf_kv *kv, uint64_t i);
float gguf_array_f32(const struct gguf_kv *kv, uint64_t i);
int64_t gguf_array_int(const struct gguf_kv *kv, uint64_t i); /* any integer type or bool */

const char *gguf_type_name(enum gguf_type type);

#endif
