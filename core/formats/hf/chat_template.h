/* core/formats/hf/chat_template.h - the chat template of a folder (hf_folder.h) as a key of a GGUF
 * header.
 *
 * Thread: the one that loads.
 * Memory: the writer's copy.
 * Errors: a sentence in the folder's `err`.
 */
#ifndef CORE_FORMATS_HF_CHAT_TEMPLATE_H
#define CORE_FORMATS_HF_CHAT_TEMPLATE_H

struct hf_folder;

/* From tokenizer_config.json, or chat_template.jinja beside it; nothing when there is none. */
int hf_template_add(struct hf_folder *f);

#endif
