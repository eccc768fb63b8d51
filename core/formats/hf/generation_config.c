/* core/formats/hf/generation_config.c - see generation_config.h.
 *
 * A table maps the members to general.sampling.* keys; a member that is not a number is an error,
 * one that is not in the table is ignored. Ranges are checked later, where a GGUF file's own keys
 * are checked too. hf/eos.c adds eos_token_id, also if there is no such file.
 */
#include "core/formats/hf/generation_config.h"

#include "core/base/err.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf/hf_impl.h"
#include "core/formats/hf_folder.h"

#include <math.h>

#define MAX_FILE ((size_t)1 << 20) /* the longest in use have a kilobyte */

static const struct {
    const char *theirs, *ours;
} members[] = {
    {"temperature", "general.sampling.temp"},
    {"top_p", "general.sampling.top_p"},
    {"top_k", "general.sampling.top_k"},
    {"min_p", "general.sampling.min_p"},
    {"repetition_penalty", "general.sampling.penalty_repeat"},
    {"presence_penalty", "general.sampling.penalty_present"},
    {"frequency_penalty", "general.sampling.penalty_freq"},
    {"max_new_tokens", "general.sampling.max_tokens"},
};

/* Whole numbers are written as u32: a float does not hold every whole number of 32 bits. */
static void add_default(struct hf_folder *f, const char *key, double v)
{
    if (v >= 0 && v <= UINT32_MAX && v == floor(v))
        gguf_writer_u32(f->w, key, (uint32_t)v);
    else
        gguf_writer_f32(f->w, key, (float)v);
}

static int take_members(struct hf_folder *f, const cJSON *config)
{
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const cJSON *m = hf_member(config, members[i].theirs);

        if (m == NULL)
            continue;
        if (!cJSON_IsNumber(m) || !(fabs(m->valuedouble) <= 1e30))
            return hf_fail(f, ERR_FORMAT, HF_GENERATION_CONFIG, "'%s' is not a number",
                           members[i].theirs);
        add_default(f, members[i].ours, m->valuedouble);
    }
    return 0;
}

int hf_generation_config_take(struct hf_folder *f, const char *text, size_t n)
{
    cJSON *config = NULL;
    int rc = hf_parse(f, HF_GENERATION_CONFIG, text, n, &config);

    if (rc == 0)
        rc = take_members(f, config);
    if (rc == 0)
        rc = hf_eos_add(f, config);
    cJSON_Delete(config);
    return rc;
}

int hf_generation_config_add(struct hf_folder *f)
{
    cJSON *config = NULL;
    int rc = hf_read(f, HF_GENERATION_CONFIG, MAX_FILE, &config);

    if (rc == 0)
        rc = take_members(f, config);
    if (rc == 0 || rc == ERR_NOENT)
        rc = hf_eos_add(f, config);
    cJSON_Delete(config);
    return rc;
}
