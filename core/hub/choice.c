/* core/hub/choice.c - see choice.h.
 *
 * A GGUF file is found by its quantization as a whole word of the name, the shortest name first,
 * and then all parts with the same name and count are collected by number. For a folder every file
 * is tested against lists: weights of one scheme, files of the tokenizer and of
 * sentence-transformers, templates. Nothing else is fetched.
 */
#include "core/hub/choice.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/hub/listing.h"
#include "core/hub/reference.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define INDEX "model.safetensors.index.json"
#define MAX_LISTED 600     /* bytes of the names in a sentence */
#define MAX_PARTS 1024     /* the loader's own limit */
#define PART_SUFFIX_LEN 15 /* bytes of -00001-of-00003 */

static bool file_ends_with(const char *s, size_t n, const char *end)
{
    const size_t len = strlen(end);

    return n >= len && strncasecmp(s + n - len, end, len) == 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Return the length of s[0..n) without "-00001-of-00003"; *no and *count get the two numbers, or 1
 * if the name has no such end. */
static size_t without_part(const char *s, size_t n, unsigned *no, unsigned *count)
{
    char tail[PART_SUFFIX_LEN + 1];
    int end = 0;

    *no = *count = 1;
    if (n <= PART_SUFFIX_LEN)
        return n;
    memcpy(tail, s + n - PART_SUFFIX_LEN, PART_SUFFIX_LEN);
    tail[PART_SUFFIX_LEN] = '\0';
    if (strspn(tail + 1, "0123456789") == 5 && strspn(tail + 10, "0123456789") == 5 &&
        sscanf(tail, "-%5u-of-%5u%n", no, count, &end) == 2 && end == PART_SUFFIX_LEN)
        return n - PART_SUFFIX_LEN;
    *no = *count = 1;
    return n;
}

static bool is_gguf(const char *path)
{
    return file_ends_with(path, strlen(path), ".gguf");
}

/* True: the file is a model: projectors and importance matrices have these words in their names. */
static bool is_model_gguf(const char *path)
{
    const char *name = base_name(path);

    return is_gguf(path) && strcasestr(name, "mmproj") == NULL &&
           strcasestr(name, "imatrix") == NULL;
}

static size_t stem_of(const char *path, unsigned *no, unsigned *count)
{
    return without_part(path, strlen(path) - 5, no, count); /* name without ".gguf" */
}

/* True: the path has the quantization as a whole word: "Q4_K" is not one of "Q4_K_M". */
static bool has_quant(const char *path, size_t len, const char *quant)
{
    const size_t n = strlen(quant);

    for (size_t i = 0; n > 0 && i + n <= len; i++)
        if (strncasecmp(path + i, quant, n) == 0 &&
            (i == 0 || strchr("-./", path[i - 1]) != NULL) &&
            (i + n == len || strchr("-./", path[i + n]) != NULL))
            return true;
    return false;
}

/* Find the first part of the file with this quantization and the shortest name: "x-Q8_0" comes
 * before "x-tuned-Q8_0". "": any quantization, the first by name. */
static const struct hub_file *find_quant(const struct hub_listing *l, const char *quant)
{
    const struct hub_file *best = NULL;

    for (size_t i = 0; i < l->n; i++) {
        const struct hub_file *f = &l->files[i];
        unsigned no, count;
        size_t len;

        if (!is_model_gguf(f->path))
            continue;
        len = stem_of(f->path, &no, &count);
        if (no != 1 || (quant[0] != '\0' && !has_quant(f->path, len, quant)))
            continue;
        if (best == NULL || (quant[0] != '\0' && strlen(f->path) < strlen(best->path)))
            best = f;
    }
    return best;
}

static int fail_listed(const struct hub_listing *l, const char *want, char *err, size_t err_len)
{
    struct buf b;
    char shown[120], name[120];
    unsigned no, count, n = 0;

    buf_init(&b, MAX_LISTED);
    for (size_t i = 0; i < l->n; i++) {
        const char *path = l->files[i].path;

        if (!is_model_gguf(path) || (stem_of(path, &no, &count), no != 1))
            continue;
        buf_printf(&b, "%s%s", n++ > 0 ? ", " : "", hub_printable(name, sizeof(name), path));
    }
    hub_fail(ERR_NOENT, err, err_len,
             "the repository has no GGUF file '%s'; its GGUF files are: %s%s",
             hub_printable(shown, sizeof(shown), want), n > 0 ? b.data : "none",
             b.err != 0 ? ", ..." : "");
    buf_release(&b);
    return ERR_NOENT;
}

/* Choose all parts of the file that `f` is a part of; *first is the first of them. */
static int choose_parts(struct hub_listing *l, const struct hub_file *f, const char **first,
                        char *err, size_t err_len)
{
    char path[HUB_MAX_PATH + 32], shown[200];
    unsigned no, count;
    const size_t len = stem_of(f->path, &no, &count);

    if (count == 0 || no == 0 || no > count || count > MAX_PARTS)
        return hub_fail(ERR_FORMAT, err, err_len,
                        "'%s' is not a valid part of a split model, which has at most %d parts",
                        hub_printable(shown, sizeof(shown), f->path), MAX_PARTS);
    for (unsigned i = 1; i <= count; i++) {
        struct hub_file *part;

        if (count == 1 && len + 5 == strlen(f->path))
            snprintf(path, sizeof(path), "%s", f->path);
        else
            snprintf(path, sizeof(path), "%.*s-%05u-of-%05u%s", (int)len, f->path, i, count,
                     f->path + strlen(f->path) - 5);
        part = hub_listing_find(l, path);
        if (part == NULL)
            return hub_fail(ERR_FORMAT, err, err_len, "the part '%s' is missing",
                            hub_printable(shown, sizeof(shown), path));
        part->is_chosen = true;
        if (i == 1)
            *first = part->path;
    }
    return 0;
}

/* ---- a folder ---- */

/* True: the file is one that transformers and sentence-transformers write beside the weights. */
static bool is_side_file(const char *path)
{
    static const char *const names[] = {"config.json",
                                        "generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "tokenizer.model",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "vocab.txt",
                                        "merges.txt",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        "modules.json",
                                        "sentence_bert_config.json",
                                        "config_sentence_transformers.json",
                                        "sparse_linear.safetensors", /* heads of bge-m3 */
                                        "colbert_linear.safetensors"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    return false;
}

/* True: the file is a template: "additional_chat_templates/tool_use.jinja". */
static bool is_template_file(const char *path)
{
    static const char folder[] = "additional_chat_templates/";
    const size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && strchr(path + n, '/') == NULL &&
           file_ends_with(path, strlen(path), ".jinja");
}

/* True: the file is of a module of sentence-transformers: "1_Pooling/config.json",
 * "2_Dense/model.safetensors". */
static bool is_module_file(const char *path)
{
    const size_t digits = strspn(path, "0123456789");
    const char *slash = strchr(path, '/');

    return digits > 0 && path[digits] == '_' && slash != NULL &&
           (strcmp(slash + 1, "config.json") == 0 || strcmp(slash + 1, "model.safetensors") == 0);
}

enum weights { WEIGHTS_ONE, WEIGHTS_SHARDS, WEIGHTS_ANY };

/* Return the kind of weights to load if a repository has several. */
static enum weights weights_of(const struct hub_listing *l)
{
    unsigned no, count;

    if (hub_listing_find(l, "model.safetensors") != NULL)
        return WEIGHTS_ONE;
    for (size_t i = 0; i < l->n; i++) {
        const char *path = l->files[i].path;
        const size_t n = strlen(path);

        if (file_ends_with(path, n, ".safetensors") && strncmp(path, "model-", 6) == 0 &&
            without_part(path, n - strlen(".safetensors"), &no, &count) == 5)
            return WEIGHTS_SHARDS;
    }
    return WEIGHTS_ANY;
}

static bool is_weight_file(const char *path, enum weights kind)
{
    unsigned no, count;
    size_t n = strlen(path);

    if (strchr(path, '/') != NULL || !file_ends_with(path, n, ".safetensors"))
        return false;
    if (kind == WEIGHTS_ONE)
        return strcmp(path, "model.safetensors") == 0;
    n = without_part(path, n - strlen(".safetensors"), &no, &count);
    if (kind == WEIGHTS_SHARDS)
        return n == 5 && strncmp(path, "model", 5) == 0;
    return strncmp(path, "adapter", 7) != 0 && strncmp(path, "consolidated", 12) != 0;
}

/* Choose a LoRA adapter as PEFT saves it, if there is no model beside it. */
static bool choose_adapter(struct hub_listing *l)
{
    struct hub_file *config = hub_listing_find(l, "adapter_config.json");
    struct hub_file *weights = hub_listing_find(l, "adapter_model.safetensors");

    if (config == NULL || weights == NULL || hub_listing_find(l, "config.json") != NULL)
        return false;
    config->is_chosen = weights->is_chosen = true;
    return true;
}

static int choose_folder(struct hub_listing *l, const char **first, char *err, size_t err_len)
{
    const enum weights kind = weights_of(l);
    size_t n_weights = 0;

    *first = "";
    if (choose_adapter(l))
        return 0;
    for (size_t i = 0; i < l->n; i++) {
        struct hub_file *f = &l->files[i];
        const bool is_weight = is_weight_file(f->path, kind);

        f->is_chosen = is_weight || is_side_file(f->path) || is_module_file(f->path) ||
                       is_template_file(f->path) ||
                       (kind != WEIGHTS_ONE && strcmp(f->path, INDEX) == 0);
        n_weights += is_weight;
    }
    if (n_weights > 0 && hub_listing_find(l, "config.json") != NULL)
        return 0;
    return hub_fail(ERR_NOENT, err, err_len,
                    "the repository has neither a GGUF file nor config.json with safetensors nor "
                    "an adapter (adapter_config.json with adapter_model.safetensors)");
}

int hub_choose(struct hub_listing *l, const char *want, const char **first, char *err,
               size_t err_len)
{
    static const char *const usual[] = {"Q4_K_M", "Q8_0", ""};
    const struct hub_file *f = NULL;

    for (size_t i = 0; i < l->n; i++)
        l->files[i].is_chosen = false;
    if (strcasecmp(want, "safetensors") == 0)
        return choose_folder(l, first, err, err_len);
    if (want[0] == '\0') {
        for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]) && f == NULL; i++)
            f = find_quant(l, usual[i]);
        if (f == NULL)
            return choose_folder(l, first, err, err_len);
    } else {
        f = is_gguf(want) ? hub_listing_find(l, want) : find_quant(l, want);
        if (f == NULL)
            return fail_listed(l, want, err, err_len);
    }
    return choose_parts(l, f, first, err, err_len);
}
