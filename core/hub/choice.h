/* core/hub/choice.h - chooses the files of a repository that are the model a reference names.
 *
 * If there are GGUF files, the model is one of them, with all its parts: the one whose name has the
 * quantization that is wanted; else Q4_K_M, else Q8_0, else the first by name, as llama.cpp
 * chooses. Projectors of images (mmproj) and importance matrices are not models. If there are none,
 * or "safetensors" is wanted, the model is the folder: config.json, the files of the tokenizer, of
 * sampling and of pooling, and the weights with their index; never pickles or other formats. A
 * repository with a PEFT adapter and no model is the adapter's folder.
 *
 * Thread: any.
 * Memory: none.
 * Errors: ERR_NOENT with a sentence that says what there is instead; ERR_FORMAT: parts are missing.
 */
#ifndef CORE_HUB_CHOICE_H
#define CORE_HUB_CHOICE_H

#include <stddef.h>

struct hub_listing;

/* Set is_chosen of the files. *first is the path of the GGUF file to open (borrowed from the
 * listing), or "": the folder itself. The listing must be sorted. */
int hub_choose(struct hub_listing *l, const char *want, const char **first, char *err,
               size_t err_len);

#endif
