/* core/formats/hf/dense.c - heads that read tokens and whose weights lie in files of their own; see
 * config.h.
 *
 * PyLate and sentence-transformers save the layer in a folder of its own: config.json with its
 * sizes, and model.safetensors with `linear.weight`. It follows the Transformer without a Pooling
 * between, so it reads each token. Only a linear layer is computed.
 *
 * bge-m3 has a head for lexical weights and one for vectors of late interaction beside the model's
 * weights. Its publishers' files are pickles, which are not read; converted ones are.
 */
#include "core/formats/hf/config.h"

#include "core/base/err.h"

#include <assert.h>
#include <string.h>

#define DENSE_CONFIG HF_DENSE_FOLDER "/config.json"
#define MAX_DENSE ((size_t)1 << 20)

static int check_dense(const struct hf_folder *f, const cJSON *o)
{
    static const char identity[] = "Identity";
    const char *act = hf_text(o, "activation_function");
    const char *dot = act != NULL ? strrchr(act, '.') : NULL;
    bool has_residual = false;
    char shown[80];
    int rc = hf_bool(f, DENSE_CONFIG, o, "use_residual", &has_residual);

    if (rc == 0 && has_residual)
        return hf_fail(f, ERR_UNSUPPORTED, DENSE_CONFIG,
                       "'use_residual' is true, but only false is supported");
    if (rc == 0 && (dot == NULL || strcmp(dot + 1, identity) != 0))
        return hf_fail(f, ERR_UNSUPPORTED, DENSE_CONFIG,
                       "'activation_function' is '%s', but only %s is supported",
                       act != NULL ? hf_printable(shown, sizeof(shown), act) : "", identity);
    return rc;
}

static void add_head_file(struct hf_folder *f, const char *file, const char *theirs,
                          const char *ours)
{
    assert(f->n_heads < HF_MAX_HEADS);
    f->heads[f->n_heads++] = (struct hf_head_file){file, theirs, ours};
}

int hf_dense_add(struct hf_folder *f)
{
    cJSON *o = NULL;
    int rc = hf_read(f, DENSE_CONFIG, MAX_DENSE, &o);

    if (rc == 0)
        rc = check_dense(f, o);
    cJSON_Delete(o);
    if (rc == 0)
        add_head_file(f, HF_DENSE_FOLDER "/model.safetensors", "linear.", "dense_2");
    return rc;
}

int hf_sparse_add(struct hf_folder *f)
{
    static const struct hf_head_file heads[] = {
        {"sparse_linear.safetensors", "sparse_linear.", "sparse_linear"},
        {"colbert_linear.safetensors", "colbert_linear.", "colbert_linear"}};

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        size_t none = 0;
        uint64_t size;
        const int rc = hf_read_bytes(f, heads[i].file, 0, NULL, &none, &size);

        if (rc == ERR_NOENT)
            continue;
        if (rc < 0)
            return rc;
        add_head_file(f, heads[i].file, heads[i].theirs, heads[i].ours);
    }
    return 0;
}
