/* server/storage/slot_table.c - see slot_table.h.
 *
 * A list in the order of use, the latest in front, searched linearly: it has at most 256 texts.
 * Each entry is one allocation: the struct and then its ids. Setting a text replaces the slot's old
 * one and then drops entries from the end until both limits hold.
 */
#include "server/storage/slot_table.h"

#include "core/base/mem.h"

#include <stdbool.h>
#include <string.h>

struct entry {
    struct list link;
    char *tenant;
    uint32_t id;
    size_t n;
    int32_t ids[];
};

void slot_table_init(struct slot_table *t)
{
    *t = (struct slot_table){0};
    list_init(&t->texts);
}

static void drop_slot(struct slot_table *t, struct entry *e)
{
    list_unlink(&e->link);
    t->n_texts--;
    t->n_ids -= e->n;
    mem_free(e->tenant);
    mem_free(e);
}

void slot_table_release(struct slot_table *t)
{
    if (t->texts.next == NULL) /* the table was not initialised */
        return;
    list_each(it, &t->texts) drop_slot(t, list_entry(it, struct entry, link));
}

static struct entry *find_slot(const struct slot_table *t, const struct slot_name *name)
{
    list_each(it, &t->texts)
    {
        struct entry *e = list_entry(it, struct entry, link);

        if (e->id == name->id && strcmp(e->tenant, name->tenant) == 0)
            return e;
    }
    return NULL;
}

static struct entry *make_slot(const struct slot_name *name, struct slot_text a, struct slot_text b)
{
    struct entry *e = mem_alloc(sizeof(*e) + (a.n + b.n) * sizeof(*e->ids));

    if (e == NULL)
        return NULL;
    *e = (struct entry){.tenant = mem_strdup(name->tenant), .id = name->id, .n = a.n + b.n};
    if (e->tenant == NULL) {
        mem_free(e);
        return NULL;
    }
    if (a.n > 0)
        memcpy(e->ids, a.ids, a.n * sizeof(*a.ids));
    if (b.n > 0)
        memcpy(e->ids + a.n, b.ids, b.n * sizeof(*b.ids));
    return e;
}

void slot_table_set(struct slot_table *t, const struct slot_name *name, struct slot_text a,
                    struct slot_text b)
{
    struct entry *e = a.n + b.n <= SLOT_TABLE_IDS ? make_slot(name, a, b) : NULL;

    slot_table_erase(t, name);
    if (e == NULL)
        return;
    list_push_front(&t->texts, &e->link);
    t->n_texts++;
    t->n_ids += e->n;
    while (t->n_texts > SLOT_TABLE_TEXTS || t->n_ids > SLOT_TABLE_IDS)
        drop_slot(t, list_entry(t->texts.prev, struct entry, link));
}

struct slot_text slot_table_get(const struct slot_table *t, const struct slot_name *name)
{
    const struct entry *e = find_slot(t, name);

    return e != NULL ? (struct slot_text){e->ids, e->n} : (struct slot_text){NULL, 0};
}

size_t slot_table_erase(struct slot_table *t, const struct slot_name *name)
{
    struct entry *e = find_slot(t, name);
    const size_t n = e != NULL ? e->n : 0;

    if (e != NULL)
        drop_slot(t, e);
    return n;
}
