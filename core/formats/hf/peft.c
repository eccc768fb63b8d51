/* core/formats/hf/peft.c - see peft.h.
 *
 * adapter_config.json is checked against lists of settings that must be off or empty, so an adapter
 * that needs more than y = W x + scale * B (A x) is refused by the setting's name. Tensor names are
 * resolved through the tables of all classes; since the base model is not known yet, shapes are
 * checked when the adapter is loaded for it (core/model/adapter_load.c).
 */
#include "core/formats/hf/peft.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf/classes.h"
#include "core/formats/hf_folder.h"
#include "core/formats/safetensors/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_CONFIG ((size_t)1 << 20)
#define MAX_RANK 65536 /* the model's own limit is checked when the adapter is loaded for it */
#define PREFIX "base_model.model."

struct opening {
    struct hf_folder f;
    cJSON *config;
    struct safetensors file;
    struct gguf_location *places;
    uint64_t n_places;
};

static int refuse_peft(const struct opening *o, int rc, const char *what)
{
    return hf_fail(&o->f, rc, PEFT_CONFIG, "%s", what);
}

/* ---- adapter_config.json ---- */

/* Check switches that would change the arithmetic. */
static int check_switches(const struct opening *o)
{
    static const char *const names[] = {"use_dora", "lora_bias", "use_qalora"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        bool is_on = false;
        const int rc = hf_bool(&o->f, PEFT_CONFIG, o->config, names[i], &is_on);

        if (rc < 0)
            return rc;
        if (is_on)
            return hf_fail(&o->f, ERR_UNSUPPORTED, PEFT_CONFIG,
                           "'%s' is true, which is not supported", names[i]);
    }
    return 0;
}

static bool is_empty_list(const cJSON *v)
{
    return v == NULL || cJSON_IsNull(v) || cJSON_IsFalse(v) ||
           ((cJSON_IsArray(v) || cJSON_IsObject(v)) && v->child == NULL);
}

/* Check lists and maps that must be empty. */
static int check_lists(const struct opening *o)
{
    static const char *const names[] = {
        "modules_to_save",   "alpha_pattern",    "layer_replication", "trainable_token_indices",
        "target_parameters", "megatron_config",  "corda_config",      "alora_invocation_tokens",
        "arrow_config",      "monteclora_config"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!is_empty_list(cJSON_GetObjectItemCaseSensitive(o->config, names[i])))
            return hf_fail(&o->f, ERR_UNSUPPORTED, PEFT_CONFIG,
                           "'%s' is not empty, which is not supported", names[i]);
    return 0;
}

