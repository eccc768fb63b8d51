/* core/formats/hf/bert.c - config.json of BertModel and RobertaModel classes, the labels of their
 * classifiers, and the files that sentence-transformers writes beside it; see hf_impl.h.
 *
 * An embedding is right only if pooling, normalisation and prompts are those of training, so every
 * module of the sentence-transformers pipeline is either turned into a key or refused by name.
 * modern_bert.c and nomic.c use that part too, through hf_sentence_add() and hf_labels_add().
 */
#include "core/formats/hf/config.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf/classes.h"
#include "core/formats/hf_folder.h"

#include <stdio.h>
#include <string.h>

#define MAX_FILE ((size_t)1 << 20)
#define MODULES "modules.json"
#define POOLING_FOLDER "1_Pooling"
#define POOLING POOLING_FOLDER "/config.json"

#define SENTENCE "sentence_bert_config.json"
#define PROMPTS "config_sentence_transformers.json"

enum { MEAN = 1, FIRST = 2, RANK = 4, TOKENS = 5 }; /* values of pooling_type */

/* ---- config.json ---- */

static int check_bert_neutral(const struct hf_folder *f)
{
    int rc = hf_only_text(f, "hidden_act", "gelu");

    if (rc == 0)
        rc = hf_only_text(f, "position_embedding_type", "absolute");
    if (rc == 0)
        rc = hf_only_bool(f, "is_decoder", false);
    if (rc == 0)
        rc = hf_only_bool(f, "add_cross_attention", false);
    return rc;
}

static int add_sizes(struct hf_folder *f)
{
    const struct {
        const char *name, *key;
        uint32_t most;
    } sizes[] = {
        {"hidden_size", "bert.embedding_length", HF_MAX_SIZE},
        {"intermediate_size", "bert.feed_forward_length", HF_MAX_SIZE},
        {"num_hidden_layers", "bert.block_count", HF_MAX_LAYERS},
        {"num_attention_heads", "bert.attention.head_count", HF_MAX_SIZE},
        {"max_position_embeddings", "bert.context_length", HF_MAX_SIZE},
        {"type_vocab_size", "tokenizer.ggml.token_type_count", HF_MAX_SIZE},
        {"vocab_size", NULL, HF_MAX_VOCAB},
    };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint32_t v = 0;
        const int rc = hf_u32(f, HF_CONFIG, f->config, sizes[i].name, 1, sizes[i].most, &v);

        if (rc < 0)
            return rc;
        if (v == 0)
            return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'%s' is missing", sizes[i].name);
        if (strcmp(sizes[i].name, "max_position_embeddings") == 0) {
            if (v <= f->n_skipped)
                return hf_fail(f, ERR_FORMAT, HF_CONFIG,
                               "'max_position_embeddings' is %u, but must be above %u", v,
                               f->n_skipped);
            v -= f->n_skipped;
        }
        if (sizes[i].key != NULL)
            gguf_writer_u32(f->w, sizes[i].key, v);
        else
            f->n_vocab = v;
        if (strcmp(sizes[i].name, "num_hidden_layers") == 0)
            f->n_layer = v;
    }
    return 0;
}

/* ---- files of sentence-transformers ---- */

/* Check a module of the pipeline: one that cannot follow a Transformer here is refused. */
static int check_module(struct hf_folder *f, const cJSON *module)
{
    const char *type = hf_text(module, "type"), *path = hf_text(module, "path");
    const char *dot = type != NULL ? strrchr(type, '.') : NULL;
    const char *kind = dot != NULL ? dot + 1 : "";
    char shown[80];

    if (strcmp(kind, "Normalize") == 0)
        return 0;
    if (strcmp(kind, "Transformer") == 0 && path != NULL && path[0] == '\0')
        return 0;
    if (strcmp(kind, "Pooling") == 0 && path != NULL && strcmp(path, POOLING_FOLDER) == 0)
        return 0;
    if (strcmp(kind, "Dense") == 0 && path != NULL && strcmp(path, HF_DENSE_FOLDER) == 0)
        return hf_dense_add(f);
    return hf_fail(f, ERR_UNSUPPORTED, MODULES,
                   "the module '%s' is not supported (Transformer in the folder itself, Pooling "
                   "in " POOLING_FOLDER ", Dense in " HF_DENSE_FOLDER " and Normalize are)",
                   type != NULL ? hf_printable(shown, sizeof(shown), type) : "");
}

