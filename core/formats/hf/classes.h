/* core/formats/hf/classes.h - the supported classes of transformers: one table.
 *
 * A row gives the GGUF architecture of the class, the defaults of config.json, and the names of the
 * class's tensors. A tensor that no row names is refused by its name; tensors that are not needed
 * for the answer are listed as such.
 *
 * Sources: the classes' modeling_*.py and configuration_*.py in github.com/huggingface/transformers
 *          (for InternLM2 and EXAONE those beside their weights), and for GGUF's names
 *          convert_hf_to_gguf.py in github.com/ggml-org/llama.cpp.
 *
 * Thread: any; the tables are constant.
 * Memory: none.
 */
#ifndef CORE_FORMATS_HF_CLASSES_H
#define CORE_FORMATS_HF_CLASSES_H

#include "core/formats/gguf/gguf.h"

#include <stdbool.h>
#include <stdint.h>

struct hf_folder;

/* How a folder's tensor becomes a GGUF tensor; see recipe.h. */
enum hf_fit {
    FIT_PLAIN = 0,
    FIT_PLUS_ONE,     /* norms that multiply by 1 + weight; become F32 */
    FIT_TURNED,       /* [in][out] becomes [out][in]; vectors stay */
    FIT_HEAD_QKV,     /* rows of each head: q, k, v; become all q, all k, all v */
    FIT_GROUP_QKV,    /* rows of each KV head: its q's, k, v; become all q, all k, all v */
    FIT_BEHIND_PAD,   /* positions count from after the padding: the rows before are dropped */
    FIT_PAIRS,        /* rows (elements of a vector) g u g u become g g u u */
    FIT_TURNED_PAIRS, /* columns g u g u become rows g g u u */
    FIT_MINUS_EXP,    /* -exp of each number; becomes F32 */
};

struct hf_name {
    /* The name without ".weight" and ".bias", either of which may follow; or the whole name, and
     * then `ours` is whole too. "." at the start: in a layer, after its number. "*": an expert's
     * number; all experts become one tensor. */
    const char *theirs;
    const char *ours; /* name after "blk.N." for a layer; NULL: the tensor is ignored */
    enum hf_fit fit;
};

enum hf_class_flag {
    HF_TIED = 1 << 0,        /* default of tie_word_embeddings is true */
    HF_HALVES = 1 << 1,      /* rope rotates element i with element i of the second half */
    HF_NO_ROPE = 1 << 2,     /* positions are embedded */
    HF_LAYER_NORM = 1 << 3,  /* the epsilon is that of a layer norm, not of an RMS norm */
    HF_WINDOW = 1 << 4,      /* sliding_window applies */
    HF_WIDE_FF = 1 << 5,     /* intermediate_size may be missing: 4 times the embedding */
    HF_ENCODER = 1 << 6,     /* the model has no output matrix */
    HF_EXPERTS = 1 << 7,     /* intermediate_size may be missing: no layer is dense */
    HF_LABELS = 1 << 9,      /* an encoder that ranks texts or gives them labels */
    HF_TOKEN_LABELS = 1 << 13, /* an encoder that gives each token a label */
    HF_MORE_LAYERS = 1 << 8, /* layers after the last one predict further tokens and are ignored */
    HF_RECURRENT = 1 << 10,  /* some layers keep a state */
    HF_MTP = 1 << 11,        /* names that begin with "mtp." predict further tokens and are
                              * ignored */
    HF_TEXT_PART = 1 << 12,  /* the text part of a class that reads images too: "model.visual." is
                              * ignored, and text_config is its config */
};

struct hf_class {
    const char *name, *arch;
    const char *root;            /* prefix of all names, which may be absent: "model." */
    const char *layers;          /* prefix of layers after the root: "layers." */
    const struct hf_name *names; /* ends with a row without `theirs` */
    const char *acts;            /* supported values of hidden_act, with commas between */
    uint32_t head_dim;           /* default; 0: an equal share of the embedding */
    uint32_t n_ctx;              /* default; 0: the file must have it */
    uint32_t window; /* default of sliding_window; null in the file means that there is none */
    double eps, rope_base; /* defaults; 0: 1e-6 and 10000 */
    double rotated;        /* default of partial_rotary_factor; 0: 1 */
    uint32_t flags;
    /* config: reads all of config.json; NULL: the common settings are read, and then `more` (or
     * NULL) reads the class's own. */
    int (*config)(struct hf_folder *f);
    int (*adjust)(struct hf_folder *f); /* corrects sizes that config.json states differently, or
                                         * NULL */
    int (*more)(struct hf_folder *f);
};

const struct hf_class *hf_class_find(const char *name);
const struct hf_class *hf_class_at(size_t i); /* NULL: after the last */

struct hf_found {
    char name[GGUF_MAX_NAME]; /* name in GGUF files; empty: the tensor is ignored */
    enum hf_fit fit;
    uint32_t expert;
    bool is_expert;
};
/* Find the GGUF name of the tensor `theirs`; false: the class has no such tensor. */
bool hf_class_name(const struct hf_class *c, uint32_t n_layer, const char *theirs,
                   struct hf_found *found);

#endif
