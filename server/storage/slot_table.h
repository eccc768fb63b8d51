/* server/storage/slot_table.h - the texts of slots, as token ids, for llama-server's actions on
 * slots.
 *
 * Sequences share one paged cache here, so a slot is only a name: the latest text of a tenant whose
 * request set id_slot. Its keys and values stay in the prefix cache like those of other texts.
 *
 * Thread: the loop's.
 * Memory: at most SLOT_TABLE_TEXTS texts, and SLOT_TABLE_IDS ids in all texts together; the text
 * that was
 *         set longest ago is dropped first.
 */
#ifndef SERVER_STORAGE_SLOT_TABLE_H
#define SERVER_STORAGE_SLOT_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/list.h"

#define SLOT_TABLE_TEXTS 256
#define SLOT_TABLE_IDS ((size_t)8 << 20)

struct slot_name {
    const char *tenant; /* borrowed; "" without tenants */
    uint32_t id;
};

struct slot_text { /* valid until the next call that changes the table */
    const int32_t *ids;
    size_t n;
};

struct slot_table {
    struct list texts; /* the latest first */
    size_t n_texts, n_ids;
};

void slot_table_init(struct slot_table *t);
void slot_table_release(struct slot_table *t); /* does nothing for a zeroed one */

/* Set the slot's text to a followed by b; if it is too large, or there is no memory, the slot has
 * no text. */
void slot_table_set(struct slot_table *t, const struct slot_name *name, struct slot_text a,
                    struct slot_text b);
/* {NULL, 0}: none. */
struct slot_text slot_table_get(const struct slot_table *t, const struct slot_name *name);
/* Erase the slot's text; returns how many ids it had. */
size_t slot_table_erase(struct slot_table *t, const struct slot_name *name);

#endif
