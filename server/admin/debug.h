/* server/admin/debug.h - answers GET /debug/requests, /debug/iterations, /debug/kv and /slots with
 * the state of the engine.
 *
 * A call waits until the engine has filled a snapshot between two steps; all calls that came before
 * the snapshot was begun get the same one. Without a call no snapshot is made.
 *
 * Thread: the loop's.
 * Memory: one small allocation for each waiting call, and the replies.
 */
#ifndef SERVER_ADMIN_DEBUG_H
#define SERVER_ADMIN_DEBUG_H

#include <stdbool.h>

#include "core/base/list.h"

struct engine_client;
struct http_call;

enum debug_page { DEBUG_REQUESTS = 0, DEBUG_ITERATIONS, DEBUG_KV, DEBUG_SLOTS };

struct debug {
    struct engine_client *engine;
    struct list waiting;
};

void debug_init(struct debug *g, struct engine_client *engine);

/* Answer when the snapshot comes. With ?hashes=1 /debug/kv lists the prefix index too; with
 * ?fail_on_no_slot=1 /slots answers 503 when no slot is idle. */
void debug_ask(struct debug *g, struct http_call *call, enum debug_page page);

/* Answer the waiting calls, if the snapshot is ready. Called on each wake of the loop. */
void debug_take(struct debug *g);

/* True: no call waits. */
bool debug_is_idle(const struct debug *g);

/* Answer the waiting calls with 503, because the engine is ending; debug_ask() must not be called
 * afterwards. */
void debug_close(struct debug *g);

#endif
