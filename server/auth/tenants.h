/* server/auth/tenants.h - the tenants of requests: their names, weights, and running requests.
 *
 * The scheduler knows a tenant by an index. Index 0 belongs to requests without a name; the names
 * of the settings follow, and then other names as their requests arrive. When every index is in
 * use, the index of the least recently used tenant without running requests is given to the new
 * name (never one of the settings); when all have running requests, new names share the last index.
 * Cached prefixes, which tenants must never share, depend on the name and not on the index.
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
    uint32_t max;        /* number of indices: at least that of the names in `weights` and 2, or 1
                          * if there are no tenants */
    uint32_t limit;      /* requests of one tenant at a time; 0 = no limit */
    const char *weights; /* checked "alice=4,bob=1", or NULL */
};

int tenants_create(struct tenants **out, const struct tenants_options *options);
void tenants_destroy(struct tenants **t);

/* Return the index of a tenant; "": requests without a name. */
uint32_t tenants_index(struct tenants *t, const char *name);

/* Check that the tenant may have n more running requests. 0, or a negative ERR_* with *e filled. */
int tenants_check(const struct tenants *t, uint32_t index, uint32_t n, struct api_error *e);

/* Return how many more requests the tenant may have. */
uint32_t tenants_room(const struct tenants *t, uint32_t index);

/* Called when a request of the tenant begins; when it ends. */
void tenants_begin(struct tenants *t, uint32_t index);
void tenants_end(struct tenants *t, uint32_t index);

uint32_t tenants_weight(const struct tenants *t, uint32_t index);
/* Return the name of an index: "" for 0, "(others)" for the shared one, NULL for one that was never
 * used. */
const char *tenants_name(const struct tenants *t, uint32_t index);

uint32_t tenants_n(const struct tenants *t); /* indices in use, or used before */
/* Count how often a name was given the shared index. */
uint64_t tenants_n_shared(const struct tenants *t);

#endif
