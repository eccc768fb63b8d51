/* server/storage/usage_page.h - GET /v1/usage: the ledger as JSON, or as CSV for a spreadsheet.
 *
 *     ?from=2026-11-01&to=2026-11-30  days, both included; without: all
 *     &by=day|month|total             the period of a line [day]
 *     &owner=alice                    one key or tenant only
 *     &format=json|csv                [json]
 *
 * Thread: any; many rows take some time, so the loop reads the query and a pool thread
 *         renders a copy of the ledger.
 * Memory: a sum for each owner, and the reply.
 * Errors: a 400 that names the parameter.
 */
#ifndef SERVER_STORAGE_USAGE_PAGE_H
#define SERVER_STORAGE_USAGE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/storage/usage_ledger.h"

struct api_error;
struct buf;
struct http_call;

enum usage_period { USAGE_BY_DAY = 0, USAGE_BY_MONTH, USAGE_BY_TOTAL };

struct usage_question {
    int32_t from, to; /* days, both included */
    enum usage_period by;
    bool has_owner; /* only the rows of `owner` are wanted */
    char owner[USAGE_MAX_NAME + 1];
    bool is_csv;
};

/* Read the query of a call. 0, or a negative ERR_* with *e filled. */
int usage_question_read(struct http_call *call, struct usage_question *q, struct api_error *e);

/* Render the answer. has_keys: owners are keys, not tenants. ERR_NOMEM. */
int usage_page_render(const struct usage_ledger *l, const struct usage_question *q, bool has_keys,
                      struct buf *out);
const char *usage_page_type(const struct usage_question *q);

#endif
