/* core/formats/hf/config_json.c - the settings that most classes have; see config.h.
 *
 * hf_config_add() finds the class's row and then runs in a fixed order: neutral settings, sizes,
 * the class's corrections, its own settings, positions, windows. A class of images and text has its
 * text_config merged over the outer object first, so that the rest sees one flat object.
 */
#include "core/formats/hf/config.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf/classes.h"
#include "core/formats/hf/hf_impl.h"
#include "core/json/json.h"

#include <stdio.h>
#include <string.h>

/* ---- keys ---- */

static const char *key(const struct hf_folder *f, const char *suffix, char name[GGUF_MAX_NAME])
{
    snprintf(name, GGUF_MAX_NAME, "%s.%s", f->arch, suffix);
    return name;
}

void hf_key_u32(struct hf_folder *f, const char *suffix, uint32_t v)
{
    char name[GGUF_MAX_NAME];

    gguf_writer_u32(f->w, key(f, suffix, name), v);
}

void hf_key_f32(struct hf_folder *f, const char *suffix, double v)
{
    char name[GGUF_MAX_NAME];

    gguf_writer_f32(f->w, key(f, suffix, name), (float)v);
}

void hf_key_bool(struct hf_folder *f, const char *suffix, bool v)
{
    char name[GGUF_MAX_NAME];

    gguf_writer_bool(f->w, key(f, suffix, name), v);
}

void hf_key_text(struct hf_folder *f, const char *suffix, const char *v)
{
    char name[GGUF_MAX_NAME];

    gguf_writer_str(f->w, key(f, suffix, name), v);
}

void hf_key_text_array(struct hf_folder *f, const char *suffix, const struct gguf_str *v, size_t n)
{
    char name[GGUF_MAX_NAME];

    gguf_writer_str_array(f->w, key(f, suffix, name), v, n);
}

void hf_key_i32_array(struct hf_folder *f, const char *suffix, const int32_t *v, uint32_t n)
{
    char name[GGUF_MAX_NAME];

    gguf_writer_i32_array(f->w, key(f, suffix, name), v, n);
}

int hf_need_key(struct hf_folder *f, const char *name, uint32_t most, const char *suffix)
{
    uint32_t v = 0;
    const int rc = hf_u32(f, HF_CONFIG, f->config, name, 1, most, &v);

    if (rc == 0 && v == 0)
        return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'%s' is missing", name);
    if (rc == 0)
        hf_key_u32(f, suffix, v);
    return rc;
}

int hf_number_key(struct hf_folder *f, const char *name, const char *suffix)
{
    double v = 0.0;
    const int rc = hf_positive(f, HF_CONFIG, f->config, name, &v);

    if (rc == 0 && v > 0.0)
        hf_key_f32(f, suffix, v);
    return rc;
}

/* ---- settings of which one value is computed ---- */

int hf_only_bool(const struct hf_folder *f, const char *name, bool only)
{
    bool v = only;
    const int rc = hf_bool(f, HF_CONFIG, f->config, name, &v);

    return rc < 0 || v == only
               ? rc
               : hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG, "'%s' is %s, which is not supported", name,
                         v ? "true" : "false");
}

int hf_only_text(const struct hf_folder *f, const char *name, const char *only)
{
    const char *found = hf_text(f->config, name);
    char shown[32];

    if (found == NULL && hf_member(f->config, name) == NULL)
        return 0;
    if (found != NULL && strcmp(found, only) == 0)
        return 0;
    return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG, "'%s' is '%s', but only %s is supported", name,
                   found != NULL ? hf_printable(shown, sizeof(shown), found) : "?", only);
}

int hf_only_number(const struct hf_folder *f, const char *name, double only)
{
    const cJSON *m = hf_member(f->config, name);

    if (m == NULL || (cJSON_IsNumber(m) && m->valuedouble == only))
        return 0;
    return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG, "'%s' is %g, but only %g is supported", name,
                   cJSON_IsNumber(m) ? m->valuedouble : 0.0, only);
}

