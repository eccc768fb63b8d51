/* core/hub/progress.h - shows the progress of a download: a bar on a terminal, else log lines.
 *
 * Thread: one owner.
 * Memory: none.
 */
#ifndef CORE_HUB_PROGRESS_H
#define CORE_HUB_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct hub_progress {
    const char *name;      /* borrowed */
    uint64_t total, begin; /* total: bytes of the whole download; begin: bytes that were there
                            * before */
    uint64_t start_ms, shown_ms;
    bool is_terminal;
};

void hub_progress_begin(struct hub_progress *p, const char *name, uint64_t done, uint64_t total);
/* Report `done` bytes; shown a few times a second on a terminal, else every ten seconds. */
void hub_progress_update(struct hub_progress *p, uint64_t done);
/* End: finish the bar's line, or log how long it took. */
void hub_progress_end(struct hub_progress *p, uint64_t done, bool is_whole);

#endif
