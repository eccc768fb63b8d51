/* server/usage/usage_page.h - GET /v1/usage: the ledger as JSON, or as CSV for a spreadsheet.
 *
 *     ?from=2026-11-01&to=2026-11-30  days, both included; without: all
 *     &by=day|month|total             what a line is of [day]
 *     &owner=alice                    one key or tenant only
 *     &format=json|csv                [json]
 *
 * Thread: the loop's; answered before it returns.
 * Memory: a sum for each owner, and the reply.
 * Errors: a 400 that names the parameter.
 */
#ifndef SERVER_USAGE_USAGE_PAGE_H
#define SERVER_USAGE_USAGE_PAGE_H

#include <stdbool.h>

struct http_call;
struct usage_ledger;

/* `has_keys`: owners are keys, not tenants. */
void usage_page(const struct usage_ledger *l, bool has_keys, struct http_call *call);

#endif
