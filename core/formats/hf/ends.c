/* core/formats/hf/ends.c - the special tokens at both ends of an encoder's texts; see hf_impl.h.
 *
 * "post_processor" of tokenizer.json has templates: "single" must be token, text, token, and gives
 * BOS, EOS and separator. The length of the template for two texts says whether a second separator
 * is between them. Any other form is refused.
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

static int add_role(struct hf_folder *f, const struct gguf_str *names, uint32_t n,
                    const cJSON *step, const char *key)
{
    const char *name = hf_text(hf_member(step, "SpecialToken"), "id");

    for (uint32_t i = 0; i < n && name != NULL; i++)
        if (names[i].len == strlen(name) && memcmp(names[i].data, name, names[i].len) == 0) {
            gguf_writer_u32(f->w, key, i);
            return 0;
        }
    return refuse_ends(f);
}

int hf_ends_add(struct hf_folder *f, const struct gguf_str *names, uint32_t n)
{
    const cJSON *o = hf_member(f->tokenizer, "post_processor");
    const cJSON *single = hf_member(o, "single");
    const cJSON *last = cJSON_GetArrayItem(single, 2);
    int rc = 0;

    if (cJSON_GetArraySize(single) != 3 ||
        hf_member(cJSON_GetArrayItem(single, 1), "Sequence") == NULL)
        return refuse_ends(f);
    rc = add_role(f, names, n, cJSON_GetArrayItem(single, 0), "tokenizer.ggml.bos_token_id");
    if (rc == 0)
        rc = add_role(f, names, n, last, "tokenizer.ggml.eos_token_id");
    if (rc == 0)
        rc = add_role(f, names, n, last, "tokenizer.ggml.seperator_token_id");
    gguf_writer_bool(f->w, "tokenizer.ggml.add_bos_token", true);
    gguf_writer_bool(f->w, "tokenizer.ggml.add_eos_token", true);
    gguf_writer_bool(f->w, "tokenizer.ggml.add_sep_token",
                     cJSON_GetArraySize(hf_member(o, "pair")) == 6);
    return rc;
}
