/* core/formats/hf/config.h - config.json as keys of a GGUF header: what its readers share.
 *
 * What most classes have is read by hf_config_add() (config_json.c, rope_json.c), by the row of the
 * class (classes.h); what a family has beside it by the functions at the end, in config_dense.c,
 * config_experts.c, config_gpt.c and config_recurrent.c. A setting that would change the arithmetic
 * in a way that is not computed is refused, not ignored.
 *
 * Thread: the one that loads.
 * Memory: the writer's copies.
 * Errors: a sentence in the folder's `err`.
 */
#ifndef CORE_FORMATS_HF_CONFIG_H
#define CORE_FORMATS_HF_CONFIG_H

#include "core/formats/hf_folder.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#define HF_MAX_SIZE (1u << 20)
#define HF_MAX_VOCAB (1u << 22)
#define HF_MAX_LAYERS 1024
#define HF_MAX_CONTEXT (1u << 30)

/* Keys of the architecture: ARCH.suffix. */
void hf_key_u32(struct hf_folder *f, const char *suffix, uint32_t v);
void hf_key_f32(struct hf_folder *f, const char *suffix, double v);
void hf_key_bool(struct hf_folder *f, const char *suffix, bool v);
void hf_key_text(struct hf_folder *f, const char *suffix, const char *v);
void hf_key_i32_array(struct hf_folder *f, const char *suffix, const int32_t *v, uint32_t n);

/* A whole number 1 .. most that must be there, as a key. */
int hf_need_key(struct hf_folder *f, const char *name, uint32_t most, const char *suffix);
/* A number above 0 as a key, if it is there. */
int hf_number_key(struct hf_folder *f, const char *name, const char *suffix);

/* Settings of which one value alone is computed: absent, or that one; else refused. */
int hf_only_bool(const struct hf_folder *f, const char *name, bool only);
int hf_only_text(const struct hf_folder *f, const char *name, const char *only);
int hf_only_number(const struct hf_folder *f, const char *name, double only);

/* The first of several names that config.json has ("a,b"), or NULL. */
const cJSON *hf_any_member(const struct hf_folder *f, const char *names, char name[64]);

/* Positions: rope_theta, rope_scaling or rope_parameters. */
int hf_rope_add(struct hf_folder *f);

/* The same for what has no common part: BertModel, with what sentence-transformers writes beside.
 */
int hf_bert_add(struct hf_folder *f);
int hf_nomic_add(struct hf_folder *f);
int hf_modern_bert_add(struct hf_folder *f);
/* What sentence-transformers writes: pooling; modules, prompts and settings that are not done here
 * are refused. */
int hf_sentence_add(struct hf_folder *f);

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

/* LFM2's width is not what the file says: it is put right before it is written. */
int hf_lfm2_adjust(struct hf_folder *f);
int hf_lfm2_add(struct hf_folder *f);
int hf_lfm2_moe_add(struct hf_folder *f);
int hf_qwen_next_add(struct hf_folder *f);

int hf_phi_add(struct hf_folder *f);
int hf_gpt_neox_add(struct hf_folder *f);
int hf_gpt2_add(struct hf_folder *f);
int hf_falcon_add(struct hf_folder *f);

#endif
