/* server/storage/kept_stream.c - one kept stream: its frames and its readers; see stream_store.h.
 *
 * A reader is an HTTP call with the number of its next byte. Nothing is queued for it: feed()
 * copies from the frame log whenever frames are added or the connection has room
 * (http_call_on_room()). A reader whose next byte was dropped is disconnected. In a stream that is
 * written again after a restart, a reader may wait for a frame that does not exist yet (`awaits`).
 */
#include "server/storage/stream_store_impl.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/http/http_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Bytes that are copied to a reader's connection at a time, and the most that may wait there. */
#define PIECE ((size_t)64 << 10)
#define MAX_WAITING (4 * PIECE)

struct stream_reader {
    struct kept_stream *stream;
    struct list link;
    struct http_call *call;
    uint64_t at;     /* the next byte to send */
    uint64_t awaits; /* number of the first frame to send, which is not written yet; 0: it waits for
                      * no frame */
};

/* ---- readers ---- */

static void forget_reader(struct stream_reader *r)
{
    list_unlink(&r->link);
    r->stream->n_readers--;
    stream_store_note(r->stream);
    mem_free(r);
}

static void on_reader_gone(void *ud)
{
    forget_reader(ud);
}

static uint64_t kept_end(const struct kept_stream *k)
{
    return k->frames.next_byte;
}

/* Copy as many bytes as the connection takes now; after the last byte of an ended stream end the
 * call. */
static void feed(struct stream_reader *r)
{
    const struct kept_stream *k = r->stream;

    if (r->awaits > 0 && !k->is_over)
        return;
    while (r->at < kept_end(k) && http_call_n_waiting(r->call) < MAX_WAITING) {
        size_t n;
        const char *bytes = frame_log_bytes(&k->frames, r->at, &n);

        n = n < PIECE ? n : PIECE;
        if (http_call_write(r->call, bytes, n) < 0)
            return; /* no memory: the reader gets nothing now, and is disconnected if its next bytes
                     * are dropped */
        r->at += n;
    }
    if (!k->is_over || r->at < kept_end(k))
        return;
    http_call_end(r->call);
    forget_reader(r);
}

static void on_room(void *ud)
{
    feed(ud);
}

static void cut_kept(struct stream_reader *r, const char *why)
{
    char id[280];

    log_warn("http", "event=stream_cut id=%s reason=%s",
             log_quote(id, sizeof(id), http_call_id(r->call)), why);
    http_call_abort(r->call);
    forget_reader(r);
}

static int attach(struct kept_stream *k, struct http_call *call, uint64_t at, uint64_t awaits,
                  struct api_error *e)
{
    struct stream_reader *r = mem_calloc(1, sizeof(*r));

    if (r == NULL)
        return api_error_no_memory(e);
    *r = (struct stream_reader){.stream = k, .call = call, .at = at, .awaits = awaits};
    list_push_back(&k->readers, &r->link);
    k->n_readers++;
    stream_store_note(k);
    http_call_on_gone(call, on_reader_gone, r);
    http_call_on_room(call, on_room, r);
    http_call_set_header(call, "Cache-Control", "no-cache");
    http_call_set_header(call, "X-Stream-Id", k->id);
    http_call_stream(call, k->type);
    feed(r);
    return 0;
}

/* ---- frames ---- */

int kept_stream_read(struct kept_stream *k, struct http_call *call, int64_t after,
                     struct api_error *e)
{
    const uint64_t next = (uint64_t)(after + 1);
    int rc;

    if (next < frame_log_first_frame(&k->frames))
        return api_error_set(e, 410, "after", "frames_gone",
                             "the frames up to %" PRIu64 " of the stream are not kept any more "
                             "(stream_max_bytes, stream_memory)",
                             frame_log_first_frame(&k->frames) - 1);
    if (next > k->frames.next_frame && !(k->is_restored && !k->is_over))
        return api_error_set(e, 416, "after", "no_such_frame",
                             "frame %" PRId64 " of the stream does not exist: %" PRIu64
                             " have been written",
                             after, k->frames.next_frame);
    if (next > k->frames.next_frame)
        rc = attach(k, call, kept_end(k), next, e);
    else
        rc = attach(k, call, frame_log_byte_of(&k->frames, next), 0, e);
    if (rc == 0 && after >= 0)
        k->store->counts.n_resumed++;
    return rc;
}

int kept_stream_read_bytes(struct kept_stream *k, struct http_call *call, uint64_t from,
                           struct api_error *e)
{
    int rc;

    if (from < frame_log_first_byte(&k->frames))
        return api_error_set(e, 400, "from", "offset_lost",
                             "the stream's bytes before %" PRIu64 " are not kept any more",
                             frame_log_first_byte(&k->frames));
    if (from > kept_end(k) && !(k->is_restored && !k->is_over))
        return api_error_set(e, 400, "from", NULL, "the stream has %" PRIu64 " bytes so far",
                             kept_end(k));
    rc = attach(k, call, from, 0, e);
    if (rc == 0 && from > 0)
        k->store->counts.n_resumed++;
    return rc;
}

