/* server/auth/quota.h - limits the tokens of a key in a day or a month of the calendar, UTC.
 *
 * A request may begin while tokens are left that running requests have not reserved: so a quota is
 * exceeded by at most the tokens of one request. Tokens count for the period in which their request
 * ended.
 *
 * Thread: any, one at a time; the time is an argument, in Unix seconds.
 * Memory: plain data; zero is a quota without a limit.
 */
#ifndef SERVER_AUTH_QUOTA_H
#define SERVER_AUTH_QUOTA_H

#include <stdint.h>

#define QUOTA_MAX 1000000000000000u /* most tokens of a period */

enum quota_period { QUOTA_DAY = 0, QUOTA_MONTH };

struct quota {
    enum quota_period period;
    uint64_t limit;    /* 0 = none */
    uint64_t spent;    /* tokens spent in the period that ends at `end_s` */
    uint64_t reserved; /* tokens reserved for running requests */
    int64_t end_s;     /* the next period's first second; 0: nothing was spent */
};

/* Called when a request has ended and has spent n_spent tokens; n_reserved were reserved when it
 * began. */
void quota_spend(struct quota *b, uint64_t n_reserved, uint64_t n_spent, int64_t now_s);
void quota_reserve(struct quota *b, uint64_t n_tokens);
/* Return the seconds until another request may begin; 0: now. If the period's tokens are spent:
 * until its end; if running requests have reserved the rest: 1. */
int64_t quota_wait_s(const struct quota *b, int64_t now_s);
/* Return the first second of the period of now_s; the first second after it. */
int64_t quota_period_begin(enum quota_period period, int64_t now_s);
int64_t quota_period_end(enum quota_period period, int64_t now_s);

#endif
