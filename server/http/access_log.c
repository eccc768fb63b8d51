/* server/http/access_log.c - see access_log.h.
 *
 * A record is counted by references: access_begin() takes the connection's, access_ref() one for
 * the job that works for the call. Dropping the last reference, on the I/O thread, formats the line
 * and frees the record. Nothing is allocated when the log level leaves the line out.
 */
#include "server/http/access_log.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct access {
    uint32_t n_refs;
    uint64_t begin_us, end_us;
    uint64_t bytes;
    const char *route;
    int status;
    bool has_work;
    struct access_work work;
    char method[12], id[132], key[49];
};

struct access *access_begin(const char *id, const char *method)
{
    struct access *a = log_is_on(LOG_INFO) ? mem_calloc(1, sizeof(*a)) : NULL;

    if (a == NULL)
        return NULL;
    a->n_refs = 1;
    a->begin_us = clock_us();
    snprintf(a->id, sizeof(a->id), "%s", id);
    snprintf(a->method, sizeof(a->method), "%s", method);
    return a;
}

void access_set_key(struct access *a, const char *name)
{
    if (a != NULL)
        snprintf(a->key, sizeof(a->key), "%s", name);
}

struct access *access_ref(struct access *a)
{
    if (a != NULL)
        a->n_refs++;
    return a;
}

/* ---- the log line ---- */

static uint64_t after(uint64_t later, uint64_t earlier)
{
    return later > earlier ? later - earlier : 0;
}

/* The engine's four times follow each other without gaps, so the engine ended at arrival + their
 * sum. If the client disconnected first, the exchange ended when the answer was complete
 * (ready_us), and write_blocked_ms is 0. */
static void format_work(const struct access *a, char *out, size_t size)
{
    const struct access_work *w = &a->work;
    const uint64_t computed = w->queue_us + w->prefill_us + w->decode_us + w->preempted_us;
    const uint64_t engine_end = w->arrival_us + computed;
    const uint64_t ready = w->ready_us > engine_end ? w->ready_us : engine_end;
    const uint64_t n_gaps = after(w->completion_tokens, w->n_choices);

    snprintf(out, size,
             " priority=%s choices=%u prompt_tokens=%" PRIu64 " completion_tokens=%" PRIu64
             " cached_tokens=%" PRIu64 " receive_ms=%.3f queue_ms=%.3f prefill_ms=%.3f"
             " decode_ms=%.3f preempted_ms=%.3f swapped_ms=%.3f delivery_ms=%.3f"
             " write_blocked_ms=%.3f ttft_ms=%.3f tok_s=%.1f preemptions=%u finish=%s",
             w->priority, w->n_choices, w->prompt_tokens, w->completion_tokens, w->cached_tokens,
             ms_of(after(w->arrival_us, a->begin_us)), ms_of(w->queue_us), ms_of(w->prefill_us),
             ms_of(w->decode_us), ms_of(after(w->preempted_us, w->swapped_us)),
             ms_of(w->swapped_us), ms_of(ready - engine_end), ms_of(after(a->end_us, ready)),
             ms_of(after(w->first_us, w->arrival_us)),
             w->decode_us > 0 ? (double)n_gaps / ((double)w->decode_us / 1e6) : 0, w->n_preempted,
             w->finish);
}

/* Return the method, quoted unless it is a plain word: a client may send any bytes. */
static const char *method_of(const struct access *a, char *buf, size_t size)
{
    const bool is_plain = a->method[0] != '\0' &&
                          a->method[strspn(a->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';

    return is_plain ? a->method : log_quote(buf, size, a->method);
}

static void unref(struct access *a)
{
    char work[640] = "", id[280], key[120] = "", model[280] = "", name[270], method[80];

    if (--a->n_refs > 0)
        return;
    if (a->has_work && a->work.ready_us > a->end_us)
        a->end_us = a->work.ready_us; /* the client disconnected before the work ended */
    if (a->has_work)
        format_work(a, work, sizeof(work));
    if (a->key[0] != '\0')
        snprintf(key, sizeof(key), " key=%s", log_quote(name, 110, a->key));
    if (a->work.model != NULL)
        snprintf(model, sizeof(model), " model=%s", log_quote(name, sizeof(name), a->work.model));
    log_info("http",
             "event=finished id=%s method=%s route=%s status=%d bytes=%" PRIu64
             "%s%s duration_ms=%.3f%s",
             log_quote(id, sizeof(id), a->id), method_of(a, method, sizeof(method)), a->route,
             a->status, a->bytes, key, model, ms_of(after(a->end_us, a->begin_us)), work);
    mem_free(a);
}

void access_end(struct access *a, const char *route, int status, uint64_t bytes)
{
    if (a == NULL)
        return;
    a->end_us = clock_us();
    a->route = route;
    a->status = status;
    a->bytes = bytes;
    unref(a);
}

void access_work_end(struct access *a, const struct access_work *work)
{
    if (a == NULL)
        return;
    if (work != NULL) {
        a->work = *work;
        a->has_work = true;
    }
    unref(a);
}
