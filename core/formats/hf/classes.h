/* core/formats/hf/classes.h - the classes of transformers whose folders are read: one table.
 *
 * A row says which GGUF architecture the class is, what config.json means where it is silent, and
 * how the class's tensors are named. A name that no row has is refused with the tensor's name; what
 * takes no part in the answer is listed as such.
 *
 * Sources: the classes' modeling_*.py and configuration_*.py in github.com/huggingface/transformers
 * (of InternLM2 and EXAONE those that stand beside their weights), and for GGUF's names
 * convert_hf_to_gguf.py in github.com/ggml-org/llama.cpp.
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

/* How the tensor of a folder becomes that of a GGUF file; see recipe.h. */
enum hf_fit {
    FIT_PLAIN = 0,
    FIT_PLUS_ONE,     /* norms that multiply by 1 + weight; as F32 */
    FIT_TURNED,       /* [in][out] becomes [out][in]; vectors stay */
    FIT_HEAD_QKV,     /* rows of each head: q, k, v; become all q, all k, all v */
    FIT_GROUP_QKV,    /* rows of each KV head: its q's, k, v */
    FIT_BEHIND_PAD,   /* positions count from behind the padding: rows before are left out */
    FIT_PAIRS,        /* rows (of a vector: numbers) g u g u become g g u u */
    FIT_TURNED_PAIRS, /* both: columns g u g u become rows g g u u */
    FIT_MINUS_EXP,    /* -exp of each number; as F32 */
};

struct hf_name {
    /* Without ".weight" and ".bias", either of which may follow; or all of it, and so is `ours`
     * then. With "." before it: in a layer, behind the number. "*": an expert's number, all of
     * which become one tensor. */
    const char *theirs;
    const char *ours; /* of a layer behind "blk.N."; NULL: takes no part */
    enum hf_fit fit;
};

enum hf_class_flag {
    HF_TIED = 1 << 0,        /* tie_word_embeddings where the file does not say */
    HF_HALVES = 1 << 1,      /* rope turns number i with the one half a head further */
    HF_NO_ROPE = 1 << 2,     /* positions are embedded */
    HF_LAYER_NORM = 1 << 3,  /* its epsilon, not that of an RMS norm */
    HF_WINDOW = 1 << 4,      /* sliding_window is obeyed */
    HF_WIDE_FF = 1 << 5,     /* intermediate_size may miss: 4 times the embedding */
    HF_ENCODER = 1 << 6,     /* no output */
    HF_EXPERTS = 1 << 7,     /* intermediate_size may miss: no layer is dense */
    HF_LABELS = 1 << 9,      /* an encoder that ranks texts or gives them labels */
    HF_MORE_LAYERS = 1 << 8, /* layers behind the last predict further tokens: no part */
    HF_RECURRENT = 1 << 10,  /* some layers keep a state */
    HF_MTP = 1 << 11,        /* "mtp." begins names of what predicts further tokens: no part */
    HF_TEXT_PART = 1 << 12,  /* the text part of a class that reads images too: "model.visual." no
                              * part, and text_config is its config */
};

struct hf_class {
    const char *name, *arch;
    const char *root;            /* stands before all names, or is absent: "model." */
    const char *layers;          /* "layers.", behind it */
    const struct hf_name *names; /* up to one without `theirs` */
    const char *acts;            /* values of hidden_act that are computed, with commas between */
    uint32_t head_dim;           /* where the file has none; 0: an equal share of the embedding */
    uint32_t n_ctx;              /* where the file has none; 0: it must */
    uint32_t window; /* sliding_window where the file has none; null means that there is none */
    double eps, rope_base; /* where the file has none; 0: 1e-6 and 10000 */
    double rotated;        /* partial_rotary_factor where the file has none; 0: 1 */
    uint32_t flags;
    /* All of config.json, or, NULL, what most have; then what the class has beside it, or NULL. */
    int (*config)(struct hf_folder *f);
    int (*adjust)(struct hf_folder *f); /* sizes that are not what the file says, or NULL */
    int (*more)(struct hf_folder *f);
};

const struct hf_class *hf_class_find(const char *name);
const struct hf_class *hf_class_at(size_t i); /* NULL: there are no more */

struct hf_found {
    char name[GGUF_MAX_NAME]; /* in GGUF files; empty: takes no part */
    enum hf_fit fit;
    uint32_t expert;
    bool is_expert;
};
/* The tensor `theirs`; false: it is none of the class's. */
bool hf_class_name(const struct hf_class *c, uint32_t n_layer, const char *theirs,
                   struct hf_found *found);

#endif
