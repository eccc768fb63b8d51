/* core/model/adapter_impl.h - the state that the steps of adapter_load() share.
 *
 * Private to core/model: adapter_load.c finds the tensors and checks them, adapter_pack.c makes the
 * panels.
 *
 * Thread: the loading thread.
 * Memory: the adapter's, and the tables of struct adapter_loading.
 * Errors: adapter_fail() writes the sentence, FILE: SUBJECT: WHAT WAS FOUND.
 */
#ifndef CORE_MODEL_ADAPTER_IMPL_H
#define CORE_MODEL_ADAPTER_IMPL_H

#include "core/formats/gguf/gguf.h"
#include "core/model/adapter.h"

/* The tensors A and B of a target; row row0 of B is the first of the target. */
struct adapter_pair {
    const struct gguf_tensor *a, *b; /* NULL: the adapter does not change this product */
    uint32_t row0, n_out, n_in, rank;
};

struct adapter_loading {
    const struct gguf *g;
    const struct model *m;
    const atomic_bool *canceled; /* or NULL */
    struct adapter *out;
    struct adapter_pair (*pairs)[ADAPTER_N_TARGET]; /* [n_layer] */
    bool *used;                                     /* [tensors of the file] */
    float alpha;                                    /* 0: scale is 1 */
    /* file_has_pairs: in the file's rows of q and k, RoPE rotates neighbours; else row i of a head
     * with row i of its second half. turns_rows: the model has the other order, so rows change
     * places. */
    bool turns_rows, file_has_pairs;
    float *row;  /* one decoded row */
    uint8_t *at; /* where the next matrix's panels go */
    char *err;
    size_t err_len;
};

int adapter_fail(struct adapter_loading *l, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int adapter_fail_tensor(struct adapter_loading *l, int rc, const struct gguf_tensor *t,
                        const char *what);

/* Make the panels of all pairs, and the adapter's id. */
int adapter_pack(struct adapter_loading *l);

#endif
