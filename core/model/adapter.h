/* core/model/adapter.h - a LoRA adapter (arXiv 2106.09685) of a loaded model.
 *
 * An adapter changes products of a layer: y = W x becomes y + scale * (B (A x)), with A of `rank`
 * rows and B of `rank` columns, one pair for each product that it targets. The As of products with
 * the same input are stacked into one matrix, so that the input is read once for all of them.
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
#define ADAPTER_MAX_SHARED 3 /* most products with the same input (q, k, v) */

enum adapter_input {                           /* the input that A is multiplied by */
                     ADAPTER_IN_ATTENTION = 0, /* the normed rows that q, k and v take */
                     ADAPTER_IN_ATTN_OUT,      /* the heads' results, which the attention output
                                                * takes */
                     ADAPTER_IN_FFN,           /* the normed rows that gate and up take */
                     ADAPTER_IN_DOWN,          /* the activations, which down takes */
                     ADAPTER_N_INPUT,
};

enum adapter_target { /* a product that an adapter changes */
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
    struct matrix down[ADAPTER_N_INPUT]; /* [sum of ranks][n_in]: the stacked As of an input; may be
                                          * missing */
    struct matrix up[ADAPTER_N_TARGET];  /* [n_out][rank]: the target's B; missing: its product is
                                          * not changed */
    uint32_t at[ADAPTER_N_TARGET];       /* outputs at .. at + rank - 1 of the stacked As are B's
                                          * input */
    float scale[ADAPTER_N_TARGET];       /* alpha / rank */
};

struct adapter {
    uint32_t n_layer;
    uint32_t max_rank;
    size_t bytes; /* bytes of memory that the adapter takes */
    uint64_t n_params;
    uint64_t id[2];               /* hash of its weights: adapters with equal ids give equal keys
                                   * and values */
    struct adapter_layer *layers; /* [n_layer] */
    uint8_t *panels;              /* private: the memory of all matrices */
    size_t mapped;                /* bytes mapped in huge pages; 0: the panels are few bytes, from
                                   * the allocator */
    _Atomic uint32_t n_refs;
    _Atomic uint32_t n_requests[ADAPTER_N_USES]; /* requests of an engine: adapter_count() */
};

/* Load the adapter for this model; the caller holds one reference. `g` may be closed afterwards.
 * ERR_FORMAT, ERR_UNSUPPORTED, ERR_IO, ERR_NOMEM with a sentence; ERR_CANCELED: another thread has
 * set `canceled`, which is checked before each row (NULL: cannot be canceled). */
int adapter_load(struct adapter **out, const struct gguf *g, const struct model *m,
                 const atomic_bool *canceled, char *err, size_t err_len);

/* Return an upper bound of the adapter's bytes, from the tensors that the file lists. */
size_t adapter_most_bytes(const struct gguf *g);

/* Take a reference; release one and set *a to NULL (*a may be NULL). */
struct adapter *adapter_ref(struct adapter *a);
void adapter_unref(struct adapter **a);
/* Add `change` (1 or -1) to the number of requests that run in the batch (runs) or wait for a place
 * in it. The caller holds a reference; any thread. */
void adapter_count(struct adapter *a, bool runs, int change);
uint32_t adapter_n_requests(const struct adapter *a, enum adapter_use use);
/* True: the caller's reference is the only one. */
bool adapter_is_alone(const struct adapter *a);

enum adapter_input adapter_input_of(enum adapter_target t);

#endif
