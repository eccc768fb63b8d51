/* server/api/params/kept_items.c - see kept_items.h.
 *
 * The items are the members of one JSON object, named by their ids. cJSON finds a member by walking
 * over all of them, so their ids are hashed once, when api_request_parse() begins: a body with many
 * references then costs one lookup each. Equal hashes are told apart by comparing the ids.
 */
#include "server/api/params/kept_items.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <string.h>

int kept_items_init(struct kept_items *k, const cJSON *tree)
{
    const cJSON *items = field_find(tree, "items");

    *k = (struct kept_items){.before = field_find(tree, "before")};
    for (const cJSON *it = items != NULL ? items->child : NULL; it != NULL; it = it->next)
        if (hash_index_add(&k->by_id, hash_of_text(it->string), (uintptr_t)it) < 0)
            return ERR_NOMEM;
    return 0;
}

void kept_items_release(struct kept_items *k)
{
    hash_index_release(&k->by_id);
    *k = (struct kept_items){0};
}

const cJSON *kept_items_find(const struct kept_items *k, const char *id)
{
    struct hash_walk w = {.hash = hash_of_text(id)};
    const cJSON *item;

    while ((item = (const cJSON *)hash_index_next(&k->by_id, &w)) != NULL)
        if (strcmp(item->string, id) == 0)
            return item;
    return NULL;
}
