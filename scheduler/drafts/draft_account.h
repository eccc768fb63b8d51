/* scheduler/drafts/draft_account.h - what drafts have gained or lost so far.
 *
 * Drafts gain the time of the steps that they save, and lose what a step with them takes more. The
 * balance grows by half a hundredth of the time that steps without drafts would take: while it is
 * negative only drafts that promise much are computed, and below a limit none. So drafts that turn
 * out worse than expected cost no more than that, and a few steps once.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_DRAFTS_DRAFT_ACCOUNT_H
#define SCHEDULER_DRAFTS_DRAFT_ACCOUNT_H

#include <stdint.h>

struct draft_account { /* zero: nothing was gained or lost */
    double balance;    /* ns */
};

/* A step for n_streams sequences, not 0, which would have taken plain_ns without drafts. The
 * allowance grows. */
void draft_account_allow(struct draft_account *a, double plain_ns);
/* It had drafts, chose n_tokens tokens (more than n_streams: drafts were right), and took took_ns
 * with all that was done for them. */
void draft_account_settle(struct draft_account *a, double plain_ns, double took_ns,
                          uint32_t n_streams, uint32_t n_tokens);
/* Something was done that is to bring gains later on. */
void draft_account_pay(struct draft_account *a, double ns);

#endif