const cJSON *hf_any_member(const struct hf_folder *f, const char *names, char name[64])
{
    while (*names != '\0') {
        const size_t n = strcspn(names, ",");
        const cJSON *m;

        snprintf(name, 64, "%.*s", (int)n, names);
        m = hf_member(f->config, name);
        if (m != NULL)
            return m;
        names += n + (names[n] == ',');
    }
    return NULL;
}

/* ---- the class ---- */

static int find_class(struct hf_folder *f)
{
    const cJSON *list = hf_member(f->config, "architectures");
    const char *class = cJSON_GetStringValue(cJSON_GetArrayItem(list, 0));
    char shown[64];

    if (class == NULL)
        return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'architectures' names none");
    f->class = hf_class_find(class);
    if (f->class != NULL) {
        f->arch = f->class->arch;
        return 0;
    }
    return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                   "architecture '%s' is not supported (core/model/README.md lists those that "
                   "are, and more as GGUF files)",
                   hf_printable(shown, sizeof(shown), class));
}

/* True: the text is in a list with commas. */
static bool is_config_word(const char *text, const char *list)
{
    const size_t n = strlen(text);

    while (*list != '\0') {
        const size_t here = strcspn(list, ",");

        if (here == n && strncmp(list, text, n) == 0)
            return true;
        list += here + (list[here] == ',');
    }
    return false;
}

/* Check that settings that are not computed here are off. */
static int check_config_neutral(struct hf_folder *f)
{
    char name[64], shown[32];
    const cJSON *m =
        hf_any_member(f, "hidden_activation,hidden_act,activation_function,activation", name);
    const char *act = cJSON_GetStringValue(m);
    int rc = hf_only_bool(f, "use_sliding_window", false);

    if (rc == 0)
        rc = hf_only_bool(f, "rope_interleaved", false);
    if (rc == 0)
        rc = hf_only_bool(f, "add_cross_attention", false);
    if (rc == 0 && m != NULL && (act == NULL || !is_config_word(act, f->class->acts)))
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG, "'%s' is '%s', but only %s is supported",
                       name, act != NULL ? hf_printable(shown, sizeof(shown), act) : "?",
                       f->class->acts);
    return rc;
}

/* ---- sizes ---- */

/* Read the first setting of `names` that exists into *v; if none does and may_miss is set, *v stays
 * 0. */
static int read_size(struct hf_folder *f, const char *names, uint32_t most, bool may_miss,
                     uint32_t *v)
{
    char name[64];

    if (hf_any_member(f, names, name) != NULL)
        return hf_u32(f, HF_CONFIG, f->config, name, 1, most, v);
    if (*v == 0 && !may_miss)
        return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'%.*s' is missing", (int)strcspn(names, ","),
                       names);
    return 0;
}

static int read_config_sizes(struct hf_folder *f)
{
    const uint32_t flags = f->class->flags;
    const struct {
        const char *names;
        uint32_t most, *v;
        bool may_miss;
    } sizes[] = {
        {"hidden_size,n_embd,n_embed", HF_MAX_SIZE, &f->n_embd, false},
        {"block_ff_dim,intermediate_size,n_inner,ffn_hidden_size", HF_MAX_SIZE, &f->n_ff,
         (flags & (HF_WIDE_FF | HF_EXPERTS)) != 0},
        {"num_hidden_layers,n_layer,num_layers", HF_MAX_LAYERS, &f->n_layer, false},
        {"num_attention_heads,n_head", HF_MAX_SIZE, &f->n_head, false},
        {"num_key_value_heads", HF_MAX_SIZE, &f->n_kv_head, true},
        {"head_dim", 2 * HF_MAX_HEAD, &f->head_dim, true},
        {"max_position_embeddings,n_positions", HF_MAX_CONTEXT, &f->n_ctx, false},
        {"vocab_size", HF_MAX_VOCAB, &f->n_vocab, false},
    };

    f->head_dim = f->class->head_dim;
    f->n_ctx = f->class->n_ctx;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const int rc = read_size(f, sizes[i].names, sizes[i].most, sizes[i].may_miss, sizes[i].v);

        if (rc < 0)
            return rc;
    }
    f->n_kv_head = f->n_kv_head == 0 ? f->n_head : f->n_kv_head;
    f->head_dim = f->head_dim == 0 ? f->n_embd / f->n_head : f->head_dim;
    f->n_ff = f->n_ff == 0 ? 4 * f->n_embd : f->n_ff;
    if (f->head_dim < 2 || f->head_dim > 2 * HF_MAX_HEAD || f->head_dim % 2 != 0)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG, "heads of %u numbers are not supported",
                       f->head_dim);
    f->is_tied = (flags & HF_TIED) != 0;
    return hf_bool(f, HF_CONFIG, f->config, "tie_word_embeddings", &f->is_tied);
}

