/* core/formats/hf/model.h - a folder with config.json and *.safetensors, opened as if it were GGUF.
 *
 * The header that a GGUF file of the model would have is made in memory; the tensors stay in the
 * mapped safetensors files, and rows that GGUF has in another form are made one by one when the
 * model is packed (recipe.h). Names become GGUF's; types are F32, F16, BF16 and those of quant.h.
 *
 * Thread: the one that loads.
 * Memory: the handle's, see gguf.h.
 * Errors: a sentence that names the folder, the file and what was found.
 */
#ifndef CORE_FORMATS_HF_MODEL_H
#define CORE_FORMATS_HF_MODEL_H

#include <stddef.h>

struct gguf;

/* Open the folder. `pre`: the setting tokenizer_pre, used if the pretokenizer of tokenizer.json is
 * unknown; or "". */
int hf_model_open(struct gguf **out, const char *folder, const char *pre, char *err,
                  size_t err_len);

#endif
