/* core/formats/hf/hf_impl.h - the parts of a model folder (hf_folder.h) as keys of a GGUF header.
 *
 * config.json: the classes of classes.h. A setting that would change the arithmetic in a way that
 * is not computed here is refused, not ignored (config.h).
 *
 * tokenizer.json: byte-level BPE, whose pretokenizer is recognised by its patterns and named as in
 * GGUF files; SentencePiece's BPE with byte fallback, whose merges become scores; Unigram;
 * WordPiece with BERT's normalisation. A token is special if the file says so or its name is one
 * that special tokens have by custom.
 *
 * Thread: the one that loads.
 * Memory: the writer's copies.
 * Errors: a sentence in the folder's `err`.
 */
#ifndef CORE_FORMATS_HF_HF_IMPL_H
#define CORE_FORMATS_HF_HF_IMPL_H

#include "core/formats/gguf/gguf.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

struct hf_folder;

/* Add the keys of config.json to the writer, and fill the folder's fields about its model. */
int hf_config_add(struct hf_folder *f);

/* Add the keys of tokenizer.json and the chat template to the writer. Called after
 * hf_config_add(). */
int hf_tokenizer_add(struct hf_folder *f);

/* Add tokenizer.json of BertModel (WordPiece); settings that are not supported are refused. */
int hf_wordpiece_add(struct hf_folder *f);

/* Add a tokenizer.json of the kind Unigram, whose texts are put between two special tokens. */
int hf_unigram_add(struct hf_folder *f);

/* Add the special tokens by "post_processor": <s> a </s>, and for two texts <s> a </s></s> b </s>,
 * or one </s> between. `names`: of the tokens [n]. */
int hf_ends_add(struct hf_folder *f, const struct gguf_str *names, uint32_t n);

/* Add the ids of "eos_token_id" in config.json, in its text part and in generation_config.json
 * (NULL: there is none), as tokenizer.ggml.eos_token_ids: an end in any file is an end.
 * HF_OUTER_EOS: the name in f->config of config.json's own list beside that of its text part. */
#define HF_OUTER_EOS "outer eos_token_id"
#define HF_GENERATION_CONFIG "generation_config.json"
int hf_eos_add(struct hf_folder *f, const cJSON *generation_config);

/* "normalizer" of tokenizer.json, before the rest of it, except for WordPiece: fills f->steps, and
 * adds the general ones among them as tokenizer.ggml.normalizer.steps. */
int hf_normalizer_add(struct hf_folder *f);
/* True: the step writes spaces as U+2581, or adds one before the text. */
bool hf_is_space_step(const cJSON *step);
/* ERR_UNSUPPORTED with a sentence that names the step. */
int hf_normalizer_refuse(const struct hf_folder *f, const cJSON *step);

/* Return the enum token_side bits of an element of "added_tokens": how it treats the text around
 * it. */
int32_t hf_token_sides(const struct hf_folder *f, const cJSON *added);

/* Add the chat templates, from chat_template.jinja and additional_chat_templates/, else from
 * tokenizer_config.json; a folder without templates is valid. */
int hf_template_add(struct hf_folder *f);

/* Return the value of tokenizer.ggml.pre for the member "pre_tokenizer" of a byte-level tokenizer,
 * or NULL when it is not known. `whole_words`: words that are tokens stay whole, whatever the
 * merges are ("ignore_merges"). The name is static. */
const char *hf_pretokenizer_name(const cJSON *pre_tokenizer, bool whole_words);

#endif
