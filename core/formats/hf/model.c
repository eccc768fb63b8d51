/* core/formats/hf/model.c - see model.h.
 *
 * The order matters: config.json decides the class and sizes that the tokenizer and the tensors are
 * checked against. The header goes through the GGUF writer and the ordinary GGUF parser, so a
 * folder gets every check that a file gets. Trees and names are freed before the function returns;
 * the handle keeps the header, the mappings and the recipes.
 */
#include "core/formats/hf/model.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf/generation_config.h"
#include "core/formats/hf/hf_impl.h"
#include "core/formats/hf/tensors.h"
#include "core/formats/hf_folder.h"
#include "core/formats/safetensors/safetensors.h"

struct opening {
    struct hf_folder f;
    struct safetensors files;
    struct hf_tensors tensors;
};

static int open_files(struct opening *o, struct gguf **out, uint8_t *head, size_t bytes)
{
    const uint32_t n = o->files.n_files;
    char(*paths)[HF_MAX_PATH] = mem_calloc(n, sizeof(*paths));
    const char **at = mem_calloc(n, sizeof(*at));
    const struct gguf_placed placed = {at, n, o->tensors.places, o->tensors.n_places};
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
        rc = hf_tensors_add(&o->tensors, &o->f, &o->files);
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
    hf_tensors_release(&o.tensors, rc == 0);
    hf_folder_release(&o.f);
    return rc;
}
