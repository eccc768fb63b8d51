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

/* Rows of a tensor and the matrix, or matrices, that they become. Row o of matrix e is the tensor's
 * row e * row_stride + row0 + o; for a transposed matrix its column o. With runs, for a tensor that
 * has the rows of several matrices in turn for each head, it is row row0 + o / run * run_stride + o
 * % run. */
struct matrix_job {
    const struct gguf_tensor *src;
    struct matrix *dst;
    uint64_t at; /* offset of the panels in their mapping, the same in each part */
    uint32_t row0, row_stride;
    uint32_t run, run_stride; /* run 0: there are no runs */
    bool is_transposed; /* its panels are floats */
};

enum vector_layout {
    VECTOR_ROWS = 0,   /* one row after the other */
    VECTOR_TRANSPOSED, /* number j of row i at j * stride + i */
    VECTOR_PANELS,     /* number j of row i as S[j][i] of a state (kernels/recurrent.h) */
    VECTOR_REPEATED,   /* each number is written `stride` times */
};

/* Numbers first .. first + n - 1 of rows row0 .. row0 + n_rows - 1 of a tensor, and the floats that
 * they become. */
struct vector_job {
    const struct gguf_tensor *src;
    const float **dst; /* NULL: another job owns the room and sets the pointer */
    uint32_t first, n, row0, n_rows;
    enum vector_layout layout;
    uint32_t stride;
    bool is_rate; /* no number may be above 0 */
    size_t at; /* offset in floats */
};

struct load {
    const struct gguf *g;
    const struct traits *traits;
    struct model *m;
    struct rope_options ropes[MODEL_N_ROPE]; /* n_ctx 0: the table does not exist */
    const float *divisors; /* rope_freqs.weight or a longrope's factors, decoded, or NULL */
    const char *divisors_name;
    uint32_t n_dense_lead; /* first layers without experts in a model with experts */
    uint32_t expert_period, expert_at; /* of so many layers only number expert_at (from 0) has
                                        * experts; 0: all layers have */
    uint32_t n_nextn;      /* layers behind the model's: the first is that of has_mtp, the tensors
                            * of the others are ignored */
    bool wants_mtp;        /* see model_options */
    struct matrix_job *matrices;
    size_t n_matrices;
    struct vector_job *vectors;
    size_t n_vectors;
    size_t n_floats;      /* floats of all vectors */
    uint64_t panel_bytes; /* bytes of all matrices, in a part */
    uint32_t n_parts;     /* parts of the panels' mapping */
    const struct numa *numa; /* or NULL: see model_options */
    bool *used;           /* [tensors of the file] */
    enum block_type load_type; /* see model_options */
    char *err;
    size_t err_len;
};

int load_fail(struct load *l, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copy a text of the file for messages and names: bytes that are not printable ASCII become "?". */
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
/* Fill the factors of queries by position, the model's query_scale; n_ctx and the original context
 * (ropes[0]) are known. */
int load_temperature(struct load *l);
/* Make the model's vector of ones, where a family has norms without weights. */
int load_ones(struct load *l);

/* Set the window of layer i, and its rope table. */
int load_layer_rope(struct load *l, uint32_t i);
/* Whether layer i has a window. */
int load_has_window(struct load *l, uint32_t i, bool *yes);

/* True: the file has a layer that guesses tokens, and it is wanted. */
bool load_has_mtp(const struct load *l);

/* The parts of layer i. */
struct layer_parts {
    bool is_recurrent, has_attention, has_ffn;
};
int load_layer_parts(struct load *l, uint32_t i, struct layer_parts *parts);

/* Read the sizes that may differ from layer to layer: the largest of each into the shape, and those
 * of layer i. */
int load_layer_sizes(struct load *l);
int load_layer_shape(struct load *l, uint32_t i);
/* The shape as it would be if all layers were like this one. */
struct model_shape load_shape_of_layer(const struct load *l, uint32_t i);

/* Find every tensor that the shape asks for, check it, and list it in l->matrices and l->vectors
 * with its offset; refuse a file that lacks one or has one too many. */
int load_weights(struct load *l);
void load_weights_release(struct load *l);

/* Read the names of the classifier's labels, classifier.output_labels; n_labels is known. */
int load_labels(struct load *l);

#endif
