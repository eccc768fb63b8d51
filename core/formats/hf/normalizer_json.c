/* core/formats/hf/normalizer_json.c - "normalizer" of tokenizer.json as steps of
 * tokenizer.ggml.normalizer.steps (core/tokenizer/normalizer.h); see hf_impl.h.
 *
 * Sequences, nested to MAX_DEPTH, are flattened into f->steps. The first steps are general and
 * become the key; those at the end that SentencePiece does itself (spaces as U+2581, a prefix
 * space) become flags instead, read by the readers of each tokenizer. A step that is neither is
 * refused by its type.
 */
#include "core/formats/hf/hf_impl.h"

#include "core/base/err.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf_folder.h"

#include <string.h>

#define META "\xE2\x96\x81" /* U+2581, SentencePiece's way to write a space */
#define MAX_DEPTH 4         /* depth of a Sequence in a Sequence */

/* The key's steps: a name and two texts each. A Strip may become two. */
struct steps {
    struct gguf_str texts[3 * 2 * HF_MAX_STEPS];
    size_t n;
};

static bool is_normalizer(const cJSON *o, const char *name, const char *wanted)
{
    const char *found = hf_text(o, name);

    return found != NULL && strcmp(found, wanted) == 0;
}

bool hf_is_space_step(const cJSON *step)
{
    return (is_normalizer(step, "type", "Prepend") && is_normalizer(step, "prepend", META)) ||
           (is_normalizer(step, "type", "Replace") && is_normalizer(step, "content", META) &&
            is_normalizer(hf_member(step, "pattern"), "String", " "));
}

/* True: the step only changes characters. */
static bool is_plain_pattern(const cJSON *step)
{
    static const char *const types[] = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (is_normalizer(step, "type", types[i]))
            return true;
    return is_normalizer(step, "type", "Replace") &&
           hf_text(hf_member(step, "pattern"), "String") != NULL;
}

/* ---- the list ---- */

static int list_steps(struct hf_folder *f, const cJSON *step, int depth)
{
    const cJSON *m;
    int rc = 0;

    if (!is_normalizer(step, "type", "Sequence")) {
        if (f->n_steps == HF_MAX_STEPS)
            return hf_fail(f, ERR_LIMIT, HF_TOKENIZER, "'normalizer' has more than %d steps",
                           HF_MAX_STEPS);
        f->steps[f->n_steps++] = step;
        return 0;
    }
    if (depth == MAX_DEPTH)
        return hf_fail(f, ERR_LIMIT, HF_TOKENIZER, "'normalizer' is nested more than %d deep",
                       MAX_DEPTH);
    cJSON_ArrayForEach(m, hf_member(step, "normalizers"))
    {
        if (rc == 0)
            rc = list_steps(f, m, depth + 1);
    }
    return rc;
}

/* Return the number of first steps that are general; those that SentencePiece does itself are
 * not. */
static uint32_t count_general(const struct hf_folder *f)
{
    const cJSON *model = hf_member(f->tokenizer, "model");
    const bool is_unigram = is_normalizer(model, "type", "Unigram");
    const bool is_spm = cJSON_IsTrue(hf_member(model, "byte_fallback"));
    uint32_t n = 0;

    while (n < f->n_steps && !(is_unigram && !is_plain_pattern(f->steps[n])) &&
           !(is_spm && hf_is_space_step(f->steps[n])))
        n++;
    return n;
}

/* ---- the key ---- */

static void add_normalizer_step(struct steps *s, const char *name, const char *first,
                                const char *second)
{
    s->texts[s->n++] = (struct gguf_str){name, strlen(name)};
    s->texts[s->n++] = (struct gguf_str){first, strlen(first)};
    s->texts[s->n++] = (struct gguf_str){second, strlen(second)};
}

static bool add_replace(struct steps *s, const cJSON *step)
{
    const cJSON *pattern = hf_member(step, "pattern");
    const char *text = hf_text(pattern, "String"), *regex = hf_text(pattern, "Regex");
    const char *content = hf_text(step, "content");

    if (content == NULL || (text == NULL && regex == NULL) || (text != NULL && text[0] == '\0'))
        return false;
    add_normalizer_step(s, text != NULL ? "replace" : "replace_regex", text != NULL ? text : regex,
                        content);
    return true;
}

/* Add a general step; false: the step is not known. */
static bool add_known(struct steps *s, const cJSON *step)
{
    static const char *const plain[][2] = {
        {"NFC", "nfc"},   {"NFD", "nfd"},           {"NFKC", "nfkc"},
        {"NFKD", "nfkd"}, {"Lowercase", "lowercase"}, {"StripAccents", "strip_accents"},
    };

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        if (is_normalizer(step, "type", plain[i][0])) {
            add_normalizer_step(s, plain[i][1], "", "");
            return true;
        }
    if (is_normalizer(step, "type", "Strip")) {
        if (!cJSON_IsFalse(hf_member(step, "strip_left")))
            add_normalizer_step(s, "strip_left", "", "");
        if (!cJSON_IsFalse(hf_member(step, "strip_right")))
            add_normalizer_step(s, "strip_right", "", "");
        return true;
    }
    if (is_normalizer(step, "type", "Prepend") && hf_text(step, "prepend") != NULL) {
        add_normalizer_step(s, "prepend", hf_text(step, "prepend"), "");
        return true;
    }
    return is_normalizer(step, "type", "Replace") && add_replace(s, step);
}

int hf_normalizer_refuse(const struct hf_folder *f, const cJSON *step)
{
    const char *type = hf_text(step, "type");
    char shown[64];

    return hf_fail(f, ERR_UNSUPPORTED, HF_TOKENIZER,
                   "the step '%s' of its 'normalizer' is not supported for this kind of tokenizer, "
                   "or not at its place",
                   type != NULL ? hf_printable(shown, sizeof(shown), type) : "");
}

int hf_normalizer_add(struct hf_folder *f)
{
    const cJSON *normalizer = hf_member(f->tokenizer, "normalizer");
    struct steps s = {.n = 0};
    int rc;

    f->n_steps = 0;
    rc = normalizer != NULL && !cJSON_IsNull(normalizer) ? list_steps(f, normalizer, 0) : 0;
    if (rc < 0)
        return rc;
    f->n_general = count_general(f);
    for (uint32_t i = 0; i < f->n_general; i++)
        if (!add_known(&s, f->steps[i]))
            return hf_normalizer_refuse(f, f->steps[i]);
    gguf_writer_str_array(f->w, "tokenizer.ggml.normalizer.steps", s.texts, s.n);
    return 0;
}
