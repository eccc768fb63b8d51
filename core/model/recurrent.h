/* core/model/recurrent.h - layers that keep a state of fixed size: their sizes and weights.
 *
 * A recurrent layer takes the normed rows of a sequence in order and adds its output to each, as
 * attention does; instead of keys and values it keeps a state. Kinds: short convolution (LFM2),
 * gated delta net (arXiv 2412.06464; KDA, arXiv 2510.26692, has a gate for each key dimension),
 * Mamba-1 (arXiv 2312.00752) and Mamba-2 (arXiv 2405.21060). All recurrent layers of a model have
 * the same kind and sizes. kernels/recurrent.h has the arithmetic.
 *
 * The state of a layer, in floats: the convolution's tail [n_tap - 1][n_channel], then from scan_at
 * on the states of the heads, kern_state_floats() each. A layer's state is at model_layer.state_at
 * in a sequence's state of model.state_floats.
 *
 * The input projections of a row make one row of row_floats floats; convolution and heads work on
 * it in place. The offsets of the parts are below: each part is padded to whole panels.
 *
 * Thread: any; read-only once the model is loaded.
 * Memory: none of its own.
 */
#ifndef CORE_MODEL_RECURRENT_H
#define CORE_MODEL_RECURRENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model/matrix.h"

enum recurrent_kind {
    RECURRENT_NONE = 0,
    RECURRENT_CONV,
    RECURRENT_DELTA,
    RECURRENT_MAMBA1,
    RECURRENT_MAMBA2,
};

/* Sizes of the recurrent layers; sizes that a kind does not use are 0. */
struct recurrent_shape {
    enum recurrent_kind kind; /* NONE: no layer is recurrent */
    uint32_t n_tap;           /* taps of the convolution, 2 .. KERN_MAX_TAP */
    uint32_t n_channel;       /* channels of the convolution, padded: the row's first n_channel
                               * floats */
    uint32_t n_inner;         /* width of the input of `out` */
    /* DELTA: heads of queries and keys, and of values; n_value_head is a multiple of n_key_head.
     * MAMBA2: value heads are the heads, key heads the groups of them that share B and C. */
    uint32_t n_key_head, n_value_head;
    uint32_t key_dim, value_dim; /* floats of a key head, of a value head; key_dim: at most
                                  * KERN_MAX_STATE, unused by MAMBA2 */
    bool is_spread;              /* DELTA: value head h uses key head h % n_key_head; else h /
                                  * (n_value_head / n_key_head) */
    bool is_per_key;             /* DELTA: a gate for each key dimension (KDA) */
    enum kern_act gate_act;      /* activation of z */
    float query_scale;           /* DELTA: the length that queries are scaled to */
    uint32_t n_state;    /* MAMBA: length of B and of C, the rows of a state; its columns are
                          * channels */
    uint32_t n_rank;     /* MAMBA1: width of dt's low-rank input */
    bool has_unit_norms; /* MAMBA1: dt's low-rank input, B and C have norms without weights */
    /* Offsets in a row. DELTA: q at 0, then k and v, all three through the convolution; z, the gate
     * of the output; alpha, which makes the decay; beta; low: low-rank inputs of a KDA's alpha and
     * z. CONV: B at 0, C at k_at, X at v_at. MAMBA: x at 0, z, dt, B and C; in MAMBA2 B and C
     * follow x, in MAMBA1 the input of dt, at low_at. */
    uint32_t k_at, v_at, z_at, alpha_at, beta_at, low_at;
    uint32_t dt_at, b_at, c_at;
    uint32_t row_floats;
    size_t scan_at;       /* offset of the heads' states in a layer's state */
    size_t heads_floats;  /* floats of the heads' states */
    size_t layer_floats;  /* floats of a layer's state, a multiple of 16 */
};

/* The weights of a recurrent layer. */
struct recurrent {
    struct matrix in;      /* CONV: B, C and X of a row, [3*n_embd][n_embd]; MAMBA1: x; MAMBA2: x, B
                            * and C: all that goes through the convolution */
    struct matrix q, k, v; /* DELTA: [heads*key_dim | value_dim][n_embd] */
    struct matrix z;       /* DELTA, MAMBA: [n_inner][n_embd], or takes z_low's outputs */
    struct matrix alpha;   /* DELTA: [n_value_head][n_embd], or [n_value_head*key_dim] and takes
                            * alpha_low's outputs */
    struct matrix beta;    /* DELTA: [n_value_head][n_embd] */
    struct matrix z_low, alpha_low; /* KDA: [value_dim][n_embd] */
    struct matrix x;       /* MAMBA1: dt's low-rank input, B and C from the convolved x */
    struct matrix dt;      /* MAMBA1: [n_inner][n_rank]; MAMBA2: [n_value_head][n_embd] */
    const float *conv;     /* [n_tap][n_channel] */
    const float *conv_bias; /* [n_channel] or NULL */
    const float *dt_bias;  /* added to alpha or dt, of the same length */
    const float *a;        /* -exp(A_log): as many as alpha has; MAMBA1: [n_state][n_inner] in
                            * panels, like a state; MAMBA2: [n_value_head] */
    const float *d;        /* MAMBA: [n_inner], MAMBA2: [n_value_head] */
    struct norm dt_norm, b_norm, c_norm; /* MAMBA1: [n_rank], [n_state], [n_state] */
    struct norm norm;      /* DELTA: [value_dim], over each head; MAMBA2: [n_inner], over each
                            * group */
    struct matrix out;     /* [n_embd][n_inner] */
};

#endif
