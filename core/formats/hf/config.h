/* core/formats/hf/config.h - config.json as keys of a GGUF header: functions that its readers
 * share.
 *
 * hf_config_add() (config_json.c, rope_json.c) reads the settings that most classes have, by the
 * row of the class (classes.h); the functions at the end, in config_dense.c, config_experts.c,
 * config_gpt.c and config_recurrent.c, read those of one family. A setting that would change the
 * arithmetic in a way that is not computed is refused, not ignored.
 *
 * Thread: the one that loads.
 * Memory: the writer's copies.
 * Errors: a sentence in the folder's `err`.
 */
#ifndef CORE_FORMATS_HF_CONFIG_H
#define CORE_FORMATS_HF_CONFIG_H

#include "core/formats/gguf/gguf.h"
#include "core/formats/hf_folder.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#define HF_DENSE_FOLDER "1_Dense"
#define HF_MAX_SIZE (1u << 20)
#define HF_MAX_VOCAB (1u << 22)
#define HF_MAX_LAYERS 1024
#define HF_MAX_CONTEXT (1u << 30)

/* Add a key of the architecture: ARCH.suffix. */
void hf_key_u32(struct hf_folder *f, const char *suffix, uint32_t v);
void hf_key_f32(struct hf_folder *f, const char *suffix, double v);
void hf_key_bool(struct hf_folder *f, const char *suffix, bool v);
void hf_key_text(struct hf_folder *f, const char *suffix, const char *v);
void hf_key_text_array(struct hf_folder *f, const char *suffix, const struct gguf_str *v,
                       size_t n);
void hf_key_i32_array(struct hf_folder *f, const char *suffix, const int32_t *v, uint32_t n);

/* Add a required setting, an integer 1 .. most, as a key. */
int hf_need_key(struct hf_folder *f, const char *name, uint32_t most, const char *suffix);
/* Add a number above 0 as a key, if the setting is there. */
int hf_number_key(struct hf_folder *f, const char *name, const char *suffix);

/* Check a setting that has one supported value: it must be absent or have that value. */
int hf_only_bool(const struct hf_folder *f, const char *name, bool only);
int hf_only_text(const struct hf_folder *f, const char *name, const char *only);
int hf_only_number(const struct hf_folder *f, const char *name, double only);

/* Return the first member of config.json that has one of these names ("a,b"), or NULL. */
const cJSON *hf_any_member(const struct hf_folder *f, const char *names, char name[64]);

/* Read positions: rope_theta, rope_scaling or rope_parameters. */
int hf_rope_add(struct hf_folder *f);

/* Read all of BertModel's config.json, which has no common part, and the files of
 * sentence-transformers. */
int hf_bert_add(struct hf_folder *f);
int hf_nomic_add(struct hf_folder *f);
int hf_modern_bert_add(struct hf_folder *f);
/* Read the files of sentence-transformers: pooling; modules, prompts and settings that are not
 * supported are refused. */
int hf_sentence_add(struct hf_folder *f);
/* Read sentence-transformers' module Dense in the folder 1_Dense, which makes the vectors of late
 * interaction. */
int hf_dense_add(struct hf_folder *f);
/* Look for the heads of bge-m3, which a folder may have. */
int hf_sparse_add(struct hf_folder *f);
/* Read the labels of a class that has some, of texts or tokens; other classes have nothing to
 * read. */
int hf_labels_add(struct hf_folder *f);

int hf_mixtral_add(struct hf_folder *f);
int hf_qwen_moe_add(struct hf_folder *f);
int hf_gpt_oss_add(struct hf_folder *f);
int hf_granite_moe_add(struct hf_folder *f);
int hf_deepseek_add(struct hf_folder *f);

int hf_gemma_add(struct hf_folder *f);
int hf_gemma2_add(struct hf_folder *f);
int hf_gemma3_add(struct hf_folder *f);
int hf_smollm3_add(struct hf_folder *f);
int hf_granite_add(struct hf_folder *f);
int hf_cohere_add(struct hf_folder *f);
int hf_stablelm_add(struct hf_folder *f);

/* LFM2's width differs from the setting: correct it before it is written. */
int hf_lfm2_adjust(struct hf_folder *f);
int hf_lfm2_add(struct hf_folder *f);
int hf_lfm2_moe_add(struct hf_folder *f);
int hf_qwen_next_add(struct hf_folder *f);

int hf_phi_add(struct hf_folder *f);
int hf_gpt_neox_add(struct hf_folder *f);
int hf_gpt2_add(struct hf_folder *f);
int hf_falcon_add(struct hf_folder *f);

#endif
