/* server/process/loop_guard.c - measures callbacks of the I/O thread; see loop_guard.h.
 *
 * Spans nest: the outermost is the callback, inner ones are its parts, and the longest part is
 * remembered by name. Time is the thread's CPU clock, so that a busy machine or a slow disk does
 * not count. Each callback is added to a histogram; a slow one is logged, and in a debug build ends
 * the process.
 */
#include "server/process/loop_guard.h"

#include "core/base/clock.h"
#include "core/base/log.h"

#include <stdlib.h>
#include <time.h>

#define MS ((uint64_t)1000000)
/* A quarter of the time that promise P11 allows, because the current list entry still has to be
 * finished. */
#define TURN_NS (5 * MS)
#define SLOW_NS (100 * MS)

#ifdef QUIRE_DEBUG
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMIT_NS (10 * SLOW_NS)
#else
#define LIMIT_NS SLOW_NS
#endif

static uint64_t limit_of_debug_build(void)
{
    const char *ms = getenv("QUIRE_DEBUG_LOOP_MS");

    return ms != NULL ? strtoull(ms, NULL, 10) * MS : LIMIT_NS;
}
#else
static uint64_t limit_of_debug_build(void)
{
    return 0;
}
#endif

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

void loop_guard_attach(struct loop_guard *guard, uv_loop_t *loop)
{
    static const double bounds[] = {0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.002, 0.005,
                                    0.01,    0.02,    0.05,   0.1,    0.3,   1};

    *guard = (struct loop_guard){.limit_ns = limit_of_debug_build()};
    hist_init(&guard->seconds, bounds, sizeof(bounds) / sizeof(bounds[0]));
    loop->data = guard;
}

static const char *callback_name(const char *name)
{
    return name != NULL ? name : "-";
}

void loop_guard_log(const struct loop_guard *guard)
{
    log_info("server", "event=loop callbacks=%llu longest_ms=%.2f callback=%s part=%s",
             (unsigned long long)hist_total(&guard->seconds),
             (double)guard->longest_ns / (double)MS, callback_name(guard->longest),
             callback_name(guard->longest_part));
}

/* The monotonic clock, which is cheap, is read first: reading the CPU clock is a system call, and
 * it never runs faster. */
bool loop_guard_is_due(const uv_loop_t *loop)
{
    const struct loop_guard *guard = loop != NULL ? loop->data : NULL;

    return guard != NULL && guard->depth > 0 && clock_ns() - guard->begin_clock_ns >= TURN_NS &&
           cpu_ns() - guard->begin_ns >= TURN_NS;
}

struct loop_span loop_span_begin(const uv_loop_t *loop, const char *name)
{
    struct loop_guard *guard = loop->data;
    struct loop_span span = {.guard = guard, .name = name};

    if (guard == NULL)
        return span;
    if (guard->depth == 0)
        guard->begin_clock_ns = clock_ns();
    span.begin_ns = cpu_ns();
    if (guard->depth++ == 0) {
        guard->begin_ns = span.begin_ns;
        guard->part = NULL;
        guard->part_ns = 0;
    }
    return span;
}

static void part_end(struct loop_guard *guard, const char *name, uint64_t ns)
{
    if (ns <= guard->part_ns)
        return;
    guard->part_ns = ns;
    guard->part = name;
}

static void callback_end(struct loop_guard *guard, const char *name, uint64_t ns)
{
    hist_add(&guard->seconds, (double)ns / 1e9);
    if (ns > guard->longest_ns) {
        guard->longest_ns = ns;
        guard->longest = name;
        guard->longest_part = guard->part;
    }
    if (ns > SLOW_NS)
        log_warn("server", "event=slow_callback callback=%s part=%s cpu_ms=%.1f", name,
                 callback_name(guard->part), (double)ns / (double)MS);
    if (guard->limit_ns > 0 && ns > guard->limit_ns)
        abort();
}

void loop_span_end(struct loop_span *span)
{
    struct loop_guard *guard = span->guard;
    uint64_t ns;

    if (guard == NULL)
        return;
    ns = cpu_ns() - span->begin_ns;
    if (--guard->depth > 0)
        part_end(guard, span->name, ns);
    else
        callback_end(guard, span->name, ns);
}
