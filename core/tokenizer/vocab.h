/* core/tokenizer/vocab.h - the tokens of a model: their bytes, kinds, scores and special roles.
 *
 * Private to core/tokenizer. A piece is kept as the bytes that it stands for (U+2581 is a space,
 * byte-level letters are the bytes behind them), and text is looked up by those bytes. Only
 * normal and user-defined pieces can be looked up, so plain text never becomes a control token.
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

/* What a special token asks of the text around it: tokenizer.ggml.token_sides, a key that only
 * Quire knows, for vocabularies of tokenizer.json. */
enum token_side {
    TOKEN_TAKES_LEFT = 1 << 0,  /* spaces in front go with it (lstrip) */
    TOKEN_TAKES_RIGHT = 1 << 1, /* spaces behind (rstrip) */
    TOKEN_ALONE = 1 << 2,       /* it counts only where no word goes on at its ends (single_word) */
    TOKEN_IN_NORMALIZED = 1 << 3, /* it is looked for in the normalized text (normalized); of
                                   * user-defined tokens */
};

struct chat_template {
    char *name, *text; /* both end with a NUL */
};

struct vocab {
    enum vocab_model model;
    int rules;   /* BPE: how text is cut (pretokenizer.h) */
    bool raw;    /* pieces are UTF-8 with U+2581 for spaces; else byte letters */
    bool rstrip; /* spaces behind a special token go with it (phi-3) */
    int32_t n;
    char *bytes;     /* all pieces, one after the other */
    uint32_t *at;    /* [n + 1] where each begins */
    uint8_t *type;   /* [n] enum token_type */
    uint8_t *sides;  /* [n] enum token_side of special tokens, or NULL: as families have it */
    float *score;    /* [n], SPM and UGM only */
    uint32_t *slots; /* open addressing: id + 1, 0 = empty */
    uint32_t mask;
    uint32_t longest;          /* bytes of the longest piece that can be looked up */
    int32_t byte_id[256];      /* the token of a single byte, or TOKEN_NONE */
    int32_t bos, eos, unknown; /* or TOKEN_NONE; bos is [CLS] where texts begin so */
    int32_t separator, gap;    /* or TOKEN_NONE; gap: [MASK], what is to be guessed */
    bool add_bos, add_eos, add_separator, add_space_prefix;
    /* SPM, of tokenizer.json's Metaspace (keys that only Quire knows): the added space stands only
     * where the text begins, not behind special tokens; and not in front of another one. */
    bool prefix_first, prefix_once;
    bool separates_pairs; /* one more separator stands between two texts */
    bool merge_spaces;                /* UGM: runs of spaces are one, those at the ends none */
    bool lower_case, without_accents; /* WPM: what is done to a text before */
    struct infill_tokens infill;
    int32_t *eog; /* ascending */
    size_t n_eog;
    struct chat_template *chat_templates; /* in the order of their names */
    size_t n_chat_templates;
    char *rerank_template; /* or NULL */
};

/* `pre`: the pretokenizer rules to use whatever the file says, or NULL or "". */
int vocab_load(struct vocab *v, const struct gguf *g, const char *pre, char *err, size_t err_len);
void vocab_release(struct vocab *v);

/* The id of the piece with exactly these bytes, or TOKEN_NONE. */
int32_t vocab_find(const struct vocab *v, const char *bytes, size_t n);

static inline const char *vocab_piece(const struct vocab *v, int32_t id, size_t *n)
{
    *n = v->at[id + 1] - v->at[id];
    return v->bytes + v->at[id];
}

/* The roles: BOS, EOS, what ends a generation, the flags and the chat templates
 * (special_roles.c). */
int vocab_load_roles(struct vocab *v, const struct gguf *g, char *err, size_t err_len);

/* v->eog: the ids that are named (or TOKEN_NONE), those of tokenizer.ggml.eos_token_ids, and what
 * has the name of an end. They are control tokens from then on (ends.c). */
int vocab_load_ends(struct vocab *v, const struct gguf *g, const int32_t *named, size_t n_named,
                    char *err, size_t err_len);

/* v->infill; what is found by its name is a control token from then on (infill.c). */
int vocab_load_infill(struct vocab *v, const struct gguf *g, char *err, size_t err_len);

/* v->chat_templates and v->rerank_template (chat_templates.c). */
int vocab_load_templates(struct vocab *v, const struct gguf *g, char *err, size_t err_len);
void vocab_release_templates(struct vocab *v);

/* Is the id that the key has a token's? If not, a line of the log says that it is not used. */
bool vocab_has_id(const struct vocab *v, const struct gguf *g, const char *key, int64_t id);

/* The token that a key names; *id keeps its value when the key is absent or names no token. */
int vocab_read_id(const struct vocab *v, const struct gguf *g, const char *key, int32_t *id,
                  char *err, size_t err_len);

/* The bytes behind a byte-level piece, written to out[0..len): their number, or -1 if the text
 * has a character that stands for no byte. */
int64_t letters_to_bytes(const char *text, size_t len, char *out);

/* Copy with a space for each U+2581; the number of bytes, at most n. */
size_t unescape_spaces(const char *text, size_t n, char *out);

/* Write the sentence "FILE: ..." and return `code`. */
int text_fail(const struct gguf *g, int code, char *err, size_t err_len, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
