/* scheduler/drafts/draft_account.c - see draft_account.h.
 *
 * The balance is a number of nanoseconds, capped at MOST_SAVED plain steps so that a long lucky run
 * cannot pay for an equally long run of losses. The engine thread books every step without prompt
 * rows through draft_learner.c; scheduler_drafts.c compares the balance with 0 and with its debt
 * limit.
 */
#include "scheduler/drafts/draft_account.h"

#define ALLOWANCE (1.0 / 200)
#define MOST_SAVED 4 /* plain steps: the balance is at most this */

static void add_step_cost(struct draft_account *a, double ns, double plain_ns)
{
    a->balance += ns;
    if (a->balance > MOST_SAVED * plain_ns)
        a->balance = MOST_SAVED * plain_ns;
}

void draft_account_allow(struct draft_account *a, double plain_ns)
{
    add_step_cost(a, ALLOWANCE * plain_ns, plain_ns);
}

void draft_account_settle(struct draft_account *a, double plain_ns, double took_ns,
                          uint32_t n_streams, uint32_t n_tokens)
{
    add_step_cost(a, plain_ns * n_tokens / n_streams - took_ns, plain_ns);
}

void draft_account_pay(struct draft_account *a, double ns)
{
    a->balance -= ns;
}