static int add_sizes(struct hf_folder *f)
{
    static const char eps_names[] = "rms_norm_eps,layer_norm_eps,layer_norm_epsilon,norm_epsilon,"
                                    "norm_eps";
    double eps = f->class->eps > 0.0 ? f->class->eps : 1e-6;
    char name[64];
    int rc = 0;

    if (hf_any_member(f, eps_names, name) != NULL)
        rc = hf_positive(f, HF_CONFIG, f->config, name, &eps);
    gguf_writer_str(f->w, "general.architecture", f->arch);
    hf_key_u32(f, "block_count", f->n_layer);
    hf_key_u32(f, "context_length", f->n_ctx);
    hf_key_u32(f, "embedding_length", f->n_embd);
    hf_key_u32(f, "feed_forward_length", f->n_ff);
    hf_key_u32(f, "attention.head_count", f->n_head);
    hf_key_f32(f,
               (f->class->flags & HF_LAYER_NORM) != 0 ? "attention.layer_norm_epsilon"
                                                      : "attention.layer_norm_rms_epsilon",
               eps);
    return rc;
}

/* Add keys that the class's `more` may have changed; with n_kv_head 0 `more` has written the
 * numbers of KV heads itself. */
static void add_heads(struct hf_folder *f)
{
    if (f->n_kv_head > 0)
        hf_key_u32(f, "attention.head_count_kv", f->n_kv_head);
    if (strcmp(f->arch, "deepseek2") == 0)
        return;
    hf_key_u32(f, "attention.key_length", f->head_dim);
    hf_key_u32(f, "attention.value_length", f->head_dim);
}

/* ---- windows ---- */

/* Add layer_types, one for each layer, as yes and no. */
static int add_layer_types(struct hf_folder *f, const cJSON *list, bool has_window)
{
    int32_t *yes = mem_calloc(f->n_layer, sizeof(*yes));
    char shown[32];
    const cJSON *m;
    uint32_t i = 0;
    int rc = yes != NULL ? 0 : hf_fail(f, ERR_NOMEM, HF_CONFIG, "out of memory");

    if (rc == 0 && (uint32_t)cJSON_GetArraySize(list) != f->n_layer)
        rc = hf_fail(f, ERR_FORMAT, HF_CONFIG, "'layer_types' has %d elements for %u layers",
                     cJSON_GetArraySize(list), f->n_layer);
    cJSON_ArrayForEach(m, list)
    {
        const char *type = cJSON_GetStringValue(m);

        if (rc < 0)
            break;
        yes[i] = type != NULL && strcmp(type, "sliding_attention") == 0;
        if (type == NULL || (yes[i] == 0 && strcmp(type, "full_attention") != 0) ||
            (yes[i] != 0 && !has_window))
            rc = hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                         "'layer_types' has '%s', which is not "
                         "supported here",
                         hf_printable(shown, sizeof(shown), type ? type : "?"));
        i++;
    }
    if (rc == 0 && has_window)
        hf_key_i32_array(f, "attention.sliding_window_pattern", yes, f->n_layer);
    mem_free(yes);
    return rc;
}

/* Add the pattern "LLLG": a letter for each layer, L with a window and G without, repeated; the
 * last layer has none. */
