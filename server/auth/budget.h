/* server/auth/budget.h - tokens that a key may use in a day or a month of the calendar, UTC.
 *
 * A request may begin while something is left that requests under way may not use up: so a budget
 * is exceeded by at most what one request uses. What it used counts for the period in which it
 * ended.
 *
 * Thread: none of its own; the time comes in as an argument, Unix seconds.
 * Memory: plain data; zero is a budget without a limit.
 */
#ifndef SERVER_AUTH_BUDGET_H
#define SERVER_AUTH_BUDGET_H

#include <stdint.h>

#define BUDGET_MAX 1000000000000000u /* tokens of a period */

enum budget_period { BUDGET_DAY = 0, BUDGET_MONTH };

struct budget {
    enum budget_period period;
    uint64_t limit;    /* 0 = none */
    uint64_t spent;    /* in the period that ends at `end_s` */
    uint64_t reserved; /* for requests under way */
    int64_t end_s;     /* the next period's first second; 0: nothing was spent */
};

/* Tokens of requests that end now are spent: once for what was reserved at their begin. */
void budget_spend(struct budget *b, uint64_t n_reserved, uint64_t n_spent, int64_t now_s);
void budget_reserve(struct budget *b, uint64_t n_tokens);
/* Seconds until another request may begin; 0: now. Until the period ends, if its tokens are spent,
 * else, if requests under way have reserved the rest, 1. */
int64_t budget_wait_s(const struct budget *b, int64_t now_s);
/* The first second after the period that now_s is in. */
int64_t budget_period_end(enum budget_period period, int64_t now_s);

#endif
