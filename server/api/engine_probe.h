/* server/api/engine_probe.h - ask the engine what the prompts of a call would find: one dry run for
 * each.
 *
 * Thread: the loop's.
 * Memory: one answer for each prompt.
 */
#ifndef SERVER_API_ENGINE_PROBE_H
#define SERVER_API_ENGINE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/api/engine_client.h"

struct parse_job;

struct probe {
    struct engine_caller client;
    uint32_t n, n_open;        /* questions, and of them without an answer */
    bool is_failed;            /* at shutdown: not all were answered */
    struct event_probe *found; /* [n] */
    void (*done)(struct probe *p);
};

/* Post the questions after engine_client_check_dry_room() for them; `done` is called when all are
 * answered. 0, or ERR_NOMEM. */
int probe_start(struct probe *p, const struct parse_job *in, void (*done)(struct probe *p));
void probe_release(struct probe *p); /* when nothing is open */

#endif
