/* scheduler/drafts/draft_account.h - the time that drafts have gained or lost so far.
 *
 * Drafts gain the time of the steps that they save, and lose the time by which they make a step
 * longer. The balance also grows by half a percent of the time that the steps would take without
 * drafts. While it is negative, only drafts with a large expected gain are computed, and below a
 * limit none: drafts that turn out worse than expected cost at most that half percent, and once a
 * few steps.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_DRAFTS_DRAFT_ACCOUNT_H
#define SCHEDULER_DRAFTS_DRAFT_ACCOUNT_H

#include <stdint.h>

struct draft_account { /* zero: nothing gained or lost yet */
    double balance;    /* ns */
};

/* Book a step for n_streams sequences (not 0) that would take plain_ns without drafts: add the
 * allowance. */
void draft_account_allow(struct draft_account *a, double plain_ns);
/* Book a step with drafts, which chose n_tokens tokens (more than n_streams where drafts were
 * right) and took took_ns, the making of the drafts included. */
void draft_account_settle(struct draft_account *a, double plain_ns, double took_ns,
                          uint32_t n_streams, uint32_t n_tokens);
/* Book ns spent on something that pays off in later steps. */
void draft_account_pay(struct draft_account *a, double ns);

#endif
