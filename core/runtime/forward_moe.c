/* core/runtime/forward_moe.c - mixtures of experts; see forward.h.
 *
 * Every row chooses its experts. Rows are then sorted by expert into slots, so that an expert's
 * weights are read once for all of its rows, and its products are those of a dense net over its
 * slots. A row's sum over its experts is in the order of its choice, so the choices of other rows
 * change nothing.
 */
#include "core/runtime/forward.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define MIXER_JITTER 0.01f /* router_jitter_noise, the same in all published files */
#define LEAST_SUM 0x1p-100f /* lower bound of the sum that weights are divided by: all of them may
                             * be 0 */

/* ---- the choice ---- */

/* The scores of a row's experts: the outputs of the router, or `ranks` if more than the outputs
 * counts. */
struct router_scores {
    const float *logits;
    float max, sum; /* maximum and sum of a softmax over all experts */
};

static float weight_of(const struct model_shape *s, const struct router_scores *b, uint32_t expert)
{
    if (s->expert_gate == EXPERT_SIGMOID)
        return 1.0f / (1.0f + kern_exp(-b->logits[expert]));
    return kern_exp(b->logits[expert] - b->max) / b->sum;
}

/* Score a group of n experts: by its best expert where the weights are a softmax (DeepSeek-V2's
 * report), by the sum of its two best ones where they are sigmoids (DeepSeek-V3's). */
static float group_score_of(struct runner *r, float *ranks, uint32_t n)
{
    const float best = r->kern.max(ranks, n);
    const size_t at = r->kern.find(ranks, n, best);
    float second;

    if (r->model->shape.expert_gate != EXPERT_SIGMOID || n == 1 || at == n)
        return best;
    ranks[at] = -INFINITY;
    second = r->kern.max(ranks, n);
    ranks[at] = best;
    return best + second;
}

/* Drop all experts outside the best groups; of equal groups the lowest is kept. */
static void drop_groups(struct runner *r, float *ranks)
{
    const struct model_shape *s = &r->model->shape;
    const uint32_t n = s->n_expert_group, each = s->n_expert / n;
    float group_score[MODEL_MAX_EXPERT_GROUPS];
    bool is_kept[MODEL_MAX_EXPERT_GROUPS] = {false};

    for (uint32_t g = 0; g < n; g++)
        group_score[g] = group_score_of(r, ranks + (size_t)g * each, each);
    for (uint32_t j = 0; j < s->n_expert_group_used; j++) {
        uint32_t best = n;

        for (uint32_t g = 0; g < n; g++)
            if (!is_kept[g] && (best == n || group_score[g] > group_score[best]))
                best = g;
        is_kept[best] = true;
    }
    for (uint32_t e = 0; e < s->n_expert; e++)
        ranks[e] = is_kept[e / each] ? ranks[e] : -INFINITY;
}

/* SparseMixer's weight of the best expert that is left: its share among all experts whose outputs
 * are at most 2 jitters below it, relative to the larger magnitude (Phi-3.5-MoE's code). */
static float mixer_weight(const float *ranks, uint32_t n, float best)
{
    float sum = 0.0f;

    for (uint32_t e = 0; e < n; e++) {
        const float size = fabsf(ranks[e]) > best ? fabsf(ranks[e]) : best;

        if (ranks[e] > -INFINITY && best - ranks[e] <= MIXER_JITTER * 2.0f * size)
            sum += kern_exp(ranks[e] - best);
    }
    return 1.0f / (sum > 1.0f ? sum : 1.0f);
}

/* Choose the experts with the highest `ranks` and remove them from it; of equal ones the lowest
 * index comes first. */
static void choose_experts(struct runner *r, float *ranks, const struct router_scores *b,
                           struct expert_pick *picks)
{
    const struct model_shape *s = &r->model->shape;
    float sum = 0.0f;

