/* core/formats/hf/pretokenizer_name.h - the name of the rules by which a tokenizer.json cuts text
 * into words.
 *
 * Thread: any.
 * Memory: static names.
 */
#ifndef CORE_FORMATS_HF_PRETOKENIZER_NAME_H
#define CORE_FORMATS_HF_PRETOKENIZER_NAME_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* The value of tokenizer.ggml.pre for the member "pre_tokenizer" of a byte-level tokenizer, or NULL
 * when it is none that is known. `whole_words`: are words that are tokens left whole, whatever the
 * merges say ("ignore_merges")? */
const char *hf_pretokenizer_name(const cJSON *pre_tokenizer, bool whole_words);

#endif