static void recount(struct kept_stream *k)
{
    const uint64_t held = frame_log_held(&k->frames);

    k->store->counts.bytes += held - k->n_counted; /* modulo 2^64: the difference may be negative */
    k->n_counted = held;
}

static void cut_behind(struct kept_stream *k)
{
    list_each(it, &k->readers) {
        struct stream_reader *r = list_entry(it, struct stream_reader, link);

        if (r->at < frame_log_first_byte(&k->frames))
            cut_kept(r, "slow_reader");
    }
}

static uint64_t bytes_kept(const struct kept_stream *k)
{
    return kept_end(k) - frame_log_first_byte(&k->frames);
}

/* If the stream, or all streams together, exceed their limit, drop the oldest quarter of the
 * stream's frames, and disconnect readers that have not got them. */
static void bound(struct kept_stream *k)
{
    const uint64_t max = k->store->opt.max_bytes;
    const bool is_over = bytes_kept(k) > max;

    if (is_over)
        frame_log_keep(&k->frames, max / 4 * 3);
    recount(k);
    if (!stream_store_make_room(k->store, k)) {
        k->store->counts.n_evicted++;
        frame_log_keep(&k->frames, bytes_kept(k) / 4 * 3);
        recount(k);
    } else if (!is_over) {
        return;
    }
    cut_behind(k);
}

/* ---- the writer ---- */

void kept_stream_init(struct kept_stream *k, struct stream_store *s,
                      const struct stream_start *start)
{
    k->store = s;
    list_init(&k->link);
    list_init(&k->idle_link);
    list_init(&k->ended_link);
    list_init(&k->readers);
    snprintf(k->id, sizeof(k->id), "%s", start->id);
    snprintf(k->owner, sizeof(k->owner), "%s", start->owner);
    snprintf(k->conversation, sizeof(k->conversation), "%s", start->conversation);
    k->type = start->type;
    k->is_alone = start->is_alone;
    k->is_restored = start->is_restored;
    k->begun_s = (int64_t)time(NULL);
    frame_log_init(&k->frames, start->is_lines, start->first_frame);
    k->stop = start->stop;
    k->ud = start->ud;
    k->gone = start->gone;
    k->gone_ud = start->gone_ud;
}

/* Called when frames are written again: readers that wait for one of the last n_frames frames begin
 * there. */
static void begin_waiting(struct kept_stream *k, uint64_t n_frames)
{
    list_each(it, &k->readers) {
        struct stream_reader *r = list_entry(it, struct stream_reader, link);

        if (r->awaits == 0)
            continue;
        r->at = kept_end(k);
        if (r->awaits >= k->frames.next_frame)
            continue;
        if (r->awaits + n_frames >= k->frames.next_frame &&
            r->awaits >= frame_log_first_frame(&k->frames))
            r->at = frame_log_byte_of(&k->frames, r->awaits);
        r->awaits = 0;
    }
}

static void feed_all(struct kept_stream *k)
{
    list_each(it, &k->readers) {
        struct stream_reader *r = list_entry(it, struct stream_reader, link);

        feed(r);
    }
}

void kept_stream_write(struct kept_stream *k, const char *bytes, size_t n, uint64_t n_frames)
{
    if (frame_log_add(&k->frames, bytes, n, n_frames) < 0)
        cut_behind(k); /* no memory: no reader can continue */
    if (k->is_restored)
        begin_waiting(k, n_frames);
    feed_all(k);
    bound(k);
}

void kept_stream_comment(struct kept_stream *k, const char *text, size_t n)
{
    list_each(it, &k->readers) {
        const struct stream_reader *r = list_entry(it, struct stream_reader, link);

        if (r->at == kept_end(k) && http_call_n_waiting(r->call) == 0)
            (void)http_call_write(r->call, text, n); /* a comment may be lost */
    }
}

void kept_stream_end(struct kept_stream *k)
{
    k->stop = NULL;
    k->ended_s = (int64_t)time(NULL);
    k->store->counts.n_running--;
    k->store->counts.n_ended++;
    k->is_over = true;
    stream_store_note(k);
    feed_all(k);
}

void kept_stream_drop(struct kept_stream *k)
{
    void (*stop)(void *ud) = k->stop, (*gone)(void *ud) = k->gone;
    void *ud = k->ud, *gone_ud = k->gone_ud;
    const bool is_heard = gone != NULL && !k->store->is_stopped;

    stream_store_remove(k);
    list_each(it, &k->readers) {
        struct stream_reader *r = list_entry(it, struct stream_reader, link);

        list_unlink(&r->link);
        http_call_end(r->call);
        mem_free(r);
    }
    k->store->counts.bytes -= k->n_counted + STREAM_COST;
    frame_log_release(&k->frames);
    mem_free(k);
    if (stop != NULL)
        stop(ud);
    if (is_heard)
        gone(gone_ud);
}

bool kept_stream_is_read(const struct kept_stream *k, int64_t after)
{
    return k->is_over && after >= 0 && (uint64_t)after + 1 == k->frames.next_frame;
}

struct stream_facts kept_stream_facts(const struct kept_stream *k)
{
    return (struct stream_facts){k->is_over, kept_end(k), k->begun_s, k->ended_s};
}
