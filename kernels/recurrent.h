/* kernels/recurrent.h - arguments and definitions of the kernels of recurrent layers.
 *
 * Each call is a run of rows of one sequence, in order: it starts from the state that the rows
 * before it left, and leaves the state for the rows after it. All sums are over taps or over the
 * state, token by token, in one order; none is over rows. So a sequence that is cut into runs
 * anywhere gets the same bits, and rows computed one at a time (decode) equal those computed
 * together (prefill). A state is all zeros before the first row.
 *
 * Lanes are channels, or columns of a head's values: no sum has two of them, so a caller may give
 * ranges of them to different threads (of a state, whole panels).
 *
 * A state S of n rows lies in panels of 16 columns, the lanes: S[i][j] at state + (j / 16 * n + i)
 * * 16 + j % 16, kern_state_floats() in all. So a panel is contiguous, and its rows do not compete
 * for the same cache sets. Columns that pad the last panel are written and never read.
 *
 * kernels.h has the terms (fma). kern_exp() is the exponential everywhere.
 *
 * Thread: any; two calls on the same state exclude each other.
 * Memory: none is taken. Nothing overlaps unless said. Strides are in floats.
 */
#ifndef KERNELS_RECURRENT_H
#define KERNELS_RECURRENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERN_MAX_TAP 8     /* most taps of a short convolution */
#define KERN_MAX_STATE 256 /* most key dimensions of a delta rule's head */

/* Return the number of floats of a state of n_row rows and n_column columns, with padding. */
size_t kern_state_floats(size_t n_row, size_t n_column);

/* A short causal convolution of each channel.
 * y = bias[c], or 0; y = fma(w[j][c], x[t - (n_tap - 1) + j][c], y) for taps j ascending;
 * out[t][c] = y, or y / (1 + kern_exp(-y)) with silu. Rows before the first are those of `tail`. */
struct kern_conv {
    const float *x; /* row t at x + t * x_stride */
    float *out;     /* row t at out + t * out_stride; may be x, with the same stride */
    size_t x_stride, out_stride;
    /* The n_tap - 1 inputs before the first row, oldest first, at tail + i * tail_stride; on return
     * those before the next row. */
    float *tail;
    size_t tail_stride;
    const float *w; /* tap j at w + j * w_stride; the last one is multiplied by the row itself */
    size_t w_stride;
    const float *bias; /* [n_channel] or NULL */
    uint32_t n_row, n_channel;
    uint32_t n_tap; /* 2 .. KERN_MAX_TAP */
    bool silu;
};

/* The selective scan of Mamba: each channel i has n_state numbers S[j] of its own.
 * u = dt[i] * x[i]; S[j] = fma(u, B[j], S[j] * kern_exp(dt[i] * A[j][i])); y = 0, then
 * y = fma(S[j], C[j], y) for j ascending; out[i] = fma(D[i], x[i], y). */
struct kern_mamba1 {
    const float *x;  /* row t at x + t * x_stride */
    const float *dt; /* row t at dt + t * dt_stride, as softplus made it */
    const float *b;  /* row t at b + t * bc_stride: n_state numbers */
    const float *c;  /* row t at c + t * bc_stride: n_state numbers */
    float *out;      /* row t at out + t * out_stride; may be x, with the same stride */
    size_t x_stride, dt_stride, bc_stride, out_stride;
    const float *a; /* A: -exp(A_log), not above 0; in panels, as the state */
    const float *d; /* [n_channel] */
    float *state;   /* n_state rows, n_channel columns */
    uint32_t n_row, n_channel, n_state;
};

/* The scan of Mamba-2: a head's state is a matrix S[j][i], j < n_state, i < head_dim.
 * g = kern_exp(dt * a); u[i] = dt * x[i]; S[j][i] = fma(u[i], B[j], S[j][i] * g); y = 0, then
 * y = fma(S[j][i], C[j], y) for j ascending; out[i] = fma(d, x[i], y). */
struct kern_mamba2 {
    const float *x; /* row t at x + t * x_stride: head_dim numbers */
    float *out;     /* row t at out + t * out_stride; may be x, with the same stride */
    size_t x_stride, out_stride;
    const float *b; /* row t at b + t * bc_stride: n_state numbers of the head's group */
    const float *c; /* row t at c + t * bc_stride: n_state numbers */
    size_t bc_stride;
    const float *dt; /* row t: dt[t * dt_stride], as softplus made it */
    size_t dt_stride;
    float a, d;   /* a: -exp(A_log), not above 0 */
    float *state; /* n_state rows, head_dim columns */
    uint32_t n_row, head_dim, n_state;
};

/* The gated delta rule: a head's state is a matrix S[i][j], i < key_dim, j < value_dim. Of a row:
 * gk[i] = g[i] * k[i]; gq[i] = g[i] * q[i]; kq = sum of k[i] * q[i] in 16 virtual lanes (fma, lane
 * i % 16, ascending), then kern_lanes_sum;
 * m = 0, then m = fma(S[i][j], gk[i], m) for i ascending; o likewise with gq;
 * e = beta * (v[j] - m); S[i][j] = fma(k[i], e, S[i][j] * g[i]); out[j] = fma(kq, e, o).
 * That is S = diag(g) S + k (beta (v - k' diag(g) S)), out = q' S, in one pass over S a row. */
struct kern_delta {
    const float *q; /* row t at q + t * qk_stride: of length 1, then scaled */
    const float *k; /* row t at k + t * qk_stride: of length 1 */
    const float *v; /* row t at v + t * v_stride */
    float *out;     /* row t at out + t * out_stride; may be v, with the same stride */
    size_t qk_stride, v_stride, out_stride;
    /* Decay of S, in 0 .. 1: row t at g + t * g_stride, key_dim numbers (KDA), or one for all
     * (gated delta net). */
    const float *g;
    size_t g_stride;
    bool is_per_key;
    const float *beta; /* row t: beta[t * beta_stride] */
    size_t beta_stride;
    float *state; /* key_dim rows, value_dim columns */
    uint32_t n_row, value_dim;
    uint32_t key_dim; /* at most KERN_MAX_STATE */
};

#endif
