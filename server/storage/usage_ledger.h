/* server/storage/usage_ledger.h - counts what each owner has used on each day, for billing.
 *
 * An owner is an API key or, without keys, a tenant, by its name. There is a row for each owner and
 * day (UTC) on which one of its requests has ended. Sums are exact: over all rows they equal those
 * of the engines, once no request is running.
 *
 * At most USAGE_MAX_OWNERS owners have rows of their own; the use of further ones is added to
 * USAGE_OTHERS. At most USAGE_MAX_ROWS rows are kept: when they are full, the oldest day is
 * dropped.
 *
 * Thread: the loop's; a copy belongs to its owner.
 * Memory: grows with owners and rows, up to about 16 MiB. If there is no memory, an owner's use is
 * added to USAGE_OTHERS, whose row is allocated at the start.
 */
#ifndef SERVER_STORAGE_USAGE_LEDGER_H
#define SERVER_STORAGE_USAGE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/usage.h"

#define USAGE_MAX_OWNERS 8192
#define USAGE_MAX_ROWS 65536
#define USAGE_MAX_NAME 64
#define USAGE_OTHERS "(others)"
#define USAGE_NO_OWNER UINT32_MAX

struct usage_ledger;

struct usage_amounts {
    uint64_t requests;      /* choices that the engine has ended */
    uint64_t prompt_tokens; /* tokens of their prompts, including cached ones */
    struct usage engine;
    uint64_t cpu_us;        /* engine.compute_us times the threads that computed */
};

struct usage_row {
    int32_t day; /* since 1970-01-01, UTC */
    uint32_t owner;
    bool is_unsaved; /* changed since usage_ledger_take_unsaved() */
    struct usage_amounts amounts;
};

int usage_ledger_create(struct usage_ledger **out); /* ERR_NOMEM */
void usage_ledger_destroy(struct usage_ledger **l);
/* Copy the rows and owners for another thread to read; the copy cannot find names, and nothing may
 * be added to it. ERR_NOMEM. */
int usage_ledger_copy(struct usage_ledger **out, const struct usage_ledger *l);

/* Add what an owner has used. Only the first USAGE_MAX_NAME bytes of the name count. */
void usage_ledger_add(struct usage_ledger *l, const char *owner, int32_t day,
                      const struct usage_amounts *more);

/* Call changed(ud) after each usage_ledger_add() from now on. */
void usage_ledger_on_change(struct usage_ledger *l, void (*changed)(void *ud), void *ud);
/* Add a row that was read from the file; rows come by day. */
void usage_ledger_restore(struct usage_ledger *l, const char *owner, int32_t day,
                          const struct usage_amounts *saved);
/* Copy at most `max` unsaved rows to `out` with their present amounts, and mark them as saved.
 * Returns how many. */
uint32_t usage_ledger_take_unsaved(struct usage_ledger *l, struct usage_row *out, uint32_t max);
/* Mark rows as unsaved again, because they could not be saved. */
void usage_ledger_give_back(struct usage_ledger *l, const struct usage_row *rows, uint32_t n);
bool usage_ledger_has_unsaved(const struct usage_ledger *l);

/* Tokens (prompts and generated) of each owner from a day on: [usage_ledger_n_owners()], in memory
 * that the caller frees; NULL: no memory. */
uint64_t *usage_ledger_sums(const struct usage_ledger *l, int32_t from_day);
/* Return the index of an owner; USAGE_NO_OWNER: the ledger does not have it. */
uint32_t usage_ledger_find(const struct usage_ledger *l, const char *owner);

/* All rows, [n], ascending by day. Valid until the next usage_ledger_add(). */
const struct usage_row *usage_ledger_rows(const struct usage_ledger *l, uint32_t *n);
uint32_t usage_ledger_n_owners(const struct usage_ledger *l); /* also those without rows */
const char *usage_ledger_name(const struct usage_ledger *l, uint32_t owner);

void usage_amounts_add(struct usage_amounts *to, const struct usage_amounts *more);

/* Write a day as 2026-11-26, 11 bytes with the NUL. Read one; false: it is not a day from 1970 to
 * 9999. */
void usage_day_text(int32_t day, char out[11]);
bool usage_day_parse(const char *text, int32_t *day);

#endif
