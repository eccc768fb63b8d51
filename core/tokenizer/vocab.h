/* core/tokenizer/vocab.h - the tokens of a model: their bytes, kinds, scores and special roles.
 *
 * Private to core/tokenizer. A piece is kept as the bytes that it stands for (a space for U+2581,
 * raw bytes for byte-level letters), and text is looked up by these bytes. Only normal and
 * user-defined pieces can be looked up, so plain text never becomes a control token.
 *
 * Thread: read-only once loaded.
 * Memory: owns copies of everything.
 * Errors: loading gives a sentence naming the file and the key.
 */
#ifndef CORE_TOKENIZER_VOCAB_H
#define CORE_TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/token.h"

struct gguf;
struct gguf_kv;

enum vocab_model { VOCAB_SPM = 0, VOCAB_BPE, VOCAB_WPM, VOCAB_UGM };

enum token_type { /* the numbers of tokenizer.ggml.token_type */
                  TOKEN_NORMAL = 1,
                  TOKEN_UNKNOWN = 2,
                  TOKEN_CONTROL = 3,
                  TOKEN_USER_DEFINED = 4,
                  TOKEN_UNUSED = 5,
                  TOKEN_BYTE = 6,
};

/* How a special token treats the text around it. From tokenizer.ggml.token_sides, Quire's own key,
 * for vocabularies of tokenizer.json. */
enum token_side {
    TOKEN_TAKES_LEFT = 1 << 0,  /* takes the spaces before it (lstrip) */
    TOKEN_TAKES_RIGHT = 1 << 1, /* takes the spaces after it (rstrip) */
    TOKEN_ALONE = 1 << 2,       /* matches only where no word continues at its ends (single_word) */
    TOKEN_IN_NORMALIZED = 1 << 3, /* matches in normalized text (normalized); for user-defined
                                   * tokens */
};

struct chat_template {
    char *name, *text; /* NUL-terminated */
};

struct vocab {
    enum vocab_model model;
    int rules;   /* BPE: rules that cut the text (pretokenizer.h) */
    bool raw;    /* pieces are UTF-8 with U+2581 for spaces; else byte letters */
    bool rstrip; /* spaces after a special token belong to it (phi-3) */
    int32_t n;
    char *bytes;     /* all pieces, one after the other */
    uint32_t *at;    /* [n + 1] offset of each piece */
    uint8_t *type;   /* [n] enum token_type */
    uint8_t *sides;  /* [n] enum token_side bits of special tokens; NULL: all as the family does */
    float *score;    /* [n], SPM and UGM only */
    uint32_t *slots; /* open addressing: id + 1, 0 = empty */
    uint32_t mask;
    uint32_t longest;          /* bytes of the longest piece that can be looked up */
    int32_t byte_id[256];      /* the token of a single byte, or TOKEN_NONE */
    int32_t bos, eos, unknown; /* or TOKEN_NONE; bos is [CLS] for BERT */
    int32_t separator, gap;    /* or TOKEN_NONE; gap: [MASK], the token to guess */
    bool add_bos, add_eos, add_separator, add_space_prefix;
    /* SPM, from tokenizer.json's Metaspace (Quire's own keys): prefix_first: the space is added
     * only where the text begins, not after special tokens; prefix_once: not before another
     * space. */
    bool prefix_first, prefix_once;
    bool separates_pairs; /* a pair of texts has a separator after the first one's end token */
    bool merge_spaces;                /* UGM: runs of spaces become one, spaces at the ends are
                                       * dropped */
    bool lower_case, without_accents; /* WPM: normalization of a text */
    struct infill_tokens infill;
    int32_t *eog; /* ascending */
    size_t n_eog;
    struct chat_template *chat_templates; /* in the order of their names */
    size_t n_chat_templates;
    char *rerank_template; /* or NULL */
    struct text_prompt *prompts; /* or NULL */
    size_t n_prompts;
};

/* Load the vocabulary. `pre`: the pretokenizer rules to use whatever the file says; NULL or "": the
 * file's. */
int vocab_load(struct vocab *v, const struct gguf *g, const char *pre, char *err, size_t err_len);
void vocab_release(struct vocab *v);

/* Return the id of the piece with exactly these bytes, or TOKEN_NONE. */
int32_t vocab_find(const struct vocab *v, const char *bytes, size_t n);

static inline const char *vocab_piece(const struct vocab *v, int32_t id, size_t *n)
{
    *n = v->at[id + 1] - v->at[id];
    return v->bytes + v->at[id];
}

/* Load the roles: BOS, EOS, the ends of a generation, the flags and the chat templates
 * (special_roles.c). */
int vocab_load_roles(struct vocab *v, const struct gguf *g, char *err, size_t err_len);

/* Load v->eog: the ids in named[] (or TOKEN_NONE), those of tokenizer.ggml.eos_token_ids, and
 * tokens with the name of an end. They become control tokens (ends.c). */
int vocab_load_ends(struct vocab *v, const struct gguf *g, const int32_t *named, size_t n_named,
                    char *err, size_t err_len);

/* Load v->infill; tokens found by their names become control tokens (infill.c). */
int vocab_load_infill(struct vocab *v, const struct gguf *g, char *err, size_t err_len);

/* Load v->chat_templates and v->rerank_template (chat_templates.c). */
int vocab_load_templates(struct vocab *v, const struct gguf *g, char *err, size_t err_len);
void vocab_release_templates(struct vocab *v);

/* Load v->prompts (prompts.c). */
int vocab_load_prompts(struct vocab *v, const struct gguf *g, char *err, size_t err_len);
void vocab_release_prompts(struct vocab *v);

/* True: the key's id is that of a token; if not, a log line says that it is not used. */
bool vocab_has_id(const struct vocab *v, const struct gguf *g, const char *key, int64_t id);

/* Read the token that a key names; *id is unchanged when the key is absent or names no token. */
int vocab_read_id(const struct vocab *v, const struct gguf *g, const char *key, int32_t *id,
                  char *err, size_t err_len);

/* Write the bytes of a byte-level piece to out[0..len); returns their number, or -1 if the text has
 * a character that stands for no byte. */
int64_t letters_to_bytes(const char *text, size_t len, char *out);

/* Copy with a space for each U+2581; the number of bytes, at most n. */
size_t unescape_spaces(const char *text, size_t n, char *out);

/* Write the sentence "FILE: ..." and return `code`. */
int text_fail(const struct gguf *g, int code, char *err, size_t err_len, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
