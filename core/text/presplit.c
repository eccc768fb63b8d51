/* core/text/presplit.c - see presplit.h. */
#include "core/text/presplit.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/gguf/gguf.h"
#include "core/text/utf8.h"
#include "core/text/vocab.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* The characters of Unicode's White_Space, for use in a class. PCRE2's own \s has U+180E too,
 * which left that property in Unicode 6.3 and which the models' tokenizers do not count. */
#define WS                                                                                         \
    "\\t-\\r "                                                                                     \
    "\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define SPACES "[" WS "]+"
#define LAST_SPACES SPACES "(?![^" WS "])|" SPACES
#define MARKS " ?[^" WS "\\p{L}\\p{N}]+"
#define SHORT_FORMS "'s|'t|'re|'ve|'m|'ll|'d"
#define NEWER_WORDS "(?i:" SHORT_FORMS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define NEWER_MARKS MARKS "[\\r\\n]*|[" WS "]*[\\r\\n]+|" LAST_SPACES

/* The patterns as the models' authors published them with their tokenizers. smollm cuts out
 * every digit first and applies GPT-2's pattern to what is between; in one pattern that makes
 * the spaces before a digit a word of their own. */
static const struct {
    const char *pre;
    const char *pattern;
} patterns[] = {
    {"gpt-2", SHORT_FORMS "| ?\\p{L}+| ?\\p{N}+|" MARKS "|" LAST_SPACES},
    {"llama-bpe", NEWER_WORDS "|\\p{N}{1,3}|" NEWER_MARKS},
    {"qwen2", NEWER_WORDS "|\\p{N}|" NEWER_MARKS},
    {"deepseek-r1-qwen", NEWER_WORDS "|\\p{N}|" NEWER_MARKS},
    {"smollm", SHORT_FORMS "| ?\\p{L}+|\\p{N}|" MARKS "|" SPACES "(?![^" WS "\\p{N}])|" SPACES},
};

struct presplit {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *code;
};

struct presplit_run {
    const struct presplit *p;
    pcre2_match_data *match;
};

static void *pcre_alloc(size_t bytes, void *ud)
{
    (void)ud;
    return mem_alloc(bytes);
}

static void pcre_free(void *p, void *ud)
{
    (void)ud;
    mem_free(p);
}

static const char *find_pattern(struct gguf_str pre)
{
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        if (strlen(patterns[i].pre) == pre.len && memcmp(patterns[i].pre, pre.data, pre.len) == 0)
            return patterns[i].pattern;
    }
    return NULL;
}

static int read_pattern(const struct gguf *g, const char **pattern, char *err, size_t err_len)
{
    static const char key[] = "tokenizer.ggml.pre";
    struct gguf_str pre;
    const int rc = gguf_get_str(g, key, &pre, err, err_len);

    if (rc == ERR_NOENT)
        return text_fail(g, ERR_FORMAT, err, err_len, "%s is missing", key);
    if (rc != 0)
        return rc;
    *pattern = find_pattern(pre);
    if (*pattern == NULL)
        return text_fail(g, ERR_UNSUPPORTED, err, err_len,
                         "%s is \"%.*s\", supported are gpt-2, llama-bpe, qwen2 and smollm", key,
                         (int)(pre.len < 40 ? pre.len : 40), pre.data);
    return 0;
}

/* Anchored: a word begins where the last one ended, so PCRE2 need not look further on. The
 * default limit on backtracking would refuse a few megabytes of spaces; what a pattern can spend
 * is bounded by its form, linear in the text. */
static int compile(struct presplit *p, const char *pattern)
{
    pcre2_compile_context *context;
    int code;
    PCRE2_SIZE at;

    p->memory = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    if (p->memory == NULL)
        return ERR_NOMEM;
    p->limits = pcre2_match_context_create(p->memory);
    context = pcre2_compile_context_create(p->memory);
    if (p->limits == NULL || context == NULL) {
        pcre2_compile_context_free(context);
        return ERR_NOMEM;
    }
    pcre2_set_match_limit(p->limits, UINT32_MAX);
    p->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &at, context);
    pcre2_compile_context_free(context);
    if (p->code == NULL)
        return code == PCRE2_ERROR_HEAP_FAILED ? ERR_NOMEM : ERR_INTERNAL;
    /* Without JIT (a kernel may forbid it) the interpreter gives the same words. */
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    return 0;
}

int presplit_create(struct presplit **out, const struct gguf *g, char *err, size_t err_len)
{
    const char *pattern;
    struct presplit *p;
    int rc = read_pattern(g, &pattern, err, err_len);

    *out = NULL;
    if (rc != 0)
        return rc;
    p = mem_calloc(1, sizeof(*p));
    rc = p == NULL ? ERR_NOMEM : compile(p, pattern);
    if (rc != 0) {
        presplit_destroy(&p);
        return text_fail(g, rc, err, err_len, "tokenizer.ggml.pre: %s", err_text(rc));
    }
    *out = p;
    return 0;
}

void presplit_destroy(struct presplit **presplit)
{
    struct presplit *p = presplit != NULL ? *presplit : NULL;

    if (p == NULL)
        return;
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->limits);
    pcre2_general_context_free(p->memory);
    mem_free(p);
    *presplit = NULL;
}

int presplit_run_create(struct presplit_run **out, const struct presplit *p)
{
    struct presplit_run *run = mem_calloc(1, sizeof(*run));

    *out = NULL;
    if (run == NULL)
        return ERR_NOMEM;
    run->p = p;
    run->match = pcre2_match_data_create(1, p->memory);
    if (run->match == NULL) {
        presplit_run_destroy(&run);
        return ERR_NOMEM;
    }
    *out = run;
    return 0;
}

void presplit_run_destroy(struct presplit_run **run)
{
    if (run == NULL || *run == NULL)
        return;
    pcre2_match_data_free((*run)->match);
    mem_free(*run);
    *run = NULL;
}

int presplit_next(struct presplit_run *run, const char *text, size_t n, size_t from, size_t *end)
{
    const int rc = pcre2_match(run->p->code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK,
                               run->match, run->p->limits);

    if (rc > 0) {
        *end = pcre2_get_ovector_pointer(run->match)[1];
    } else if (rc == PCRE2_ERROR_NOMATCH) { /* the patterns cover all, but stay moving */
        *end = from + utf8_len((const uint8_t *)text + from, n - from);
    } else {
        return rc == PCRE2_ERROR_NOMEMORY || rc == PCRE2_ERROR_HEAPLIMIT ? ERR_NOMEM : ERR_INTERNAL;
    }
    return *end > from ? 0 : ERR_INTERNAL;
}
