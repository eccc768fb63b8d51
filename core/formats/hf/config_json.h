/* core/formats/hf/config_json.h - config.json of a folder (hf_folder.h) as the keys of a GGUF
 * header.
 *
 * Llama, Qwen2 and Qwen3. What would change the arithmetic in a way that is not computed here is
 * refused, not ignored.
 *
 * Thread: the one that loads.
 * Memory: none.
 * Errors: a sentence in the folder's `err`.
 */
#ifndef CORE_FORMATS_HF_CONFIG_JSON_H
#define CORE_FORMATS_HF_CONFIG_JSON_H

struct hf_folder;

/* Adds the keys to the folder's writer and fills what the folder knows of its model. */
int hf_config_add(struct hf_folder *f);

#endif
