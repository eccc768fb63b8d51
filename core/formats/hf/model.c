/* core/formats/hf/model.c - see model.h. */
#include "core/formats/hf/model.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf/generation_config.h"
#include "core/formats/hf/hf_impl.h"
#include "core/formats/hf_folder.h"
#include "core/formats/safetensors/safetensors.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *theirs, *ours;
} whole_model[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

/* Of a layer, without ".weight" or ".bias". */
static const struct {
    const char *theirs, *ours;
} of_layer[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

struct opening {
    struct hf_folder f;
    struct safetensors files;
    struct gguf_location *places;
    uint64_t n_places;
};

/* ---- names ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* What takes no part: an output that is the embedding, frequencies that follow from the rest. */
static bool is_left_out(const struct hf_folder *f, const char *name)
{
    if (f->is_bert)
        return hf_bert_leaves_out(name);
    return (f->is_tied && strcmp(name, "lm_head.weight") == 0) ||
           ends_with(name, ".rotary_emb.inv_freq");
}

static bool name_in_layer(const char *theirs, char ours[GGUF_MAX_NAME])
{
    const char *dot;
    unsigned layer;
    int n = 0;

    if (sscanf(theirs, "model.layers.%5u.%n", &layer, &n) != 1 || n == 0)
        return false;
    theirs += n;
    dot = strrchr(theirs, '.');
    if (dot == NULL || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
        return false;
    for (size_t i = 0; i < sizeof(of_layer) / sizeof(of_layer[0]); i++)
        if (strlen(of_layer[i].theirs) == (size_t)(dot - theirs) &&
            strncmp(theirs, of_layer[i].theirs, (size_t)(dot - theirs)) == 0) {
            snprintf(ours, GGUF_MAX_NAME, "blk.%u.%s%s", layer, of_layer[i].ours, dot);
            return true;
        }
    return false;
}

static bool name_of(const struct hf_folder *f, const char *theirs, char ours[GGUF_MAX_NAME])
{
    if (f->is_bert)
        return hf_bert_name(theirs, ours);
    for (size_t i = 0; i < sizeof(whole_model) / sizeof(whole_model[0]); i++)
        if (strcmp(theirs, whole_model[i].theirs) == 0) {
            snprintf(ours, GGUF_MAX_NAME, "%s", whole_model[i].ours);
            return true;
        }
    return name_in_layer(theirs, ours);
}

/* ---- tensors ---- */

static bool find_type(const char *name, enum block_type *type)
{
    static const enum block_type types[] = {BLOCK_F32, BLOCK_F16, BLOCK_BF16};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(name, block_format(types[i])->name) == 0) {
            *type = types[i];
            return true;
        }
    return false;
}

static int fail_tensor(const struct opening *o, const struct safetensor *t, int rc,
                       const char *what)
{
    char shown[80];

    return hf_fail(&o->f, rc, o->files.files[t->file], "tensor '%s': %s",
                   hf_printable(shown, sizeof(shown), t->name), what);
}

static int add_tensor(struct opening *o, const struct safetensor *t)
{
    char name[GGUF_MAX_NAME];
    uint64_t dims[SAFETENSORS_MAX_DIMS];
    enum block_type type;

    if (is_left_out(&o->f, t->name))
        return 0;
    if (!name_of(&o->f, t->name, name))
        return fail_tensor(o, t, ERR_UNSUPPORTED, "is no part of the model as it is read here");
    if (!find_type(t->type, &type))
        return fail_tensor(o, t, ERR_UNSUPPORTED, "is not F32, F16 or BF16");
    if (t->n_dims < 1 || t->n_dims > SAFETENSORS_MAX_DIMS)
        return fail_tensor(o, t, ERR_FORMAT, "has no shape of 1 to 4 dimensions");
    for (uint32_t i = 0; i < t->n_dims; i++) {
        dims[i] = t->dims[t->n_dims - 1 - i];
        if (dims[i] == 0)
            return fail_tensor(o, t, ERR_FORMAT, "has a dimension of 0");
    }
    gguf_writer_tensor_elsewhere(o->f.w, name, type, t->n_dims, dims);
    o->places[o->n_places++] = (struct gguf_location){t->file, t->offset};
    return 0;
}

static int add_tensors(struct opening *o)
{
    const uint64_t n_divisors = o->f.n_divisors;
    bool has_output = o->f.is_tied || o->f.is_bert;
    int rc = 0;

    o->places = mem_calloc(o->files.n_items + 1, sizeof(*o->places));
    if (o->places == NULL)
        return hf_fail(&o->f, ERR_NOMEM, SAFETENSORS_ONE, "out of memory");
    for (size_t i = 0; i < o->files.n_items && rc == 0; i++) {
        has_output |= strcmp(o->files.items[i].name, "lm_head.weight") == 0;
        rc = add_tensor(o, &o->files.items[i]);
    }
    if (rc == 0 && !has_output)
        return hf_fail(&o->f, ERR_FORMAT, HF_CONFIG,
                       "'tie_word_embeddings' is not true, but there is no 'lm_head.weight'");
    if (rc == 0 && n_divisors > 0) {
        gguf_writer_tensor(o->f.w, "rope_freqs.weight", BLOCK_F32, 1, &n_divisors, o->f.divisors);
        o->places[o->n_places++] = (struct gguf_location){GGUF_OWN_DATA, 0};
    }
    return rc;
}

/* ---- the handle ---- */

static int open_files(struct opening *o, struct gguf **out, uint8_t *head, size_t bytes)
{
    const uint32_t n = o->files.n_files;
    char(*paths)[HF_MAX_PATH] = mem_calloc(n, sizeof(*paths));
    const char **at = mem_calloc(n, sizeof(*at));
    const struct gguf_placed placed = {at, n, o->places, o->n_places};
    int rc = paths != NULL && at != NULL ? 0 : ERR_NOMEM;

    if (rc < 0)
        hf_fail(&o->f, rc, SAFETENSORS_ONE, "out of memory");
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = hf_path(&o->f, o->files.files[i], paths[i]);
        at[i] = paths[i];
    }
    if (rc == 0)
        rc = gguf_open_placed(out, o->f.path, head, bytes, &placed, o->f.err, o->f.err_len);
    mem_free(at);
    mem_free(paths);
    return rc;
}

static int open_all(struct opening *o, struct gguf **out)
{
    uint8_t *head;
    size_t bytes;
    int rc = hf_config_add(&o->f);

    if (rc == 0)
        rc = hf_tokenizer_add(&o->f);
    if (rc == 0)
        rc = hf_generation_config_add(&o->f);
    if (rc == 0)
        rc = safetensors_read(&o->files, &o->f);
    if (rc == 0)
        rc = add_tensors(o);
    if (rc < 0)
        return rc;
    rc = gguf_writer_finish(o->f.w, &head, &bytes);
    if (rc < 0)
        return hf_fail(&o->f, rc, HF_CONFIG, "%s", err_text(rc));
    rc = open_files(o, out, head, bytes);
    if (rc < 0)
        mem_free(head);
    return rc;
}

int hf_model_open(struct gguf **out, const char *folder, const char *pre, char *err, size_t err_len)
{
    struct opening o = {0};
    int rc = hf_folder_open(&o.f, folder, pre, err, err_len);

    *out = NULL;
    if (rc == 0)
        rc = open_all(&o, out);
    safetensors_release(&o.files);
    mem_free(o.places);
    hf_folder_release(&o.f);
    return rc;
}