static int check_modules(struct hf_folder *f)
{
    cJSON *list = NULL;
    const cJSON *m;
    int rc = hf_read_list(f, MODULES, MAX_FILE, &list);

    if (rc == ERR_NOENT)
        return 0;
    cJSON_ArrayForEach(m, list)
    {
        if (rc == 0)
            rc = check_module(f, m);
    }
    cJSON_Delete(list);
    return rc;
}

/* Find the one pooling_mode_* that is true, as *type; more or none are refused. */
static int find_mode(const struct hf_folder *f, const cJSON *o, uint32_t *type)
{
    static const char start[] = "pooling_mode_";
    unsigned n = 0;
    const cJSON *m;

    cJSON_ArrayForEach(m, o)
    {
        const char *mode = m->string + sizeof(start) - 1;
        char shown[48];

        if (strncmp(m->string, start, sizeof(start) - 1) != 0 || !cJSON_IsTrue(m))
            continue;
        if (strcmp(mode, "mean_tokens") != 0 && strcmp(mode, "cls_token") != 0)
            return hf_fail(f, ERR_UNSUPPORTED, POOLING,
                           "'%s' is true, but only pooling_mode_mean_tokens and "
                           "pooling_mode_cls_token are supported",
                           hf_printable(shown, sizeof(shown), m->string));
        *type = mode[0] == 'm' ? MEAN : FIRST;
        n++;
    }
    return n == 1 ? 0
                  : hf_fail(f, ERR_UNSUPPORTED, POOLING,
                            "%u of the 'pooling_mode_*' are true, but exactly 1 is supported", n);
}

/* Add the pooling. Without the file the setting `pooling` or its default applies, as for a GGUF
 * file without the key. */
static int add_pooling(struct hf_folder *f)
{
    cJSON *o = NULL;
    uint32_t type = 0;
    int rc = hf_read(f, POOLING, MAX_FILE, &o);

    if (rc == ERR_NOENT)
        return 0;
    if (rc == 0 && f->n_heads > 0)
        rc = hf_fail(f, ERR_UNSUPPORTED, MODULES,
                     "Dense in " HF_DENSE_FOLDER " beside Pooling is not supported: it must read "
                     "tokens");
    if (rc == 0)
        rc = find_mode(f, o, &type);
    cJSON_Delete(o);
    if (rc == 0)
        hf_key_u32(f, "pooling_type", type);
    return rc;
}

/* Refuse lower-casing before a tokenizer that keeps capital letters. */
static int check_sentence(const struct hf_folder *f)
{
    const cJSON *normalizer = hf_member(f->tokenizer, "normalizer");
    bool lowers = false;
    cJSON *o = NULL;
    int rc = hf_read(f, SENTENCE, MAX_FILE, &o);

    if (rc == ERR_NOENT)
        return 0;
    if (rc == 0)
        rc = hf_bool(f, SENTENCE, o, "do_lower_case", &lowers);
    cJSON_Delete(o);
    if (rc == 0 && lowers && cJSON_IsFalse(hf_member(normalizer, "lowercase")))
        rc = hf_fail(f, ERR_UNSUPPORTED, SENTENCE,
                     "'do_lower_case' is true, but 'lowercase' in " HF_TOKENIZER
                     " is false: that is not supported");
    return rc;
}

/* Add the prompts, which clients choose by name. */
static int list_prompts(struct hf_folder *f, const cJSON *prompts)
{
    const size_t n = cJSON_IsObject(prompts) ? (size_t)cJSON_GetArraySize(prompts) : 0;
    struct gguf_str *names = mem_calloc(n + 1, sizeof(*names));
    struct gguf_str *texts = mem_calloc(n + 1, sizeof(*texts));
    int rc = names != NULL && texts != NULL ? 0 : hf_fail(f, ERR_NOMEM, PROMPTS, "out of memory");
    size_t i = 0;
    const cJSON *m;

    cJSON_ArrayForEach(m, prompts)
    {
        const char *text = cJSON_GetStringValue(m);

        if (rc == 0 && (m->string == NULL || text == NULL))
            rc = hf_fail(f, ERR_FORMAT, PROMPTS, "'prompts' is not an object of texts");
        if (rc < 0)
            break;
        names[i] = (struct gguf_str){m->string, strlen(m->string)};
        texts[i++] = (struct gguf_str){text, strlen(text)};
    }
    if (rc == 0 && n > 0) {
        gguf_writer_str_array(f->w, "tokenizer.prompt_names", names, n);
        gguf_writer_str_array(f->w, "tokenizer.prompt_texts", texts, n);
    }
    mem_free(names);
    mem_free(texts);
    return rc;
}