/* Refuse values of init_lora_weights that also change the base model's weights. */
static int check_start(const struct opening *o)
{
    static const char *const changing[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const char *start = hf_text(o->config, "init_lora_weights");
    const char *bias = hf_text(o->config, "bias");
    const char *type = hf_text(o->config, "peft_type");
    char shown[48];

    if (type == NULL || strcmp(type, "LORA") != 0)
        return hf_fail(&o->f, ERR_UNSUPPORTED, PEFT_CONFIG,
                       "'peft_type' is '%s', but only LORA is supported",
                       type != NULL ? hf_printable(shown, sizeof(shown), type) : "");
    if (bias != NULL && strcmp(bias, "none") != 0)
        return hf_fail(&o->f, ERR_UNSUPPORTED, PEFT_CONFIG,
                       "'bias' is '%s', but only none is supported",
                       hf_printable(shown, sizeof(shown), bias));
    for (size_t i = 0; start != NULL && i < sizeof(changing) / sizeof(changing[0]); i++)
        if (strncmp(start, changing[i], strlen(changing[i])) == 0)
            return hf_fail(&o->f, ERR_UNSUPPORTED, PEFT_CONFIG,
                           "'init_lora_weights' is '%s': such an adapter belongs to changed "
                           "weights of its base model; convert it to a plain one first",
                           hf_printable(shown, sizeof(shown), start));
    return 0;
}

/* Add alpha: GGUF adapters are scaled by alpha / rank, rank-stabilised ones by alpha /
 * sqrt(rank). */
static int add_alpha(const struct opening *o)
{
    const bool varies = !is_empty_list(cJSON_GetObjectItemCaseSensitive(o->config, "rank_pattern"));
    double alpha = 8.0; /* LoraConfig's default */
    bool is_stabilised = false;
    uint32_t rank = 8;
    int rc = hf_positive(&o->f, PEFT_CONFIG, o->config, "lora_alpha", &alpha);

    if (rc == 0)
        rc = hf_u32(&o->f, PEFT_CONFIG, o->config, "r", 1, MAX_RANK, &rank);
    if (rc == 0)
        rc = hf_bool(&o->f, PEFT_CONFIG, o->config, "use_rslora", &is_stabilised);
    if (rc < 0)
        return rc;
    if (is_stabilised && varies)
        return refuse_peft(o, ERR_UNSUPPORTED,
                           "'use_rslora' with a 'rank_pattern' is not supported");
    gguf_writer_f32(o->f.w, "adapter.lora.alpha",
                    (float)(is_stabilised ? alpha * sqrt((double)rank) : alpha));
    return 0;
}

static int read_config(struct opening *o)
{
    int rc = hf_read(&o->f, PEFT_CONFIG, MAX_CONFIG, &o->config);

    if (rc == ERR_NOENT)
        return hf_fail(&o->f, ERR_NOENT, PEFT_CONFIG, "is missing");
    if (rc == 0)
        rc = check_start(o);
    if (rc == 0)
        rc = check_switches(o);
    if (rc == 0)
        rc = check_lists(o);
    if (rc < 0)
        return rc;
    gguf_writer_str(o->f.w, "general.type", "adapter");
    gguf_writer_str(o->f.w, "adapter.type", "lora");
    gguf_writer_bool(o->f.w, "adapter.lora.halves", true);
    return add_alpha(o);
}

/* ---- tensors ---- */

/* Translate model.layers.3.self_attn.q_proj.weight to blk.3.attn_q.weight, by the first class that
 * has the name: classes with the same name mean the same matrix. An adapter's rows are the matrix's
 * rows, however its file stores the matrix. */
static bool find_module(const char *theirs, struct hf_found *found)
{
    const struct hf_class *c;

    for (size_t i = 0; (c = hf_class_at(i)) != NULL; i++)
        if (hf_class_name(c, UINT32_MAX, theirs, found) && !found->is_expert &&
            strncmp(found->name, "blk.", 4) == 0 &&
            (found->fit == FIT_PLAIN || found->fit == FIT_TURNED))
            return true;
    return false;
}

/* Translate base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight to
 * blk.3.attn_q.weight.lora_a. */
static bool peft_tensor_name(const char *theirs, char ours[GGUF_MAX_NAME])
{
    const char *end = strstr(theirs, ".lora_");
    char module[2 * GGUF_MAX_NAME];
    struct hf_found found;
    int n;

    if (strncmp(theirs, PREFIX, strlen(PREFIX)) != 0 || end == NULL ||
        (strcmp(end, ".lora_A.weight") != 0 && strcmp(end, ".lora_B.weight") != 0))
        return false;
    theirs += strlen(PREFIX);
    if (end <= theirs || end - theirs >= GGUF_MAX_NAME)
        return false;
    snprintf(module, sizeof(module), "%.*s.weight", (int)(end - theirs), theirs);
    if (!find_module(module, &found))
        return false;
    n = snprintf(ours, GGUF_MAX_NAME, "%s.lora_%c", found.name, end[6] == 'A' ? 'a' : 'b');
    return n > 0 && n < GGUF_MAX_NAME;
}

static int fail_tensor(const struct opening *o, const struct safetensor *t, int rc,
                       const char *what)
{
    char shown[120];

    return hf_fail(&o->f, rc, PEFT_WEIGHTS, "tensor '%s': %s",
                   hf_printable(shown, sizeof(shown), t->name), what);
}

static int add_tensor(struct opening *o, const struct safetensor *t)
{
    static const enum block_type types[] = {BLOCK_F32, BLOCK_F16, BLOCK_BF16};
    char name[GGUF_MAX_NAME];
    uint64_t dims[2];
    size_t i = 0;

    while (i < 3 && strcmp(t->type, block_format(types[i])->name) != 0)
        i++;
    if (i == 3)
        return fail_tensor(o, t, ERR_UNSUPPORTED, "is not F32, F16 or BF16");
    if (!peft_tensor_name(t->name, name))
        return fail_tensor(o, t, ERR_UNSUPPORTED,
                           "is not a LoRA pair of a layer's projections (q, k, v, o, gate, up, "
                           "down); only these are supported");
    if (t->n_dims != 2 || t->dims[0] == 0 || t->dims[1] == 0)
        return fail_tensor(o, t, ERR_FORMAT, "is not a matrix");
    dims[0] = t->dims[1];
    dims[1] = t->dims[0];
    gguf_writer_tensor_elsewhere(o->f.w, name, types[i], 2, dims);
    o->places[o->n_places++] = (struct gguf_location){.file = 0, .offset = t->offset};
    return 0;
}

static int add_tensors(struct opening *o)
{
    int rc = safetensors_read_file(&o->file, &o->f, PEFT_WEIGHTS);

    if (rc < 0)
        return rc;
    o->places = mem_calloc(o->file.n_items + 1, sizeof(*o->places));
    if (o->places == NULL)
        return hf_fail(&o->f, ERR_NOMEM, PEFT_WEIGHTS, "out of memory");
    for (size_t i = 0; i < o->file.n_items && rc == 0; i++)
        rc = add_tensor(o, &o->file.items[i]);
    return rc;
}

/* ---- the handle ---- */

static int open_placed(struct opening *o, struct gguf **out)
{
    char path[HF_MAX_PATH];
    const char *const paths[] = {path};
    const struct gguf_placed placed = {paths, 1, o->places, o->n_places};
    uint8_t *head;
    size_t bytes;
    int rc = hf_path(&o->f, PEFT_WEIGHTS, path);

    if (rc < 0)
        return rc;
    rc = gguf_writer_finish(o->f.w, &head, &bytes);
    if (rc < 0)
        return refuse_peft(o, rc, err_text(rc));
    rc = gguf_open_placed(out, o->f.path, head, bytes, &placed, o->f.err, o->f.err_len);
    if (rc < 0)
        mem_free(head);
    return rc;
}

int peft_open(struct gguf **out, const char *folder, char *err, size_t err_len)
{
    struct opening o = {.f = {.path = folder, .err = err, .err_len = err_len}};
    int rc = gguf_writer_create(&o.f.w);

    *out = NULL;
    if (rc < 0)
        snprintf(err, err_len, "%s: out of memory", folder);
    if (rc == 0)
        rc = read_config(&o);
    if (rc == 0)
        rc = add_tensors(&o);
    if (rc == 0)
        rc = open_placed(&o, out);
    cJSON_Delete(o.config);
    safetensors_release(&o.file);
    mem_free(o.places);
    gguf_writer_destroy(&o.f.w);
    return rc;
}