static int add_pattern_text(struct hf_folder *f, const char *text)
{
    const size_t n = strlen(text);
    int32_t *yes = mem_calloc(f->n_layer, sizeof(*yes));
    char shown[32];

    if (yes == NULL)
        return hf_fail(f, ERR_NOMEM, HF_CONFIG, "out of memory");
    for (uint32_t i = 0; n > 0 && i + 1 < f->n_layer; i++)
        yes[i] = text[i % n] == 'L';
    if (n > 0 && strspn(text, "LG") == n)
        hf_key_i32_array(f, "attention.sliding_window_pattern", yes, f->n_layer);
    mem_free(yes);
    if (n > 0 && strspn(text, "LG") == n)
        return 0;
    return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                   "'sliding_window_pattern' is '%s', but only a number and a text of L and G are "
                   "supported",
                   hf_printable(shown, sizeof(shown), text));
}

/* Add the pattern of windows: every period-th layer has none, or as the text says; layer_types
 * overrides both. */
static int add_pattern(struct hf_folder *f)
{
    const char *text = hf_text(f->config, "sliding_window_pattern");
    uint32_t period = 0;
    int rc;

    if (text != NULL)
        return add_pattern_text(f, text);
    rc = hf_u32(f, HF_CONFIG, f->config, "sliding_window_pattern", 0, HF_MAX_LAYERS, &period);
    if (rc == 0 && period > 0)
        hf_key_u32(f, "attention.sliding_window_pattern", period);
    return rc;
}

static int add_window(struct hf_folder *f)
{
    const cJSON *types = hf_member(f->config, "layer_types");
    uint32_t window = 0;
    int rc = 0;

    if ((f->class->flags & HF_RECURRENT) != 0) /* the family reads its layer types itself */
        return 0;
    if ((f->class->flags & HF_WINDOW) == 0)
        return types != NULL ? add_layer_types(f, types, false) : 0;
    if (cJSON_GetObjectItemCaseSensitive(f->config, "sliding_window") == NULL)
        window = f->class->window;
    rc = hf_u32(f, HF_CONFIG, f->config, "sliding_window", 0, HF_MAX_CONTEXT, &window);
    if (rc < 0)
        return rc;
    hf_key_u32(f, "attention.sliding_window", window);
    if (types != NULL)
        return add_layer_types(f, types, true);
    return window > 0 ? add_pattern(f) : 0;
}

/* In a class that reads images too, merge the outer settings into those of the text part, which
 * have precedence. */
static int take_text_part(struct hf_folder *f)
{
    cJSON *text = cJSON_DetachItemFromObjectCaseSensitive(f->config, "text_config");
    cJSON *m;

    if (!cJSON_IsObject(text)) {
        cJSON_Delete(text);
        return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'text_config' is missing");
    }
    while ((m = f->config->child) != NULL) {
        cJSON_DetachItemViaPointer(f->config, m);
        if (cJSON_GetObjectItemCaseSensitive(text, m->string) == NULL)
            cJSON_AddItemToArray(text, m); /* the member keeps its name */
        else if (strcmp(m->string, "eos_token_id") == 0)
            json_put(text, HF_OUTER_EOS, m); /* ids of both eos lists end a generation */
        else
            cJSON_Delete(m);
    }
    cJSON_Delete(f->config);
    f->config = text;
    return 0;
}

int hf_config_add(struct hf_folder *f)
{
    int rc = find_class(f);

    if (rc == 0 && (f->class->flags & HF_TEXT_PART) != 0)
        rc = take_text_part(f);
    if (rc == 0 && f->class->config != NULL)
        return f->class->config(f);
    if (rc == 0)
        rc = check_config_neutral(f);
    if (rc == 0)
        rc = read_config_sizes(f);
    if (rc == 0 && f->class->adjust != NULL)
        rc = f->class->adjust(f);
    if (rc == 0)
        rc = add_sizes(f);
    if (rc == 0 && f->class->more != NULL)
        rc = f->class->more(f);
    if (rc == 0)
        add_heads(f);
    if (rc == 0 && (f->class->flags & HF_NO_ROPE) == 0)
        rc = hf_rope_add(f);
    return rc == 0 ? add_window(f) : rc;
}
