/* core/formats/hf_folder.h - a folder with a model as Hugging Face's transformers save it.
 *
 * config.json describes the model, tokenizer.json (and tokenizer_config.json) its tokenizer,
 * *.safetensors hold the weights. Each file of core/formats/hf turns one of these into keys of a
 * GGUF header, which only exists in memory; model.h puts them together.
 *
 * Nothing in the files is trusted: sizes, depths and counts have limits, and anything unexpected is
 * an error with a sentence.
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
#define HF_MAX_STEPS 16 /* most steps of a normalizer; the longest in use has 6 */
#define HF_MAX_HEAD 128 /* pairs of numbers that rope rotates in a head: longest head / 2 */

/* A small tensor that config.json contains: rope's factors, a number for each pair. */
#define HF_MAX_VECTORS 2
struct hf_vector {
    const char *name;
    uint32_t n;
    float v[HF_MAX_HEAD];
};

/* A head whose tensors are in a safetensors file of their own, as `weight` and `bias`, also behind
 * the prefix `theirs` ("linear."). In GGUF files they are called OURS.weight and OURS.bias. */
#define HF_MAX_HEADS 3
struct hf_head_file {
    const char *file, *theirs, *ours;
};

struct hf_folder {
    const char *path;
    const char *forced_pre; /* the setting tokenizer_pre, or "" */
    struct gguf_writer *w;
    cJSON *config, *tokenizer, *tokenizer_config; /* tokenizer_config: NULL when there is none */
    char *err;
    size_t err_len;
    /* filled by hf_config_add(): */
    const struct hf_class *class;
    const char *arch; /* name of the architecture in GGUF files */
    uint32_t n_vocab, n_ctx, n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, n_rot;
    double rope_base;
    uint32_t n_skipped; /* positions before the first: FIT_BEHIND_PAD */
    bool is_tied;       /* the embedding is the output matrix too */
    struct hf_head_file heads[HF_MAX_HEADS];
    uint32_t n_heads;
    bool is_parallel;   /* StableLM: no norm before a layer's second branch */
    struct hf_vector vectors[HF_MAX_VECTORS];
    uint32_t n_vectors;
    /* filled by hf_normalizer_add() with the steps of "normalizer": the first n_general are general
     * steps, those after them are SentencePiece's own */
    const cJSON *steps[HF_MAX_STEPS];
    uint32_t n_steps, n_general;
};

/* Read the JSON files and make the writer. */
int hf_folder_open(struct hf_folder *f, const char *path, const char *forced_pre, char *err,
                   size_t err_len);
void hf_folder_release(struct hf_folder *f);

/* Write the sentence after FOLDER/FILE; returns rc. */
int hf_fail(const struct hf_folder *f, int rc, const char *file, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Make a file's text fit for messages: cut, and bytes that are not printable ASCII become "?". */
const char *hf_printable(char *dst, size_t size, const char *text);

/* Write the path FOLDER/FILE. ERR_LIMIT with a sentence: it is too long. */
int hf_path(const struct hf_folder *f, const char *file, char path[HF_MAX_PATH]);

/* Read the JSON object in a file of at most `max` bytes. ERR_NOENT: there is no file. */
int hf_read(const struct hf_folder *f, const char *file, size_t max, cJSON **out);
/* Read the JSON list in a file. */
int hf_read_list(const struct hf_folder *f, const char *file, size_t max, cJSON **out);
/* Like hf_read(), of bytes that were read already. */
int hf_parse(const struct hf_folder *f, const char *file, const char *text, size_t n, cJSON **out);
/* Read `n` bytes of a regular file from `at` on (fewer at its end: *n); its size goes to *size. */
int hf_read_bytes(const struct hf_folder *f, const char *file, uint64_t at, char *to, size_t *n,
                  uint64_t *size);

/* Members of an object of `file`. Absent ones and null leave *v alone; a value that is not a whole
 * number within lo .. hi, a number above 0, or true or false is refused. */
int hf_u32(const struct hf_folder *f, const char *file, const cJSON *o, const char *name,
           uint32_t lo, uint32_t hi, uint32_t *v);
int hf_positive(const struct hf_folder *f, const char *file, const cJSON *o, const char *name,
                double *v);
int hf_bool(const struct hf_folder *f, const char *file, const cJSON *o, const char *name, bool *v);
/* Return a text, or NULL if it is absent or of another type. */
const char *hf_text(const cJSON *o, const char *name);
const cJSON *hf_member(const cJSON *o, const char *name);

#endif
