/* core/formats/hf/tensors.h - the tensors of a folder as those of a GGUF header.
 *
 * Each tensor of the folder gets its GGUF name (classes.h); those with the same name, experts or a
 * weight with its scales, become one tensor. A tensor that has GGUF's form already stays in its
 * file; every other one gets a recipe (recipe.h).
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

struct hf_tensors {               /* all zero: empty */
    struct gguf_location *places; /* places of the writer's tensors */
    uint64_t n_places;
};

/* Add all tensors to the folder's writer; after hf_config_add(). */
int hf_tensors_add(struct hf_tensors *to, struct hf_folder *f, const struct safetensors *files);
/* `taken`: the handle owns the recipes now. */
void hf_tensors_release(struct hf_tensors *t, bool taken);

#endif
