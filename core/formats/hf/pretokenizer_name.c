/* core/formats/hf/pretokenizer_name.c - the GGUF name of a "pre_tokenizer"; see hf_impl.h.
 *
 * tokenizer.json has patterns, GGUF files names. The steps become a list of cuts (their regular
 * expressions as text, or names below), which is compared with a table of the published tokenizers.
 * Only an exact match counts: a pattern that merely looks alike would cut some texts differently.
 */
#include "core/formats/hf/hf_impl.h"

#include "core/formats/hf_folder.h"

#include <string.h>

#define MAX_STEPS 8

/* Names of steps that have no pattern in the file. */
#define GPT2 "ByteLevel" /* GPT-2's pattern */
#define DIGIT "Digits one by one"
#define DIGITS "Digits"
#define MARKS "Punctuation"

#define ANY_CASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define CASED(end)                                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"     \
    "+" end "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}"   \
    "\\p{M}]*" end
#define CASED_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define LLAMA3 ANY_CASE "|" WORD "|\\p{N}{1,3}" REST
#define O200K CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "|\\p{N}{1,3}" CASED_REST
#define DEEPSEEK3                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES

static const struct {
    const char *name;
    bool whole_words; /* "ignore_merges" */
    const char *steps[MAX_STEPS + 1];
} known[] = {
    {"gpt-2", false, {GPT2}},
    {"smollm", false, {DIGIT, GPT2}},
    {"falcon", false, {MARKS, GPT2, DIGITS, "[0-9][0-9][0-9]"}},
    {"llama-bpe", true, {LLAMA3}},
    {"smaug-bpe", false, {LLAMA3}}, /* LLAMA3 without "ignore_merges" */
    {"qwen2", false, {ANY_CASE "|" WORD "|\\p{N}" REST}},
    {"tekken", true, {CASED("") "|\\p{N}" CASED_REST}},
    {"gpt-4o", false, {O200K}},
    {"granite-embed-multi-97m", true, {O200K}}, /* O200K with whole words */
    {"deepseek-v3", false, {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3}},
};

static bool has_type(const cJSON *step, const char *type)
{
    const char *found = hf_text(step, "type");

    return found != NULL && strcmp(found, type) == 0;
}

static bool is_true(const cJSON *step, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(step, name));
}

static bool has_behavior(const cJSON *step, const char *behavior)
{
    const char *found = hf_text(step, "behavior");

    return found != NULL && strcmp(found, behavior) == 0;
}

/* Return the cut of a step: one of the names above, or the pattern whose matches, and the text
 * between them, are the words; "": the step cuts nothing; NULL: the step is not known. */
static const char *cut_of(const cJSON *step)
{
    const cJSON *regex = cJSON_GetObjectItemCaseSensitive(step, "use_regex");

    if (has_type(step, "ByteLevel") && !is_true(step, "add_prefix_space"))
        return cJSON_IsFalse(regex) ? "" : GPT2;
    if (has_type(step, "Digits"))
        return is_true(step, "individual_digits") ? DIGIT : DIGITS;
    if (has_type(step, "Punctuation"))
        return has_behavior(step, "Contiguous") ? MARKS : NULL;
    if (!has_type(step, "Split") || !has_behavior(step, "Isolated") || is_true(step, "invert"))
        return NULL;
    return hf_text(cJSON_GetObjectItemCaseSensitive(step, "pattern"), "Regex");
}

/* List the cuts of all steps; false: one is not known, or there are too many. *turns: a step writes
 * bytes as letters. */
static bool list_cuts(const cJSON *first, bool is_list, const char *cuts[MAX_STEPS + 1],
                      bool *turns)
{
    size_t n = 0;

    for (const cJSON *step = first; step != NULL; step = is_list ? step->next : NULL) {
        const char *cut = cut_of(step);

        if (cut == NULL || n == MAX_STEPS)
            return false;
        *turns |= has_type(step, "ByteLevel");
        if (cut[0] != '\0')
            cuts[n++] = cut;
    }
    cuts[n] = NULL;
    return true;
}

static bool same_cuts(const char *const a[], const char *const b[])
{
    size_t i = 0;

    while (a[i] != NULL && b[i] != NULL && strcmp(a[i], b[i]) == 0)
        i++;
    return a[i] == NULL && b[i] == NULL;
}

const char *hf_pretokenizer_name(const cJSON *pre_tokenizer, bool whole_words)
{
    const cJSON *steps = cJSON_GetObjectItemCaseSensitive(pre_tokenizer, "pretokenizers");
    const bool is_list = has_type(pre_tokenizer, "Sequence") && cJSON_IsArray(steps);
    const char *cuts[MAX_STEPS + 1];
    bool turns = false;

    if (!list_cuts(is_list ? steps->child : pre_tokenizer, is_list, cuts, &turns) || !turns)
        return NULL;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (same_cuts(cuts, known[i].steps) && whole_words == known[i].whole_words)
            return known[i].name;
    return NULL;
}
