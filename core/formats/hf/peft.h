/* core/formats/hf/peft.h - a folder with a LoRA adapter as PEFT saves it, opened as if it were a
 * GGUF adapter.
 *
 * adapter_config.json tells how it is applied, adapter_model.safetensors holds the pairs. Names
 * become GGUF's (blk.0.attn_q.weight.lora_a) by the tables of the classes (classes.h), where the
 * matrix has its rows in the same order in both; the key adapter.lora.halves, Quire's own, says
 * that rows of queries and keys are in the order of published weights. Settings that would change
 * the arithmetic beyond y = W x + scale * B (A x) are refused by name: DoRA, biases, saved modules,
 * scales that differ from module to module. fan_in_fan_out only describes how the base model's
 * weights are stored.
 *
 * Thread: the one that loads.
 * Memory: the handle's, see gguf.h.
 * Errors: a sentence that names the folder, the file and what was found.
 * Source: huggingface.co/docs/peft, "PEFT checkpoint format" and LoraConfig.
 */
#ifndef CORE_FORMATS_HF_PEFT_H
#define CORE_FORMATS_HF_PEFT_H

#include <stdbool.h>
#include <stddef.h>

struct gguf;

#define PEFT_CONFIG "adapter_config.json"
#define PEFT_WEIGHTS "adapter_model.safetensors"

int peft_open(struct gguf **out, const char *folder, char *err, size_t err_len);

#endif
