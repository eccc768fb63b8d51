/* server/auth/tenants.h - the tenants of requests: their names, weights, and running requests.
 *
 * The scheduler knows a tenant by an index. Index 0 belongs to requests without a name; then come
 * the names of the settings; then others as their requests arrive. When every index is in use, the
 * index of the least recently used tenant without running requests is given to the new name (never
 * one of the settings); when all have running requests, new names share the last index. What
 * tenants must never share, cached prefixes, depends on the name and not on the index.
 *
 * Thread: the loop's.
 * Memory: taken in tenants_create().
 */
#ifndef SERVER_AUTH_TENANTS_H
#define SERVER_AUTH_TENANTS_H

#include <stdint.h>

#include "config/weights.h"
#include "server/http/error.h"

struct tenants;

struct tenants_options {
    uint32_t max;        /* indices; at least the names in `weights` and two, or one without any */
    uint32_t limit;      /* requests of one tenant at a time; 0 = no limit */
    const char *weights; /* checked "alice=4,bob=1", or NULL */
};

int tenants_create(struct tenants **out, const struct tenants_options *options);
void tenants_destroy(struct tenants **t);

/* The index of a tenant; "" is the one without a name. */
uint32_t tenants_index(struct tenants *t, const char *name);

/* Whether the tenant may have n more running requests. 0, or a negative ERR_* with *e filled. */
int tenants_check(const struct tenants *t, uint32_t index, uint32_t n, struct api_error *e);

/* How many more requests it may have. */
uint32_t tenants_room(const struct tenants *t, uint32_t index);

/* A request of the tenant begins, and ends. */
void tenants_begin(struct tenants *t, uint32_t index);
void tenants_end(struct tenants *t, uint32_t index);

uint32_t tenants_weight(const struct tenants *t, uint32_t index);
/* "" for index 0, "(others)" for the shared one, NULL for an index that was never used. */
const char *tenants_name(const struct tenants *t, uint32_t index);

uint32_t tenants_n(const struct tenants *t); /* indices in use, or used before */
/* How often a name was given the shared index. */
uint64_t tenants_n_shared(const struct tenants *t);

#endif
