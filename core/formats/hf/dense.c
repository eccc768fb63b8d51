/* core/formats/hf/dense.c - the module Dense of a late interaction model; see config.h.
 *
 * PyLate and sentence-transformers save the layer in a folder of its own: config.json with its
 * sizes, and model.safetensors with `linear.weight`. It follows the Transformer without a Pooling
 * between, so it reads each token. Only a linear layer is computed.
 */
#include "core/formats/hf/config.h"

#include "core/base/err.h"

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

int hf_dense_add(struct hf_folder *f)
{
    cJSON *o = NULL;
    int rc = hf_read(f, DENSE_CONFIG, MAX_DENSE, &o);

    if (rc == 0)
        rc = check_dense(f, o);
    cJSON_Delete(o);
    f->head_file = HF_DENSE_FOLDER "/model.safetensors";
    return rc;
}
