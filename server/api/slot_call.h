/* server/api/slot_call.h - llama-server's actions on slots: POST /slots/{id}?action=save, restore
 * or erase.
 *
 * Save writes the cached blocks of a slot's text (slot_table.h) to a file, whole blocks from the
 * beginning on; restore enters a file's blocks into the cache, as many as there is room for, and
 * requests that begin with the same tokens compute only the rest. The engine copies a piece between
 * two steps (scheduler/prefix_copy.h), a thread of libuv's pool moves it to or from the disk, piece
 * after piece; neither waits for the other. Erase forgets the text; its blocks stay cached until
 * they are evicted.
 *
 * One action at a time for each model; a second one is a 503 with Retry-After.
 *
 * Source: llama.cpp, tools/server/README.md, "POST /slots/{id_slot}?action=save".
 *
 * Thread: the loop's.
 * Memory: the table's; an action has a piece of SLOT_CALL_PIECE bytes, or one block.
 */
#ifndef SERVER_API_SLOT_CALL_H
#define SERVER_API_SLOT_CALL_H

#include <stdbool.h>

#include "server/storage/slot_table.h"

#define SLOT_CALL_PIECE ((size_t)8 << 20)

struct engine_client;
struct http_call;

struct slots { /* the slots of a model; zero is off */
    const char *folder; /* borrowed */
    struct slot_table table;
    bool is_busy;
};

/* Set up the slots of a model. folder NULL or "": slots are off, and every action is a 501. */
void slots_init(struct slots *s, const char *folder);
void slots_release(struct slots *s);

/* True: the texts of slots are kept. */
static inline bool slots_are_on(const struct slots *s)
{
    return s != NULL && s->folder != NULL;
}

/* Handle a call of the route; the slots are those of `engine`. */
void slot_call_start(struct engine_client *engine, struct http_call *call);

#endif