/* Add the prompts, and refuse one that is put before every text. */
static int add_prompts(struct hf_folder *f)
{
    cJSON *o = NULL;
    char shown[64];
    int rc = hf_read(f, PROMPTS, MAX_FILE, &o);

    if (rc == ERR_NOENT)
        return 0;
    if (rc == 0 && hf_text(o, "default_prompt_name") != NULL)
        rc = hf_fail(f, ERR_UNSUPPORTED, PROMPTS,
                     "'default_prompt_name' is '%s', but default prompts are not supported: remove "
                     "the key, and let clients send the prompt with their texts",
                     hf_printable(shown, sizeof(shown), hf_text(o, "default_prompt_name")));
    if (rc == 0)
        rc = list_prompts(f, hf_member(o, "prompts"));
    cJSON_Delete(o);
    return rc;
}

int hf_sentence_add(struct hf_folder *f)
{
    int rc = check_modules(f);

    if (rc == 0)
        rc = check_sentence(f);
    if (rc == 0)
        rc = add_prompts(f);
    if (rc == 0 && (f->class->flags & (HF_LABELS | HF_TOKEN_LABELS)) == 0)
        rc = add_pooling(f);
    return rc;
}

/* ---- labels ---- */

static const char *label_of(const cJSON *names, int i)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", i);
    return hf_text(names, number);
}

/* Add the names of the labels in the order of their numbers; a single label needs no name. */
int hf_labels_add(struct hf_folder *f)
{
    const bool is_of_tokens = (f->class->flags & HF_TOKEN_LABELS) != 0;
    const cJSON *names = hf_member(f->config, "id2label");
    const int n = cJSON_IsObject(names) ? cJSON_GetArraySize(names) : 0;
    const char *problem = hf_text(f->config, "problem_type");
    struct gguf_str *list;
    int rc;

    if (!is_of_tokens && (f->class->flags & HF_LABELS) == 0)
        return 0;
    list = mem_calloc((size_t)n + 1, sizeof(*list));
    rc = list != NULL ? 0 : hf_fail(f, ERR_NOMEM, HF_CONFIG, "out of memory");

    if (rc == 0 && problem != NULL && strcmp(problem, "single_label_classification") != 0 &&
        strcmp(problem, "regression") != 0)
        rc = hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                     "'problem_type' is neither single_label_classification nor regression");
    for (int i = 0; i < n && rc == 0; i++) {
        const char *name = label_of(names, i);

        if (name == NULL)
            rc = hf_fail(f, ERR_FORMAT, HF_CONFIG, "'id2label' has no text for label %d", i);
        else
            list[i] = (struct gguf_str){name, strlen(name)};
    }
    if (rc == 0 && n > 1)
        hf_key_text_array(f, "classifier.output_labels", list, (size_t)n);
    hf_key_u32(f, "pooling_type", is_of_tokens ? TOKENS : RANK);
    mem_free(list);
    return rc;
}

/* Read RoBERTa's first position: it counts from after the padding's id. */
static int read_skipped(struct hf_folder *f)
{
    uint32_t pad = 1;
    int rc = 0;

    if (strcmp(f->class->root, "roberta.") != 0)
        return 0;
    rc = hf_u32(f, HF_CONFIG, f->config, "pad_token_id", 0, HF_MAX_VOCAB, &pad);
    f->n_skipped = pad + 1;
    return rc;
}

int hf_bert_add(struct hf_folder *f)
{
    double eps = 1e-12;
    int rc = check_bert_neutral(f);

    if (rc == 0)
        rc = hf_positive(f, HF_CONFIG, f->config, "layer_norm_eps", &eps);
    if (rc < 0)
        return rc;
    gguf_writer_str(f->w, "general.architecture", "bert");
    gguf_writer_f32(f->w, "bert.attention.layer_norm_epsilon", (float)eps);
    gguf_writer_bool(f->w, "bert.attention.causal", false);
    rc = read_skipped(f);
    if (rc == 0)
        rc = add_sizes(f);
    if (rc == 0)
        rc = hf_sentence_add(f);
    if (rc == 0 && (f->class->flags & (HF_LABELS | HF_TOKEN_LABELS)) == 0)
        rc = hf_sparse_add(f);
    return rc == 0 ? hf_labels_add(f) : rc;
}
