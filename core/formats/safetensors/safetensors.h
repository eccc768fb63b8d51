/* core/formats/safetensors/safetensors.h - the tensors in the *.safetensors files of a folder
 * (hf_folder.h).
 *
 * A file is the length of its header (8 bytes), the header (JSON: for each name a type, a shape and
 * the range of its bytes in the data), and the data. The files are model.safetensors, or those that
 * model.safetensors.index.json lists with the tensors in each.
 *
 * Every header is checked: sizes, types, shapes that fit their bytes, bytes within the file, no
 * name twice (but in files of heads, hf_folder.h), and, with an index, that it and the headers
 * agree. gguf_open_placed() checks that tensors do not overlap.
 *
 * Thread: the one that loads.
 * Memory: names are borrowed from the headers' trees; safetensors_release() frees.
 * Errors: a sentence in the folder's `err`.
 */
#ifndef CORE_FORMATS_SAFETENSORS_SAFETENSORS_H
#define CORE_FORMATS_SAFETENSORS_SAFETENSORS_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

struct hf_folder;

#define SAFETENSORS_ONE "model.safetensors"
#define SAFETENSORS_INDEX "model.safetensors.index.json"
#define SAFETENSORS_MAX_DIMS 4

struct safetensor {
    const char *name;
    const char *type; /* "F32", "BF16", ... */
    uint32_t n_dims;  /* UINT32_MAX: more than SAFETENSORS_MAX_DIMS */
    uint64_t dims[SAFETENSORS_MAX_DIMS]; /* the last one is contiguous */
    uint32_t file;
    uint64_t offset, bytes; /* place of the data in the file */
};

struct safetensors { /* all zero: empty */
    const char **files;
    cJSON **heads; /* parsed header of each file */
    uint32_t n_files;
    uint32_t n_main; /* files of the model itself; those after them are of the folder's heads, in
                      * their order */
    uint64_t head_bytes; /* bytes of all headers */
    cJSON *index; /* NULL: there is no index */
    struct safetensor *items; /* sorted by name, those of the model before those of each head */
    size_t n_items;
};

int safetensors_read(struct safetensors *s, const struct hf_folder *f);
/* Read the one file of that name (borrowed). */
int safetensors_read_file(struct safetensors *s, const struct hf_folder *f, const char *name);
void safetensors_release(struct safetensors *s);

#endif
