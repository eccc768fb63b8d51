/* core/formats/hf/quant.c - quantization_config and the names of its tensors; see quant.h.
 *
 * Each method has a function that reads its settings into one struct hf_quant and refuses what
 * recipe.c cannot make. The layers that a config excludes need no list: a weight is quantised if
 * its other tensors (scales, zero points) are there. Names are split by a table of endings.
 */
#include "core/formats/hf/quant.h"

#include "core/base/err.h"
#include "core/formats/hf_folder.h"

#include <stdio.h>
#include <string.h>

static int refuse_quant(const struct hf_folder *f, const char *name, const char *found,
                        const char *only)
{
    char shown[40];

    return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                   "'%s' of 'quantization_config' is '%s', but only %s is supported", name,
                   found != NULL ? hf_printable(shown, sizeof(shown), found) : "?", only);
}

static bool same(const char *text, const char *wanted)
{
    return text != NULL && strcmp(text, wanted) == 0;
}

/* ---- one method each ---- */

static int read_fp8(const struct hf_folder *f, const cJSON *o, struct hf_quant *q)
{
    const cJSON *size = hf_member(o, "weight_block_size");
    const char *format = hf_text(o, "fmt");

    q->code = CODE_FP8;
    if (format != NULL && !same(format, "e4m3"))
        return refuse_quant(f, "fmt", format, "e4m3");
    if (size == NULL)
        return 0;
    for (int i = 0; i < 2; i++) {
        const cJSON *m = cJSON_GetArrayItem(size, i);

        if (cJSON_GetArraySize(size) != 2 || !cJSON_IsNumber(m) || !(m->valuedouble >= 1.0) ||
            m->valuedouble > 65536.0)
            return hf_fail(f, ERR_FORMAT, HF_CONFIG,
                           "'weight_block_size' is not a pair of whole numbers from 1 to 65536");
        q->block[i] = (uint32_t)m->valuedouble;
    }
    return 0;
}

/* Read the number of inputs that share a scale: -1 means all. */
static int read_group(const struct hf_folder *f, const cJSON *o, struct hf_quant *q)
{
    const cJSON *m = hf_member(o, "group_size");

    if (cJSON_IsNumber(m) && m->valuedouble == -1.0)
        return 0;
    return hf_u32(f, HF_CONFIG, o, "group_size", 1, 1u << 20, &q->group);
}

static int read_bits(const struct hf_folder *f, const cJSON *o, const char *name,
                     struct hf_quant *q)
{
    const int rc = hf_u32(f, HF_CONFIG, o, name, 1, 64, &q->bits);

    if (rc == 0 && q->bits != 4 && q->bits != 8)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "'%s' of 'quantization_config' is %u, but only 4 and 8 are supported", name,
                       q->bits);
    return rc;
}

static int read_gptq(const struct hf_folder *f, const cJSON *o, struct hf_quant *q)
{
    const char *format = hf_text(o, "checkpoint_format");
    int rc = read_bits(f, o, "bits", q);

    q->code = CODE_GPTQ;
    q->zero_more = same(format, "gptq_v2") ? 0 : 1;
    if (format != NULL && !same(format, "gptq") && !same(format, "gptq_v2"))
        return refuse_quant(f, "checkpoint_format", format, "gptq or gptq_v2");
    return rc == 0 ? read_group(f, o, q) : rc;
}

static int read_awq(const struct hf_folder *f, const cJSON *o, struct hf_quant *q)
{
    const char *version = hf_text(o, "version");
    int rc = read_bits(f, o, "bits", q);

    q->code = CODE_AWQ;
    if (rc == 0 && q->bits != 4)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "'bits' of 'quantization_config' is 8, but only 4 is supported for awq");
    if (version != NULL && !same(version, "gemm") && !same(version, "GEMM"))
        return refuse_quant(f, "version", version, "gemm");
    return rc == 0 ? read_group(f, o, q) : rc;
}

/* Read a group's settings for weights; all groups must agree. */
static int read_weights(const struct hf_folder *f, const cJSON *w, const char *format,
                        struct hf_quant *q)
{
    const char *type = hf_text(w, "type");
    int rc = read_bits(f, w, "num_bits", q);

