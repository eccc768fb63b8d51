/* core/tokenizer/infill.c - finds the tokens around a gap in a text, for models that fill in the
 * middle (FIM).
 *
 * A table has the keys and the names of each role. Keys come first and later keys win; one pass
 * over the vocabulary then fills the roles left by the names of special tokens.
 */
#include "core/tokenizer/vocab.h"

#include "core/formats/gguf/gguf.h"

#include <string.h>

#define MAX_NAMES 7

/* The roles. A file names a role's token by one of two keys (the later wins), or only by the
 * token's text. */
static const struct role {
    size_t at; /* offset in struct infill_tokens */
    const char *keys[2];
    const char *names[MAX_NAMES];
} roles[] = {
    {offsetof(struct infill_tokens, prefix),
     {"tokenizer.ggml.prefix_token_id", "tokenizer.ggml.fim_pre_token_id"},
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<PRE>", "<|code_prefix|>", "<|prefix|>",
      "<\xEF\xBD\x9C" "fim\xE2\x96\x81" "begin\xEF\xBD\x9C>"}},
    {offsetof(struct infill_tokens, suffix),
     {"tokenizer.ggml.suffix_token_id", "tokenizer.ggml.fim_suf_token_id"},
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<SUF>", "<|code_suffix|>", "<|suffix|>",
      "<\xEF\xBD\x9C" "fim\xE2\x96\x81hole\xEF\xBD\x9C>"}},
    {offsetof(struct infill_tokens, middle),
     {"tokenizer.ggml.middle_token_id", "tokenizer.ggml.fim_mid_token_id"},
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<MID>", "<|code_middle|>", "<|middle|>",
      "<\xEF\xBD\x9C" "fim\xE2\x96\x81" "end\xEF\xBD\x9C>"}},
    {offsetof(struct infill_tokens, pad),
     {"tokenizer.ggml.fim_pad_token_id"},
     {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {offsetof(struct infill_tokens, repository),
     {"tokenizer.ggml.fim_rep_token_id"},
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {offsetof(struct infill_tokens, file),
     {"tokenizer.ggml.fim_sep_token_id"},
     {"<|file_sep|>"}},
};
#define N_ROLES (sizeof(roles) / sizeof(roles[0]))

static int32_t *id_of(struct vocab *v, const struct role *role)
{
    return (int32_t *)((char *)&v->infill + role->at);
}

static bool has_name(const struct role *role, struct gguf_str s)
{
    for (int i = 0; i < MAX_NAMES && role->names[i] != NULL; i++)
        if (s.len == strlen(role->names[i]) && memcmp(s.data, role->names[i], s.len) == 0)
            return true;
    return false;
}

/* Find roles by names. A normal token of such a name may be part of plain text and is skipped; the
 * others become control tokens. */
static void find_names(struct vocab *v, const struct gguf *g)
{
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");

    for (int32_t id = 0; id < v->n; id++) {
        if (v->type[id] != TOKEN_CONTROL && v->type[id] != TOKEN_USER_DEFINED)
            continue;
        for (size_t i = 0; i < N_ROLES; i++) {
            if (*id_of(v, &roles[i]) != TOKEN_NONE ||
                !has_name(&roles[i], gguf_array_str(tokens, (uint64_t)id)))
                continue;
            *id_of(v, &roles[i]) = id;
            v->type[id] = TOKEN_CONTROL;
        }
    }
}

int vocab_load_infill(struct vocab *v, const struct gguf *g, char *err, size_t err_len)
{
    for (size_t i = 0; i < N_ROLES; i++) {
        *id_of(v, &roles[i]) = TOKEN_NONE;
        for (int k = 0; k < 2 && roles[i].keys[k] != NULL; k++) {
            const int rc = vocab_read_id(v, g, roles[i].keys[k], id_of(v, &roles[i]), err, err_len);

            if (rc != 0)
                return rc;
        }
    }
    find_names(v, g);
    return 0;
}
