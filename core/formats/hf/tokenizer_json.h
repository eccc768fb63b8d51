/* core/formats/hf/tokenizer_json.h - tokenizer.json of a folder (hf_folder.h) as the keys of a GGUF
 * header.
 *
 * Two kinds: byte-level BPE, whose way to cut words is recognised by its patterns and named as GGUF
 * files name it, and SentencePiece's BPE with bytes to fall back on, whose merges become scores.
 * Which tokens are special follows the file, and the names that such tokens have by custom.
 *
 * Thread: the one that loads.
 * Memory: the writer's copies.
 * Errors: a sentence in the folder's `err`.
 */
#ifndef CORE_FORMATS_HF_TOKENIZER_JSON_H
#define CORE_FORMATS_HF_TOKENIZER_JSON_H

struct hf_folder;

/* Adds the keys to the folder's writer; hf_config_add() has been there. */
int hf_tokenizer_add(struct hf_folder *f);

#endif
