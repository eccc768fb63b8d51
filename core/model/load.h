/* core/model/load.h - the state that the steps of model_load() share.
 *
 * Private to core/model. The steps, each of which leaves its results in the struct for the next:
 * shape (shape*.c), the tensors found and checked (weights.c), memory for them, panels packed
 * (pack.c), vectors and rope tables (rope.c).
 *
 * Thread: the loading thread.
 * Memory: see each step.
 * Errors: load_fail() writes the sentence, FILE: SUBJECT: WHAT WAS FOUND.
 */
#ifndef CORE_MODEL_LOAD_H
#define CORE_MODEL_LOAD_H

#include "core/formats/gguf/gguf.h"
#include "core/model/model.h"
#include "core/model/rope.h"
#include "core/model/traits.h"

/* Says which rows of a tensor become a matrix, or several. Row o of matrix e is the tensor's row e
 * * row_stride + row0 + o; for a transposed matrix, its column o. If the tensor has the rows of
 * several matrices in turn for each head, row o is the tensor's row row0 + o / run * run_stride + o
 * % run. */
struct matrix_job {
    const struct gguf_tensor *src;
    struct matrix *dst;
    uint64_t at; /* offset of the panels in their mapping, the same in each part */
    uint32_t row0, row_stride;
    uint32_t run, run_stride; /* run: number of neighbouring rows taken from each head; 0: no
                               * runs */
    bool is_transposed; /* rows are columns of the tensor; the panels are floats */
};

enum vector_layout {
    VECTOR_ROWS = 0,   /* rows follow each other */
    VECTOR_TRANSPOSED, /* element j of row i is at j * stride + i */
    VECTOR_PANELS,     /* element j of row i is S[j][i] of a state (kernels/recurrent.h) */
    VECTOR_REPEATED,   /* each element is written `stride` times */
};

/* Says which elements of a tensor become a vector of floats: first .. first + n - 1 of rows row0 ..
 * row0 + n_rows - 1. */
struct vector_job {
    const struct gguf_tensor *src;
    const float **dst; /* the model's pointer to set; NULL: another job of the same vector sets
                        * it */
    uint32_t first, n, row0, n_rows;
    enum vector_layout layout;
    uint32_t stride;
    bool is_rate; /* elements above 0 are an error */
    size_t at; /* offset of the vector in the mapping, in floats */
};

struct load {
    const struct gguf *g;
    const struct traits *traits;
    struct model *m;
    struct rope_options ropes[MODEL_N_ROPE]; /* n_ctx 0: the table does not exist */
    const float *divisors; /* rope_freqs.weight or a longrope's factors, decoded, or NULL */
    const char *divisors_name;
    uint32_t n_dense_lead; /* number of first layers without experts, in a model with experts */
    uint32_t expert_period, expert_at; /* of each expert_period layers only number expert_at (from
                                        * 0) has experts; 0: all layers have */
    uint32_t n_nextn;      /* layers after the model's own: the first guesses tokens (has_mtp),
                            * tensors of the others are ignored */
    bool wants_mtp;        /* see model_options */
    struct matrix_job *matrices;
    size_t n_matrices;
    struct vector_job *vectors;
    size_t n_vectors;
    size_t n_floats;      /* floats of all vectors */
    uint64_t panel_bytes; /* bytes of all matrices in one part */
    uint32_t n_parts;     /* parts of the panels' mapping */
    const struct numa *numa; /* or NULL: see model_options */
    bool *used;           /* [tensors of the file] */
    enum block_type load_type; /* see model_options */
    char *err;
    size_t err_len;
};

int load_fail(struct load *l, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copy a text of the file for messages and names; bytes that are not printable ASCII become "?". */
void load_printable(char *dst, size_t size, struct gguf_str s);

/* Read the metadata into l->traits, l->ropes and l->m->shape, all within checked ranges; n_vocab
 * comes from the embedding. */
int load_shape(struct load *l, uint32_t n_ctx);
/* Steps of load_shape(). */
int load_experts(struct load *l);
/* Read the sizes of recurrent layers; n_head is known. */
int load_recurrent(struct load *l);
int load_mamba(struct load *l, struct recurrent_shape *r);
int load_rope(struct load *l);
int load_alibi(struct load *l);
/* Fill query_scale, the model's factors of queries by position. Called after n_ctx and ropes[0] are
 * read. */
int load_temperature(struct load *l);
/* Make the vector of ones that serves norms without weights, if the architecture has such norms. */
int load_ones(struct load *l);

/* Set the window of layer i, and its rope table. */
int load_layer_rope(struct load *l, uint32_t i);
/* Set *yes to true if layer i has a window. */
int load_has_window(struct load *l, uint32_t i, bool *yes);

/* True: the file has a layer that guesses tokens, and the options want it. */
bool load_has_mtp(const struct load *l);

/* Says which parts layer i has. */
struct layer_parts {
    bool is_recurrent, has_attention, has_ffn;
};
int load_layer_parts(struct load *l, uint32_t i, struct layer_parts *parts);

/* Read the sizes that may differ from layer to layer: load_layer_sizes() the largest of each into
 * the shape, load_layer_shape() those of layer i. */
int load_layer_sizes(struct load *l);
int load_layer_shape(struct load *l, uint32_t i);
/* Return the shape of a model whose layers are all like layer i. */
struct model_shape load_shape_of_layer(const struct load *l, uint32_t i);

/* Find every tensor that the shape needs, check it, and list it in l->matrices or l->vectors with
 * its offset. A missing tensor and an unknown one are errors. */
int load_weights(struct load *l);
void load_weights_release(struct load *l);

/* Read what a model says that was trained for decisions. */
int load_decision(struct load *l);

/* Read the names of the classifier's labels, classifier.output_labels; n_labels is known. */
int load_labels(struct load *l);

#endif
