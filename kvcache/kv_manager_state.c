/* kvcache/kv_manager_state.c - recurrent states of sequences; see kv_manager.h.
 *
 * State slots follow the rules of blocks: counted holders, copy on write (a snapshot or a shared
 * slot is copied before the next step writes it), eviction of snapshots without a holder. The
 * difference is that a state cannot be cut: it is valid only after exactly the tokens that it took
 * in, so commit makes a snapshot only where a chunk ends at one of the places of interval_at().
 */
#include "kvcache/kv_manager_impl.h"

bool kv_manager_has_states(const struct kv_manager *m)
{
    return m->states != NULL;
}

uint32_t kv_manager_most_sequences(const struct kv_manager *m)
{
    return m->states != NULL ? m->opt.states.n_slots - m->opt.pins.most_states : UINT32_MAX;
}

/* Number of blocks from one snapshot to the next in a sequence of n blocks: doubles as the
 * sequence's length does. */
static uint64_t interval_at(const struct kv_manager *m, uint32_t n)
{
    uint64_t interval = m->opt.states.interval;

    while (n / interval >= 16)
        interval *= 2;
    return interval;
}

/* Without an index no snapshots are kept, because nothing could find them. */
uint32_t kv_manager_to_snapshot(const struct kv_manager *m, uint32_t n_done)
{
    uint64_t step, left;

    if (m->states == NULL || m->index == NULL)
        return UINT32_MAX;
    step = interval_at(m, n_done / BLOCK_TOKENS) * BLOCK_TOKENS;
    left = step - n_done % step;
    return left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
}

uint32_t kv_manager_resumable(const struct kv_manager *m, uint32_t n_blocks)
{
    return m->states == NULL ? n_blocks : n_blocks - n_blocks % (uint32_t)interval_at(m, n_blocks);
}

/* ---- growth ---- */

/* True: one sequence alone holds the slot, and it is not a snapshot. */
static bool is_writable(const struct kv_manager *m, state_id slot)
{
    return kv_states_holders(m->states, slot) == 1 &&
           prefix_id_is_none(kv_states_entry_of(m->states, slot));
}

bool kv_state_is_missing(const struct kv_manager *m, const struct kv_seq *kv)
{
    return m->states != NULL && (kv->state == STATE_NONE || !is_writable(m, kv->state));
}

/* True: dropping the state that the sequence keeps for forks would free a slot. */
static bool has_fork_to_give(const struct kv_manager *m, const struct kv_seq *kv)
{
    return kv->fork != STATE_NONE && kv->fork != kv->state &&
           kv_states_holders(m->states, kv->fork) == 1;
}

/* True: no other sequence holds the state of this one, and it is not pinned. */
static bool is_exclusive(const struct kv_manager *m, const struct kv_seq *kv)
{
    const uint32_t n_own = 1 + (kv->fork == kv->state);

    return kv->state != STATE_NONE && kv_states_holders(m->states, kv->state) == n_own &&
           !kv_states_is_pinned(m->states, kv->state);
}

/* When all slots are held, the state kept for forks is dropped, or a snapshot that only this
 * sequence holds is written over. */
bool kv_state_can_grow(const struct kv_manager *m, const struct kv_seq *kv)
{
    return !kv_state_is_missing(m, kv) || kv_states_can_take(m->states) ||
           has_fork_to_give(m, kv) || is_exclusive(m, kv);
}

void kv_state_grow(struct kv_manager *m, struct kv_seq *kv)
{
    const state_id old = kv->state;

    if (!kv_state_is_missing(m, kv))
        return;
    if (!kv_states_can_take(m->states))
        kv_manager_drop_fork(m, kv);
    if (!kv_state_is_missing(m, kv))
        return;
    if (!kv_states_can_take(m->states)) {
        kv_states_forget(m->states, kv_states_entry_of(m->states, old));
        return;
    }
    kv->state = kv_states_take(m->states);
    if (old == STATE_NONE)
        return;
    kv_manager_note(m, KV_COPY_STATE, old, kv->state);
    kv_states_give(m->states, old);
}

/* ---- snapshots ---- */

/* Make the state the entry's snapshot. If the entry has one already, it equals the state: the
 * sequence shares it and gives its own slot back, as with equal blocks. */
void kv_state_commit(struct kv_manager *m, struct kv_seq *kv)
{
    const uint32_t n = kv->n_indexed;
    struct prefix_id entry;
    state_id there;

    if (m->states == NULL || n == 0 || n * BLOCK_TOKENS != kv->n_state ||
        kv_manager_resumable(m, n) != n)
        return;
    entry = prefix_id_of(kv->table.blocks[n - 1]);
    there = kv_states_at(m->states, entry);
    if (there == kv->state)
        return;
    if (there == STATE_NONE) {
        kv_states_put(m->states, entry, kv->state);
        return;
    }
    kv_states_ref(m->states, there);
    kv_states_give(m->states, kv->state);
    kv->state = there;
}

bool kv_state_is_at(const struct kv_manager *m, struct prefix_id entry)
{
    return m->states == NULL || kv_states_at(m->states, entry) != STATE_NONE;
}

/* ---- attach, fork, release ---- */

void kv_state_attach(struct kv_manager *m, struct kv_seq *kv, struct prefix_id entry, uint32_t n)
{
    if (m->states == NULL || n == 0)
        return;
    kv->state = kv_states_at(m->states, entry);
    kv->n_state = n * BLOCK_TOKENS;
    kv_states_ref(m->states, kv->state);
}

void kv_state_fork(struct kv_manager *m, struct kv_seq *child, const struct kv_seq *parent)
{
    if (m->states == NULL)
        return;
    child->state = parent->fork;
    child->n_state = parent->n_fork;
    kv_states_ref(m->states, child->state);
}

void kv_manager_keep_fork(struct kv_manager *m, struct kv_seq *kv)
{
    kv_manager_drop_fork(m, kv);
    if (kv->state == STATE_NONE)
        return;
    kv_states_ref(m->states, kv->state);
    kv->fork = kv->state;
    kv->n_fork = kv->n_state;
}

void kv_manager_drop_fork(struct kv_manager *m, struct kv_seq *kv)
{
    if (kv->fork != STATE_NONE)
        kv_states_give(m->states, kv->fork);
    kv->fork = STATE_NONE;
    kv->n_fork = 0;
}

void kv_state_release(struct kv_manager *m, struct kv_seq *kv)
{
    kv_manager_drop_fork(m, kv);
    if (kv->state != STATE_NONE)
        kv_states_give(m->states, kv->state);
    kv->state = STATE_NONE;
    kv->n_state = 0;
}

/* ---- swapping ---- */

void kv_state_save(struct kv_manager *m, const struct kv_seq *kv, const uint32_t *ram)
{
    for (uint32_t i = 0; m->states != NULL && i < m->opt.states.n_parts; i++)
        kv_manager_note_part(m, KV_SAVE_STATE, kv->state, ram[i], i);
}

void kv_state_load(struct kv_manager *m, struct kv_seq *kv, const uint32_t *ram, uint32_t n_done)
{
    if (m->states == NULL)
        return;
    kv->state = kv_states_take(m->states);
    kv->n_state = n_done;
    for (uint32_t i = 0; i < m->opt.states.n_parts; i++)
        kv_manager_note_part(m, KV_LOAD_STATE, ram[i], kv->state, i);
}
