/* server/api/params/kept_items.h - the kept items that a Responses body uses: the conversation that
 * it continues, and the items that its references stand for, found by their ids.
 *
 * Thread: any, one at a time.
 * Memory: an index of the items; the tree is borrowed.
 */
#ifndef SERVER_API_PARAMS_KEPT_ITEMS_H
#define SERVER_API_PARAMS_KEPT_ITEMS_H

#include <cjson/cJSON.h>

#include "core/base/hash_index.h"

struct kept_items {      /* zero is none */
    const cJSON *before; /* a list of items, or NULL */
    struct hash_index by_id;
};

/* tree: {"before":[…],"items":{id:item}}, or NULL. ERR_NOMEM. */
int kept_items_init(struct kept_items *k, const cJSON *tree);
void kept_items_release(struct kept_items *k);

/* Find the item with that id, or NULL. */
const cJSON *kept_items_find(const struct kept_items *k, const char *id);

#endif
