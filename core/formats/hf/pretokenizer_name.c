/* core/formats/hf/pretokenizer_name.c - see hf_impl.h. */
#include "core/formats/hf/hf_impl.h"

#include "core/formats/hf_folder.h"

#include <string.h>

#define ANY_CASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *pattern;
    bool whole_words;
    const char *name;
} known[] = {
    {ANY_CASE "|" WORD "|\\p{N}{1,3}" REST, true, "llama-bpe"},
    {ANY_CASE "|" WORD "|\\p{N}{1,3}" REST, false, "smaug-bpe"}, /* the same, merging all */
    {ANY_CASE "|" WORD "|\\p{N}" REST, false, "qwen2"},
};

static bool has_type(const cJSON *step, const char *type)
{
    const char *found = hf_text(step, "type");

    return found != NULL && strcmp(found, type) == 0;
}

/* Bytes become letters; with `cuts`, GPT-2's pattern cuts words before. */
static bool is_byte_level(const cJSON *step, bool cuts)
{
    const cJSON *regex = cJSON_GetObjectItemCaseSensitive(step, "use_regex");

    return has_type(step, "ByteLevel") &&
           !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(step, "add_prefix_space")) &&
           cuts == !cJSON_IsFalse(regex);
}

/* The pattern whose matches, and what is between them, are the words. */
static const char *pattern_of(const cJSON *step)
{
    const char *behavior = hf_text(step, "behavior");

    if (!has_type(step, "Split") || behavior == NULL || strcmp(behavior, "Isolated") != 0 ||
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(step, "invert")))
        return NULL;
    return hf_text(cJSON_GetObjectItemCaseSensitive(step, "pattern"), "Regex");
}

static const char *name_of(const cJSON *first, bool whole_words)
{
    const char *pattern = pattern_of(first);

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && pattern != NULL; i++)
        if (strcmp(pattern, known[i].pattern) == 0 && whole_words == known[i].whole_words)
            return known[i].name;
    return NULL;
}

const char *hf_pretokenizer_name(const cJSON *pre_tokenizer, bool whole_words)
{
    const cJSON *steps = cJSON_GetObjectItemCaseSensitive(pre_tokenizer, "pretokenizers");
    const bool is_list = has_type(pre_tokenizer, "Sequence") && cJSON_IsArray(steps);
    const cJSON *first = is_list ? cJSON_GetArrayItem(steps, 0) : pre_tokenizer;
    const int n = is_list ? cJSON_GetArraySize(steps) : 1;
    const cJSON *second = n == 2 ? cJSON_GetArrayItem(steps, 1) : NULL;

    if (n == 1 && is_byte_level(first, true) && !whole_words)
        return "gpt-2";
    if (n == 2 && has_type(first, "Digits") && is_byte_level(second, true) && !whole_words &&
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(first, "individual_digits")))
        return "smollm";
    return n == 2 && is_byte_level(second, false) ? name_of(first, whole_words) : NULL;
}
