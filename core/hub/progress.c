/* core/hub/progress.c - see progress.h.
 *
 * Each update compares the clock with the time of the last output and usually returns at once, so
 * it may be called for every piece. Speed and time left are averages since the start of this run
 * and leave out bytes that were there before.
 */
#include "core/hub/progress.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/hub/hub_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_CELLS 24
#define TERMINAL_MS 200
#define LINE_MS 10000
#define MAX_NAME_SHOWN 40

static const char *shown_name(const struct hub_progress *p, char name[MAX_NAME_SHOWN + 1])
{
    const char *slash = strrchr(p->name, '/');

    return hub_printable(name, MAX_NAME_SHOWN + 1, slash != NULL ? slash + 1 : p->name);
}

static uint64_t rate_of(const struct hub_progress *p, uint64_t done)
{
    const uint64_t ms = clock_ms() - p->start_ms;

    return done > p->begin ? (done - p->begin) * 1000 / (ms > 0 ? ms : 1) : 0;
}

static void draw_progress(const struct hub_progress *p, uint64_t done)
{
    const uint64_t rate = rate_of(p, done);
    const uint64_t left_s = rate > 0 ? (p->total - done) / rate : 0;
    const unsigned cells =
        p->total > 0 ? (unsigned)(BAR_CELLS * ((double)done / (double)p->total)) : BAR_CELLS;
    char bar[BAR_CELLS + 1], name[MAX_NAME_SHOWN + 1];

    memset(bar, '.', BAR_CELLS);
    memset(bar, '#', cells < BAR_CELLS ? cells : BAR_CELLS);
    bar[BAR_CELLS] = '\0';
    fprintf(stderr, "\r%s [%s] %.1f/%.1f MB %.1f MB/s %" PRIu64 ":%02" PRIu64 "\033[K",
            shown_name(p, name), bar, (double)done / 1e6, (double)p->total / 1e6,
            (double)rate / 1e6, left_s / 60, left_s % 60);
    fflush(stderr);
}

static void write_line(const struct hub_progress *p, const char *event, uint64_t done)
{
    char name[300];

    log_info("hub", "event=%s file=%s done_bytes=%" PRIu64 " bytes=%" PRIu64 " ms=%" PRIu64, event,
             log_quote(name, sizeof(name), p->name), done, p->total, clock_ms() - p->start_ms);
}

void hub_progress_begin(struct hub_progress *p, const char *name, uint64_t done, uint64_t total)
{
    *p = (struct hub_progress){.name = name, .begin = done, .total = total};
    p->start_ms = p->shown_ms = clock_ms();
    p->is_terminal = isatty(STDERR_FILENO) && log_is_on(LOG_INFO);
    if (!p->is_terminal)
        write_line(p, "fetch", done);
}

void hub_progress_update(struct hub_progress *p, uint64_t done)
{
    const uint64_t now = clock_ms();

    if (now - p->shown_ms < (p->is_terminal ? TERMINAL_MS : LINE_MS))
        return;
    p->shown_ms = now;
    if (p->is_terminal)
        draw_progress(p, done);
    else
        write_line(p, "fetching", done);
}

void hub_progress_end(struct hub_progress *p, uint64_t done, bool is_whole)
{
    if (p->is_terminal) {
        draw_progress(p, done);
        fputc('\n', stderr);
    } else if (is_whole) {
        write_line(p, "fetched", done);
    }
}
