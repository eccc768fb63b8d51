/* scheduler/drafts/draft_learner.c - see draft_learner.h.
 *
 * The engine thread calls draft_learner_begin_step() before it plans, which copies what is known
 * into `costs`, and draft_learner_observe() after each step without prompt rows. observe() learns
 * the step's cost first and books it in the accounts afterwards: the time of a step counts against
 * the drafts only up to INTERRUPTED times its expected time.
 */
#include "scheduler/drafts/draft_learner.h"

#include <stddef.h>

#include "scheduler/drafts/draft_model.h"

#define INTERRUPTED 1.5

void draft_learner_begin_step(struct draft_learner *l)
{
    struct draft_costs *c = &l->costs;

    c->is_known = draft_costs_fill(&l->cost, c->rows_ns);
    c->most_seen = draft_costs_most_seen(&l->cost);
    c->balance_ns = (int64_t)l->account.balance;
    c->model_balance_ns = (int64_t)l->model_account.balance;
    if (l->model == NULL)
        return;
    draft_model_costs_fill(l->model, c);
    l->model->guess_us = l->model->take_in_us = 0;
}

uint64_t draft_learner_model_us(const struct draft_learner *l)
{
    return l->model != NULL ? l->model->guess_us + l->model->take_in_us : 0;
}

/* Return the step's time, at most INTERRUPTED times what steps with as many rows take: drafts do
 * not cause an interruption. */
static double charged_ns(const struct draft_learner *l, const struct draft_step *step)
{
    const double ns = (double)step->us * 1e3;
    const double rows_ns = draft_costs_rows(&l->cost, step->n_streams + step->n_drafts);
    const double most = INTERRUPTED * (rows_ns + (double)step->keys_ns);

    return ns < most ? ns : most;
}

/* Book the step. Time that the draft model spends on taking in texts counts against its own account
 * only. */
static void settle_step(struct draft_learner *l, const struct draft_step *step)
{
    const double plain_ns = draft_costs_rows(&l->cost, step->n_streams) + (double)step->keys_ns;
    const double guess_ns = l->model != NULL ? (double)l->model->guess_us * 1e3 : 0;
    const double take_in_ns = l->model != NULL ? (double)l->model->take_in_us * 1e3 : 0;
    const double took_ns = charged_ns(l, step) + guess_ns;

    if (step->n_streams == 0 || plain_ns <= 0)
        return;
    draft_account_allow(&l->account, plain_ns);
    draft_account_allow(&l->model_account, plain_ns);
    if (step->n_drafts > 0 || guess_ns > 0)
        draft_account_settle(&l->account, plain_ns, took_ns, step->n_streams, step->n_tokens);
    if (guess_ns > 0)
        draft_account_settle(&l->model_account, plain_ns, took_ns, step->n_streams,
                             step->n_tokens);
    draft_account_pay(&l->model_account, take_in_ns);
}

void draft_learner_observe(struct draft_learner *l, const struct draft_step *step)
{
    draft_costs_observe(&l->cost, step->n_streams + step->n_drafts, step->us, step->keys_ns);
    settle_step(l, step);
}
