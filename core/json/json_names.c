/* core/json/json_names.c - see json_names.h.
 *
 * Objects of up to FEW_MEMBERS compare all pairs; larger ones use a hash table seeded by an
 * address, so a client cannot make the cost quadratic. A later member is unlinked and put in the
 * place of the first, which is freed. The tree is walked recursively, to at most JSON_MAX_DEPTH.
 */
#include "core/json/json_names.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#define FEW_MEMBERS 8 /* compared with each other; more go through a table */

struct names {
    cJSON **slots; /* [mask + 1], at most half full; NULL = empty */
    size_t mask;
};

/* Return the slot of the name, or the empty slot where it would be put. */
static cJSON **name_slot(const struct names *t, const char *name)
{
    static const char address; /* the seed: this variable's address differs from process to
                                * process */
    size_t at = XXH3_64bits_withSeed(name, strlen(name), (uintptr_t)&address) & t->mask;

    while (t->slots[at] != NULL && strcmp(t->slots[at]->string, name) != 0)
        at = (at + 1) & t->mask;
    return &t->slots[at];
}

/* Put `later` in the place of `first`, which is freed. */
static void replace(cJSON *object, cJSON *first, cJSON *later)
{
    cJSON_DetachItemViaPointer(object, later);
    cJSON_ReplaceItemViaPointer(object, first, later);
}

static void unique_among_few(cJSON *object)
{
    cJSON *next;

    for (cJSON *it = object->child; it != NULL; it = next) {
        cJSON *first = object->child;

        next = it->next;
        while (first != it && strcmp(first->string, it->string) != 0)
            first = first->next;
        if (first != it)
            replace(object, first, it);
    }
}

static int unique_among_many(cJSON *object, size_t n)
{
    struct names t = {.mask = 4 * FEW_MEMBERS - 1};
    cJSON *next;

    while (t.mask + 1 < 2 * n)
        t.mask = 2 * t.mask + 1;
    t.slots = mem_calloc(t.mask + 1, sizeof(cJSON *));
    if (t.slots == NULL)
        return ERR_NOMEM;
    for (cJSON *it = object->child; it != NULL; it = next) {
        cJSON **slot = name_slot(&t, it->string);

        next = it->next;
        if (*slot != NULL)
            replace(object, *slot, it);
        *slot = it;
    }
    mem_free(t.slots);
    return 0;
}

int json_names_unique(cJSON *tree)
{
    size_t n = 0;
    int rc = 0;

    for (const cJSON *it = tree->child; it != NULL; it = it->next)
        n++;
    if (cJSON_IsObject(tree) && n <= FEW_MEMBERS)
        unique_among_few(tree);
    else if (cJSON_IsObject(tree))
        rc = unique_among_many(tree, n);
    for (cJSON *it = tree->child; it != NULL && rc == 0; it = it->next)
        if (it->child != NULL)
            rc = json_names_unique(it);
    return rc;
}
