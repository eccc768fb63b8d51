/* core/formats/hf/tensors.h - the tensors of a folder as those of a GGUF header.
 *
 * Each of theirs is given its name (classes.h); those of one name, experts or a weight with its
 * scales, become one tensor. What lies in the files as GGUF has it stays there; all else has a
 * recipe (recipe.h).
 *
 * Thread: the one that loads.
 * Memory: hf_tensors_release() frees; recipes belong to the handle once it is open.
 * Errors: a sentence in the folder's `err`.
 */
#ifndef CORE_FORMATS_HF_TENSORS_H
#define CORE_FORMATS_HF_TENSORS_H

#include "core/formats/gguf/gguf.h"
#include "core/formats/safetensors/safetensors.h"

struct hf_folder;

struct hf_tensors {               /* zero is a valid empty one */
    struct gguf_location *places; /* of the writer's tensors */
    uint64_t n_places;
};

/* Add all to the folder's writer; after hf_config_add(). */
int hf_tensors_add(struct hf_tensors *to, struct hf_folder *f, const struct safetensors *files);
/* `taken`: the recipes are another's. */
void hf_tensors_release(struct hf_tensors *t, bool taken);

#endif
