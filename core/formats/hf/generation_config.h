/* core/formats/hf/generation_config.h - generation_config.json of a model folder, as GGUF keys.
 *
 * The members that vLLM takes as a server's defaults are read: temperature, top_p, top_k, min_p,
 * repetition_penalty, presence_penalty, frequency_penalty and max_new_tokens. They become
 * general.sampling.* (core/model/sampling_defaults.h), which checks their ranges. eos_token_id, a
 * number or a list, joins the ends that config.json names (hf_impl.h). do_sample is ignored, as in
 * vLLM.
 *
 * Thread: the one that loads.
 * Memory: the writer's copies.
 * Errors: a sentence in the folder's `err` for a file that is not a JSON object, or a member that
 *         is not a number; a missing file is not an error.
 */
#ifndef CORE_FORMATS_HF_GENERATION_CONFIG_H
#define CORE_FORMATS_HF_GENERATION_CONFIG_H

#include <stddef.h>

struct hf_folder;

/* Read the file and add its keys to the folder's writer. */
int hf_generation_config_add(struct hf_folder *f);
/* Take the text of a file that was read already. */
int hf_generation_config_take(struct hf_folder *f, const char *text, size_t n);

#endif
