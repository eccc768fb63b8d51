/* core/formats/hf_folder.h - a folder with a model as Hugging Face's transformers save it.
 *
 * config.json says what the model is, tokenizer.json (and tokenizer_config.json) how it reads,
 * *.safetensors hold the weights. Each hf_* module turns one of these into keys of a GGUF header,
 * which only exists in memory; model.h puts them together.
 *
 * Nothing in the files is believed: sizes, depths and counts have limits, and whatever is not as
 * expected is a sentence.
 *
 * Thread: the one that loads.
 * Memory: hf_folder_release() frees the trees and the writer.
 * Errors: FOLDER/FILE: WHAT WAS FOUND, in `err`.
 */
#ifndef CORE_FORMATS_HF_FOLDER_H
#define CORE_FORMATS_HF_FOLDER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf_writer;
struct hf_class;

#define HF_CONFIG "config.json"
#define HF_TOKENIZER "tokenizer.json"
#define HF_TOKENIZER_CONFIG "tokenizer_config.json"
#define HF_MAX_PATH 4096
#define HF_MAX_STEPS 16 /* of a normalizer; the longest in use has 6 */
#define HF_MAX_HEAD 128 /* pairs of numbers that rope rotates in a head: longest head / 2 */

/* A small tensor that config.json has: of rope, a number for each pair. */
#define HF_MAX_VECTORS 2
struct hf_vector {
    const char *name;
    uint32_t n;
    float v[HF_MAX_HEAD];
};

struct hf_folder {
    const char *path;
    const char *forced_pre; /* the setting tokenizer_pre, or "" */
    struct gguf_writer *w;
    cJSON *config, *tokenizer, *tokenizer_config; /* the last one: NULL when there is none */
    char *err;
    size_t err_len;
    /* What hf_config_add() finds: */
    const struct hf_class *class;
    const char *arch; /* as GGUF files name it */
    uint32_t n_vocab, n_ctx, n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, n_rot;
    double rope_base;
    uint32_t n_skipped; /* positions before the first: FIT_BEHIND_PAD */
    bool is_tied;       /* the output is the embedding */
    bool is_parallel;   /* StableLM: no norm before a layer's second branch */
    struct hf_vector vectors[HF_MAX_VECTORS];
    uint32_t n_vectors;
    /* hf_normalizer_add() puts the steps of "normalizer" here: the first n_general are done as they
     * stand, those behind them are what SentencePiece does itself. */
    const cJSON *steps[HF_MAX_STEPS];
    uint32_t n_steps, n_general;
};

/* Read the JSON files and make the writer. */
int hf_folder_open(struct hf_folder *f, const char *path, const char *forced_pre, char *err,
                   size_t err_len);
void hf_folder_release(struct hf_folder *f);

/* FOLDER/FILE: the sentence; returns rc. */
int hf_fail(const struct hf_folder *f, int rc, const char *file, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A text of a file for messages: cut, and what is not printable ASCII becomes "?". */
const char *hf_printable(char *dst, size_t size, const char *text);

/* FOLDER/FILE as a path. ERR_LIMIT with a sentence. */
int hf_path(const struct hf_folder *f, const char *file, char path[HF_MAX_PATH]);

/* The JSON object in a file of at most `max` bytes. ERR_NOENT: there is none. */
int hf_read(const struct hf_folder *f, const char *file, size_t max, cJSON **out);
/* The same for a list of a file. */
int hf_read_list(const struct hf_folder *f, const char *file, size_t max, cJSON **out);
/* hf_read() of bytes that were read already. */
int hf_parse(const struct hf_folder *f, const char *file, const char *text, size_t n, cJSON **out);
/* `n` bytes of a regular file from `at` on (less at its end: *n); its size goes to *size. */
int hf_read_bytes(const struct hf_folder *f, const char *file, uint64_t at, char *to, size_t *n,
                  uint64_t *size);

/* Members of an object of `file`. Absent ones and null leave *v alone; what is no whole number
 * within lo .. hi, or no number above 0, or no truth value is refused. */
int hf_u32(const struct hf_folder *f, const char *file, const cJSON *o, const char *name,
           uint32_t lo, uint32_t hi, uint32_t *v);
int hf_positive(const struct hf_folder *f, const char *file, const cJSON *o, const char *name,
                double *v);
int hf_bool(const struct hf_folder *f, const char *file, const cJSON *o, const char *name, bool *v);
/* A text, or NULL when it is absent or something else. */
const char *hf_text(const cJSON *o, const char *name);
const cJSON *hf_member(const cJSON *o, const char *name);

#endif
