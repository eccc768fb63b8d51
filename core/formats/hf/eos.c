/* core/formats/hf/eos.c - the ids that end a generation, from all files that name them; see
 * hf_impl.h.
 *
 * The ids of config.json, of its outer object in classes with a text part, and of
 * generation_config.json are united into one list, because published models list some ends in one
 * file and some in another.
 */
#include "core/formats/hf/hf_impl.h"

#include "core/base/err.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf_folder.h"

#define MAX_IDS 64 /* most ids of all lists; models have up to eight */

struct ids {
    int32_t at[MAX_IDS];
    size_t n;
};

/* Add an id once; one outside the vocabulary is dropped, since it never comes. */
static void add_eos_id(const struct hf_folder *f, struct ids *ids, double id)
{
    for (size_t i = 0; i < ids->n; i++)
        if (ids->at[i] == id)
            return;
    if (ids->n < MAX_IDS && id >= 0 && id < f->n_vocab)
        ids->at[ids->n++] = (int32_t)id;
}

/* Add the ids of a member: a number, a list of numbers, or absent. */
static int add_eos_member(const struct hf_folder *f, struct ids *ids, const char *file,
                          const cJSON *o, const char *name)
{
    const cJSON *m = hf_member(o, name), *it = cJSON_IsArray(m) ? m->child : m;

    for (; it != NULL; it = cJSON_IsArray(m) ? it->next : NULL) {
        if (!cJSON_IsNumber(it))
            return hf_fail(f, ERR_FORMAT, file, "'%s' is neither an id nor a list of ids", name);
        add_eos_id(f, ids, it->valuedouble);
    }
    return 0;
}

int hf_eos_add(struct hf_folder *f, const cJSON *generation_config)
{
    struct ids ids = {.n = 0};
    int rc = add_eos_member(f, &ids, HF_CONFIG, f->config, "eos_token_id");

    if (rc == 0)
        rc = add_eos_member(f, &ids, HF_CONFIG, f->config, HF_OUTER_EOS);
    if (rc == 0)
        rc = add_eos_member(f, &ids, HF_GENERATION_CONFIG, generation_config, "eos_token_id");
    if (rc == 0 && ids.n > 0)
        gguf_writer_i32_array(f->w, "tokenizer.ggml.eos_token_ids", ids.at, ids.n);
    return rc;
}
