/* core/model/adapter.h - a LoRA adapter (arXiv 2106.09685) of a loaded model.
 *
 * An adapter changes products of a layer: y = W x becomes y + scale * (B (A x)), with A of `rank`
 * rows and B of `rank` columns, one pair for each product that it targets. The As of products with
 * the same input lie one below another as one matrix, so that an input is read once for them all.
 *
 * An adapter is loaded from a GGUF file of the type `adapter`, as convert_lora_to_gguf.py of
 * llama.cpp writes it, or from a PEFT folder opened as one (core/formats/hf/peft.h). Products that
 * can be targets: the attention's q, k, v and output, and gate, up and down of a dense net or of
 * the shared expert. A file with any other tensor is refused by the tensor's name, and so are
 * adapters for models with latent attention.
 *
 * Bs stay F16 or BF16, and so do the As of an input that all have the same type; others become F32.
 * Where the model's own matrices take an input as 8-bit rows, Q8_0 As stay so: both take the same
 * rows then. In a model that was quantised as it was loaded (load_type) those As become Q8_0, and
 * Bs get 8 bits with a scale for each row.
 *
 * Thread: load from any thread; a loaded adapter is read-only, and any thread may count references.
 * Memory: its own, freed when the last holder releases it.
 * Errors: a sentence that names the file, the key or tensor, and what was found.
 */
#ifndef CORE_MODEL_ADAPTER_H
#define CORE_MODEL_ADAPTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model/model.h"

struct gguf;

#define ADAPTER_MAX_RANK 256
#define ADAPTER_MAX_SHARED 3 /* most targets with the same input */

enum adapter_input {                           /* the input that A is multiplied by */
                     ADAPTER_IN_ATTENTION = 0, /* the normed rows that q, k and v take */
                     ADAPTER_IN_ATTN_OUT,      /* the heads' results */
                     ADAPTER_IN_FFN,           /* the normed rows that gate and up take */
                     ADAPTER_IN_DOWN,          /* the activations */
                     ADAPTER_N_INPUT,
};

enum adapter_target { /* the product that an adapter changes */
                      ADAPTER_NONE = 0,
                      ADAPTER_Q,
                      ADAPTER_K,
                      ADAPTER_V,
                      ADAPTER_ATTN_OUT,
                      ADAPTER_GATE,
                      ADAPTER_UP,
                      ADAPTER_DOWN,
                      ADAPTER_N_TARGET,
};

enum adapter_use { ADAPTER_WAITING = 0, ADAPTER_RUNNING, ADAPTER_N_USES };

struct adapter_layer {
    struct matrix down[ADAPTER_N_INPUT]; /* [sum of ranks][n_in]: the As; may be missing */
    struct matrix up[ADAPTER_N_TARGET];  /* [n_out][rank]: B; missing: the product is not changed */
    uint32_t at[ADAPTER_N_TARGET];       /* first of B's columns among the outputs of the As */
    float scale[ADAPTER_N_TARGET];       /* alpha / rank */
};

struct adapter {
    uint32_t n_layer;
    uint32_t max_rank;
    size_t bytes; /* memory that the adapter takes */
    uint64_t n_params;
    uint64_t id[2];               /* hash of its numbers: equal adapters give equal keys and
                                   * values */
    struct adapter_layer *layers; /* [n_layer] */
    uint8_t *panels;              /* private: the memory behind all matrices */
    size_t mapped;                /* bytes of panels mapped in huge pages; 0: few bytes, from the
                                   * allocator */
    _Atomic uint32_t n_refs;
    _Atomic uint32_t n_requests[ADAPTER_N_USES]; /* requests of an engine: adapter_count() */
};

/* Load for this model; the caller holds one reference. `g` may be closed afterwards. ERR_FORMAT,
 * ERR_UNSUPPORTED, ERR_IO, ERR_NOMEM with a sentence; ERR_CANCELED, before the next row is read,
 * after another thread has set `canceled` (NULL: cannot be canceled). */
int adapter_load(struct adapter **out, const struct gguf *g, const struct model *m,
                 const atomic_bool *canceled, char *err, size_t err_len);

/* The most bytes that the adapter will take, from the file's directory. */
size_t adapter_most_bytes(const struct gguf *g);

/* Take a reference; release one: *a may be NULL and becomes NULL. */
struct adapter *adapter_ref(struct adapter *a);
void adapter_unref(struct adapter **a);
/* Count a request more (change 1) or less (-1) that runs in the batch, or that waits for a place
 * there. Called on any thread that holds the adapter. */
void adapter_count(struct adapter *a, bool runs, int change);
uint32_t adapter_n_requests(const struct adapter *a, enum adapter_use use);
/* True: the caller's reference is the only one. */
bool adapter_is_alone(const struct adapter *a);

enum adapter_input adapter_input_of(enum adapter_target t);

#endif