    for (uint32_t j = 0; j < s->n_expert_used; j++) {
        const float best = r->kern.max(ranks, s->n_expert);
        const size_t at = r->kern.find(ranks, s->n_expert, best);
        const uint32_t expert = at < s->n_expert ? (uint32_t)at : j;
        const float weight = s->expert_gate == EXPERT_MIXER
                                 ? mixer_weight(ranks, s->n_expert, best)
                                 : weight_of(s, b, expert);

        ranks[expert] = -INFINITY;
        picks[j] = (struct expert_pick){.expert = expert, .weight = weight};
        sum += picks[j].weight;
    }
    sum = sum > LEAST_SUM ? sum : LEAST_SUM;
    for (uint32_t j = 0; j < s->n_expert_used; j++)
        picks[j].weight =
            (s->expert_norm ? picks[j].weight / sum : picks[j].weight) * s->expert_scale;
}

/* Fill the scores to choose by. The order of the weights is that of the logits; weights themselves
 * are needed only where they are added up, with a bias or for a group's score. */
static void fill_ranks(const struct model_shape *s, const struct model_layer *l,
                       const struct router_scores *b, float *ranks)
{
    const bool adds =
        l->choice_bias != NULL || (s->n_expert_group > 0 && s->expert_gate == EXPERT_SIGMOID);

    if (!adds)
        memcpy(ranks, b->logits, s->n_expert * sizeof(*ranks));
    for (uint32_t e = 0; adds && e < s->n_expert; e++)
        ranks[e] = weight_of(s, b, e) + (l->choice_bias != NULL ? l->choice_bias[e] : 0.0f);
}

static void choose_row(struct runner *r, const struct model_layer *l, uint32_t row)
{
    const struct model_shape *s = &r->model->shape;
    float *logits = r->router + (size_t)row * 2 * r->router_stride;
    float *ranks = logits + r->router_stride;
    struct router_scores b = {.logits = logits};

    if (l->router_bias != NULL)
        r->kern.add(logits, l->router_bias, 1.0f, s->n_expert);
    if (s->router_scale != 1.0f)
        r->kern.scale(logits, s->router_scale, s->n_expert);
    if (s->router_cap > 0.0f)
        r->kern.cap(logits, s->router_cap, s->n_expert);
    b.max = r->kern.max(logits, s->n_expert);
    b.sum = r->kern.sum_exp(logits, s->n_expert, b.max, 1.0f);
    fill_ranks(s, l, &b, ranks);
    if (s->n_expert_group > 0)
        drop_groups(r, ranks);
    choose_experts(r, ranks, &b, r->picks + (size_t)row * s->n_expert_used);
}

void moe_choose(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct product p = {
        .w = &l->router, .out = r->router, .out_stride = 2 * r->router_stride};
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};
    uint32_t from, to;

    products(r, w, &p, 1, &in, r->batch->n_rows, RUNNER_ROUTE);
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            choose_row(r, l, i);
    end_region(r, w, RUNNER_ROUTE);
}

/* ---- rows sorted by expert ---- */

/* Give each chosen expert its slots, one expert after the other, rows ascending. One thread does
 * it: it writes only a few words for each pick. */
static void assign_slots(struct runner *r)
{
    const struct model_shape *s = &r->model->shape;
    const uint32_t n = r->batch->n_rows * s->n_expert_used;
    uint32_t *count = r->expert_slots, slot = 0;

    memset(count, 0, s->n_expert * sizeof(*count));
    for (uint32_t i = 0; i < n; i++)
        count[r->picks[i].expert]++;
    r->n_active = 0;
    for (uint32_t e = 0; e < s->n_expert; e++) {
        if (count[e] > 0)
            r->active[r->n_active++] = (struct expert_rows){e, slot, count[e]};
        slot += count[e];
        count[e] = slot - count[e]; /* from here on count[e] is the expert's next slot */
    }
    for (uint32_t i = 0; i < n; i++)
        r->picks[i].slot = count[r->picks[i].expert]++;
}

