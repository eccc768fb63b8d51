/* core/model/shape_mamba.c - sizes of layers of Mamba and Mamba-2 in the metadata (see load.h).
 *
 * Both kinds use the same keys with different meanings: ssm.time_step_rank is the rank of dt in
 * Mamba and the number of heads in Mamba-2. The offsets of a row's parts are placed here, each
 * padded to whole panels, because the products that fill them write whole panels.
 */
#include "core/model/load.h"

#include "core/base/err.h"
#include "core/model/keys.h"

#define MAX_INNER (1u << 18)
#define MAX_STATE 1024
#define MAX_HEADS 4096

static uint32_t mamba_panels(uint32_t n)
{
    return (n + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
}

/* Read the sizes of both kinds; `most` limits ssm.time_step_rank, which differs between them. */
static int read_mamba_sizes(struct load *l, struct recurrent_shape *r, uint32_t most,
                            uint32_t *rank)
{
    int rc = key_u32(l, "ssm.conv_kernel", KEY_REQUIRED, 2, KERN_MAX_TAP, &r->n_tap);

    if (rc == 0)
        rc = key_u32(l, "ssm.inner_size", KEY_REQUIRED, 1, MAX_INNER, &r->n_inner);
    if (rc == 0)
        rc = key_u32(l, "ssm.state_size", KEY_REQUIRED, 1, MAX_STATE, &r->n_state);
    return rc == 0 ? key_u32(l, "ssm.time_step_rank", KEY_REQUIRED, 1, most, rank) : rc;
}

/* Place x, then z, dt, and the low-rank input of dt with B and C. */
static int read_mamba1(struct load *l, struct recurrent_shape *r)
{
    int rc = read_mamba_sizes(l, r, MAX_INNER, &r->n_rank);

    if (rc == 0 && (l->traits->recurrence & RECURRENT_TRAIT_ALL) != 0)
        rc = key_bool(l, "ssm.dt_b_c_rms", &r->has_unit_norms);
    r->n_channel = mamba_panels(r->n_inner);
    r->z_at = r->n_channel;
    r->dt_at = r->z_at + r->n_channel;
    r->low_at = r->dt_at + r->n_channel;
    r->b_at = r->low_at + r->n_rank;
    r->c_at = r->b_at + r->n_state;
    r->row_floats = r->low_at + mamba_panels(r->n_rank + 2 * r->n_state);
    r->heads_floats = kern_state_floats(r->n_state, r->n_inner);
    return rc;
}

static int check_heads(struct load *l, const struct recurrent_shape *r)
{
    if (r->n_inner % r->n_value_head != 0)
        return load_fail(l, ERR_FORMAT,
                         "key '%s.ssm.inner_size': is %u, but must be a multiple of "
                         "'ssm.time_step_rank', %u",
                         l->traits->arch, r->n_inner, r->n_value_head);
    if (r->n_value_head % r->n_key_head != 0)
        return load_fail(l, ERR_FORMAT,
                         "key '%s.ssm.time_step_rank': is %u, but must be a multiple of "
                         "'ssm.group_count', %u",
                         l->traits->arch, r->n_value_head, r->n_key_head);
    return 0;
}

/* Place x, B and C, then z and dt. */
static int read_mamba2(struct load *l, struct recurrent_shape *r)
{
    int rc = read_mamba_sizes(l, r, MAX_HEADS, &r->n_value_head);

    if (rc == 0)
        rc = key_u32(l, "ssm.group_count", KEY_REQUIRED, 1, MAX_HEADS, &r->n_key_head);
    if (rc == 0)
        rc = check_heads(l, r);
    if (rc < 0)
        return rc;
    r->value_dim = r->n_inner / r->n_value_head;
    r->b_at = r->n_inner;
    r->c_at = r->b_at + r->n_key_head * r->n_state;
    r->n_channel = mamba_panels(r->c_at + r->n_key_head * r->n_state);
    r->z_at = r->n_channel;
    r->dt_at = r->z_at + mamba_panels(r->n_inner);
    r->row_floats = r->dt_at + mamba_panels(r->n_value_head);
    r->heads_floats = r->n_value_head * kern_state_floats(r->n_state, r->value_dim);
    return 0;
}

int load_mamba(struct load *l, struct recurrent_shape *r)
{
    return r->kind == RECURRENT_MAMBA1 ? read_mamba1(l, r) : read_mamba2(l, r);
}