    if (rc == 0)
        rc = read_group(f, w, q);
    if (rc < 0)
        return rc;
    if (hf_text(w, "actorder") != NULL && !same(hf_text(w, "actorder"), "static") &&
        !same(hf_text(w, "actorder"), "weight"))
        return refuse_quant(f, "actorder", hf_text(w, "actorder"), "static");
    if (same(type, "float") && q->bits == 8 && !same(format, "pack-quantized"))
        q->code = CODE_FP8;
    else if (same(type, "int") && same(format, "pack-quantized"))
        q->code = CODE_PACKED;
    else if (same(type, "int") && q->bits == 8)
        q->code = CODE_INT8;
    else
        return refuse_quant(f, "type", type, "int, or float with 8 bits,");
    return 0;
}

static int read_compressed(const struct hf_folder *f, const cJSON *o, struct hf_quant *q)
{
    static const char *const formats[] = {"pack-quantized", "float-quantized", "int-quantized",
                                          "naive-quantized"};
    const char *format = hf_text(o, "format");
    const char *sparsity = hf_text(hf_member(o, "sparsity_config"), "format");
    const cJSON *group;
    bool is_known = false;
    unsigned n = 0;

    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        is_known |= same(format, formats[i]);
    if (!is_known)
        return refuse_quant(f, "format", format,
                            "pack-quantized, float-quantized, int-quantized or naive-quantized");
    if (sparsity != NULL && !same(sparsity, "dense"))
        return refuse_quant(f, "sparsity_config", sparsity, "dense");
    if (hf_member(o, "kv_cache_scheme") != NULL)
        return refuse_quant(f, "kv_cache_scheme", "set", "null");
    cJSON_ArrayForEach(group, hf_member(o, "config_groups"))
    {
        struct hf_quant one = {0};
        const int rc = read_weights(f, hf_member(group, "weights"), format, &one);

        if (rc < 0)
            return rc;
        if (n++ > 0 && memcmp(&one, q, sizeof(one)) != 0)
            return refuse_quant(f, "config_groups", "several", "one kind of weights");
        *q = one;
    }
    return n > 0 ? 0 : hf_fail(f, ERR_FORMAT, HF_CONFIG, "'config_groups' has no groups");
}

int hf_quant_read(const struct hf_folder *f, struct hf_quant *q)
{
    const cJSON *o = hf_member(f->config, "quantization_config");
    const char *method;

    o = o != NULL ? o : hf_member(f->config, "compression_config");
    method = hf_text(o, "quant_method");
    *q = (struct hf_quant){0};
    if (o == NULL)
        return 0;
    if (same(method, "fp8"))
        return read_fp8(f, o, q);
    if (same(method, "gptq"))
        return read_gptq(f, o, q);
    if (same(method, "awq"))
        return read_awq(f, o, q);
    if (same(method, "compressed-tensors"))
        return read_compressed(f, o, q);
    if (!same(method, "mxfp4"))
        return refuse_quant(f, "quant_method", method,
                            "one of fp8, gptq, awq, mxfp4 and compressed-tensors");
    q->code = CODE_MXFP4;
    return 0;
}

/* ---- names ---- */

enum { NO_PART = HF_N_ROLE };

static const struct {
    const char *end;
    uint8_t role;
} ends[] = {
    {".weight_scale_inv", ROLE_SCALE}, {".weight_scale", ROLE_SCALE},
    {".weight_packed", ROLE_WEIGHT},   {".weight_zero_point", ROLE_ZERO},
    {".weight_g_idx", ROLE_ORDER},     {".weight_shape", NO_PART},
    {".qweight", ROLE_WEIGHT},         {".qzeros", ROLE_ZERO},
    {".scales", ROLE_SCALE},           {".g_idx", ROLE_ORDER},
    {".input_scale", NO_PART},         {".activation_scale", NO_PART},
    {"_blocks", ROLE_WEIGHT},          {"_scales", ROLE_SCALE},
};

bool hf_quant_split(const struct hf_quant *q, const char *theirs, char name[256],
                    enum hf_role *role)
{
    const size_t n = strlen(theirs);

    *role = ROLE_WEIGHT;
    /* a name that is cut here is not a known tensor's: those are shorter than GGUF_MAX_NAME */
    snprintf(name, 256, "%s", theirs);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]) && q->code != CODE_PLAIN; i++) {
        const size_t m = strlen(ends[i].end);

        if (n <= m || strcmp(theirs + n - m, ends[i].end) != 0)
            continue;
        snprintf(name, 256, "%.*s.weight", (int)(n - m < 200 ? n - m : 200), theirs);
        if (ends[i].role == NO_PART)
            return false;
        *role = (enum hf_role)ends[i].role;
        return true;
    }
    return true;
}