/* Write a row's copy for an expert, multiplied by the expert's weight. */
static void weigh_slot(struct runner *r, uint32_t row, const struct expert_pick *p, bool quantised)
{
    const size_t n = r->model->shape.n_embd;
    float *x = r->slot_rows + p->slot * r->embd_stride;

    memcpy(x, r->norm + row * r->embd_stride, n * sizeof(*x));
    r->kern.scale(x, p->weight, n);
    if (quantised)
        r->kern.quantise(r->slot_qrows + p->slot * r->slot_qrow_stride, n, x, 0, n);
}

/* Write a row's copy for an expert: the row itself, or its product with experts_in. */
static void copy_slot(struct runner *r, uint32_t row, uint32_t slot, const struct model_layer *l)
{
    const bool quantised = is_quantised(&l->experts.up) || is_quantised(&l->experts.gate);
    const bool is_latent = matrix_exists(&l->experts_in);
    const size_t n = l->experts.up.n_in;
    const float *x =
        is_latent ? r->moe_latent + row * r->moe_latent_stride : r->norm + row * r->embd_stride;
    uint8_t *q = r->slot_qrows + slot * r->slot_qrow_stride;

    if (quantised && is_latent)
        r->kern.quantise(q, n, x, 0, n);
    else if (quantised)
        memcpy(q, r->qrows + row * r->qrow_stride, kern_qrow_bytes(n));
    if (takes_floats(&l->experts))
        memcpy(r->slot_rows + slot * r->embd_stride, x, n * sizeof(*x));
}

/* Copy the rows into their slots, in the form that the experts take. */
static void fill_slots(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const uint32_t used = r->model->shape.n_expert_used;
    const bool quantised = is_quantised(&l->experts.up) || is_quantised(&l->experts.gate);
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from * used; i < to * used; i++) {
            if (r->model->shape.experts_weigh_input)
                weigh_slot(r, i / used, &r->picks[i], quantised);
            else
                copy_slot(r, i / used, r->picks[i].slot, l);
        }
    end_region(r, w, RUNNER_ROUTE);
}

/* ---- the experts ---- */

static void expert_gate_up(struct runner *r, const struct ffn *net, const struct expert_rows *e,
                           uint32_t from, uint32_t to)
{
    float *gate_out = r->expert_gate + e->slot0 * r->expert_stride;
    float *up_out = r->expert_up + e->slot0 * r->expert_stride;
    const struct product gate = {.w = &net->gate, .out = gate_out, .out_stride = r->expert_stride};
    const struct product up = {.w = &net->up, .out = up_out, .out_stride = r->expert_stride};
    const struct input in = {r->slot_rows + e->slot0 * r->embd_stride, r->embd_stride,
                             r->slot_qrows + e->slot0 * r->slot_qrow_stride, r->slot_qrow_stride};
    const struct activation a = {r->expert_gate, r->expert_up, r->expert_stride, r->expert_qrows,
                                 r->expert_qrow_stride};

    to = to < net->up.n_panels ? to : net->up.n_panels;
    if (matrix_exists(&net->gate))
        run_product(r, &gate, e->expert, &in, e->n, from, to);
    run_product(r, &up, e->expert, &in, e->n, from, to);
    activate(r, net, e->expert, &a, e->slot0, e->n, (size_t)from * KERN_LANES,
             (size_t)to * KERN_LANES);
}

static void all_gate_up(struct runner *r, struct thread_pool_worker *w, const struct ffn *net)
{
    const uint32_t each = (net->up.n_panels + 1) / 2, total = r->n_active * each;
    uint32_t from, to, i, a, b;

    for (uint32_t go = 0; thread_pool_take(w, total, grain_for(r, total, go), &from, &to); go++) {
        struct pieces s = {r->n_active, each, 2, r->model->n_parts, from, to};

        while (next_piece(&s, &i, &a, &b))
            expert_gate_up(r, net, &r->active[i], 2 * a, 2 * b);
    }
    end_region(r, w, RUNNER_GATE_UP);
}

