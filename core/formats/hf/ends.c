/* core/formats/hf/ends.c - the special tokens at both ends of an encoder's texts; see hf_impl.h.
 *
 * "post_processor" of tokenizer.json has templates: "single" must be token, text, token, and gives
 * BOS, EOS and separator. The length of the template for two texts says whether a second separator
 * is between them. RobertaProcessing has the same ends and two separators, and names the tokens in
 * `cls` and `sep`. Any other form is refused.
 */
#include "core/formats/hf/hf_impl.h"

#include "core/base/err.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf_folder.h"

#include <string.h>

static int refuse_ends(const struct hf_folder *f)
{
    return hf_fail(f, ERR_UNSUPPORTED, HF_TOKENIZER,
                   "the 'post_processor' does not put a text between two special tokens");
}

static int add_role(struct hf_folder *f, const struct gguf_str *names, uint32_t n, const char *name,
                    const char *key)
{
    for (uint32_t i = 0; i < n && name != NULL; i++)
        if (names[i].len == strlen(name) && memcmp(names[i].data, name, names[i].len) == 0) {
            gguf_writer_u32(f->w, key, i);
            return 0;
        }
    return refuse_ends(f);
}

struct ends { /* names of the tokens around a text, NULL: not found */
    const char *first, *last;
    bool has_two_between; /* two separators stand between two texts */
};

static const char *special_of(const cJSON *step)
{
    return hf_text(hf_member(step, "SpecialToken"), "id");
}

/* Read a template of three steps. */
static struct ends ends_of_template(const cJSON *o)
{
    const cJSON *single = hf_member(o, "single");

    if (cJSON_GetArraySize(single) != 3 ||
        hf_member(cJSON_GetArrayItem(single, 1), "Sequence") == NULL)
        return (struct ends){0};
    return (struct ends){special_of(cJSON_GetArrayItem(single, 0)),
                         special_of(cJSON_GetArrayItem(single, 2)),
                         cJSON_GetArraySize(hf_member(o, "pair")) == 6};
}

/* Read RoBERTa's own kind, which names the two tokens and has a fixed template. */
static struct ends ends_of_roberta(const cJSON *o)
{
    return (struct ends){cJSON_GetStringValue(cJSON_GetArrayItem(hf_member(o, "cls"), 0)),
                         cJSON_GetStringValue(cJSON_GetArrayItem(hf_member(o, "sep"), 0)), true};
}

int hf_ends_add(struct hf_folder *f, const struct gguf_str *names, uint32_t n)
{
    const cJSON *o = hf_member(f->tokenizer, "post_processor");
    const char *type = hf_text(o, "type");
    const bool is_roberta = type != NULL && strcmp(type, "RobertaProcessing") == 0;
    const struct ends e = is_roberta ? ends_of_roberta(o) : ends_of_template(o);
    int rc = add_role(f, names, n, e.first, "tokenizer.ggml.bos_token_id");

    if (rc == 0)
        rc = add_role(f, names, n, e.last, "tokenizer.ggml.eos_token_id");
    if (rc == 0)
        rc = add_role(f, names, n, e.last, "tokenizer.ggml.seperator_token_id");
    gguf_writer_bool(f->w, "tokenizer.ggml.add_bos_token", true);
    gguf_writer_bool(f->w, "tokenizer.ggml.add_eos_token", true);
    gguf_writer_bool(f->w, "tokenizer.ggml.add_sep_token", e.has_two_between);
    return rc;
}