static void all_down(struct runner *r, struct thread_pool_worker *w, const struct ffn *net)
{
    const uint32_t each = net->down.n_panels, total = r->n_active * each;
    uint32_t from, to, i, a, b;

    for (uint32_t go = 0; thread_pool_take(w, total, grain_for(r, total, go), &from, &to); go++) {
        struct pieces s = {r->n_active, each, 1, r->model->n_parts, from, to};

        while (next_piece(&s, &i, &a, &b)) {
            const struct expert_rows *e = &r->active[i];
            const struct product down = {.w = &net->down,
                                         .out = r->slot_out + e->slot0 * r->embd_stride,
                                         .out_stride = r->embd_stride};
            const struct input in = {r->expert_gate + e->slot0 * r->expert_stride, r->expert_stride,
                                     r->expert_qrows + e->slot0 * r->expert_qrow_stride,
                                     r->expert_qrow_stride};

            run_product(r, &down, e->expert, &in, e->n, a, b);
        }
    }
    end_region(r, w, RUNNER_DOWN);
}

/* ---- the sum ---- */

void moe_add_experts(struct runner *r, const struct model_layer *l, uint32_t row, float *out)
{
    const struct model_shape *s = &r->model->shape;
    const size_t n = l->experts.down.n_out;

    for (uint32_t j = 0; j < s->n_expert_used; j++) {
        const struct expert_pick *p = &r->picks[(size_t)row * s->n_expert_used + j];
        float *one = r->slot_out + p->slot * r->embd_stride;

        if (l->experts.down_bias != NULL)
            r->kern.add(one, l->experts.down_bias + p->expert * n, 1.0f, n);
        r->kern.add(out, one, s->experts_weigh_input ? 1.0f : p->weight, n);
    }
}

/* Begin a row's sum with the gated output of the shared expert, or with zeros. */
static void begin_row(struct runner *r, const struct model_layer *l, uint32_t row, float *out)
{
    const size_t n = r->model->shape.n_embd;

    if (!matrix_exists(&l->ffn.up) || l->experts_norm.weight != NULL) {
        memset(out, 0, n * sizeof(*out));
        return;
    }
    if (l->ffn.down_bias != NULL)
        r->kern.add(out, l->ffn.down_bias, 1.0f, n);
    if (matrix_exists(&l->shared_gate)) {
        const float logit = r->shared_gate[(size_t)row * KERN_LANES];

        r->kern.scale(out, 1.0f / (1.0f + kern_exp(-logit)), n);
    }
}

static void sum_rows(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct model_shape *s = &r->model->shape;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *out = r->ffn_out + i * r->embd_stride;

            begin_row(r, l, i, out);
            if (matrix_exists(&l->experts_out))
                r->kern.add(out, r->slot_out + i * r->embd_stride, 1.0f, s->n_embd);
            else
                moe_add_experts(r, l, i, out);
            if (s->moe_scale != 1.0f)
                r->kern.scale(out, s->moe_scale, s->n_embd);
        }
    end_region(r, w, RUNNER_DOWN);
}

static void gate_shared(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct product p = {
        .w = &l->shared_gate, .out = r->shared_gate, .out_stride = KERN_LANES};
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};

    products(r, w, &p, 1, &in, r->batch->n_rows, RUNNER_ROUTE);
}

void moe_run(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    if (w->index == 0)
        assign_slots(r);
    thread_pool_barrier(w);
    moe_latent_in(r, w, l);
    fill_slots(r, w, l);
    all_gate_up(r, w, &l->experts);
    all_down(r, w, &l->experts);
    if (matrix_exists(&l->shared_gate))
        gate_shared(r, w, l);
    if (matrix_exists(&l->ffn.up) && l->experts_norm.weight == NULL)
        feed_forward(r, w, l);
    moe_latent_out(r, w, l);
    sum_rows(r, w, l);
}
