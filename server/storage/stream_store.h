/* server/storage/stream_store.h - streams that clients can resume: keeps their latest frames, and
 * sends them to readers.
 *
 * The writer of an answer appends frames to a kept stream, and each reader gets them from its own
 * position on: a frame's number, or a byte. Frames are numbered from 0. A stream is kept for
 * keep_ms after its end; without a reader it is kept for keep_ms at most, then its writer is
 * stopped. When one stream exceeds max_bytes, its oldest frames are dropped. When all streams
 * together exceed `memory`, ended streams without a reader are dropped, the oldest first, and then
 * the oldest frames of the stream that is being written.
 *
 * A reader that is slower than its stream gets the kept frames as fast as it reads them; a reader
 * whose next byte was dropped loses its connection.
 *
 * Thread: the loop's.
 * Memory: bounded as above, and by HTTP_MAX_BACKLOG for each reader.
 */
#ifndef SERVER_STORAGE_STREAM_STORE_H
#define SERVER_STORAGE_STREAM_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/buf.h"
#include "server/http/error.h"

#define STREAM_MAX_ID 47
#define STREAM_MAX_OWNER 64
#define STREAM_MAX_CONVERSATION 128

struct http_call;
struct kept_stream;
struct stream_store;

struct stream_store_options {
    uv_loop_t *loop;
    uint32_t keep_ms;           /* > 0 */
    uint64_t max_bytes, memory; /* most bytes of one stream, of all streams */
};

struct stream_counts {
    uint64_t bytes;
    uint32_t n_running, n_ended; /* kept streams that run; that have ended */
    uint64_t n_resumed;          /* readers that have resumed a stream, since the start */
    uint64_t n_evicted;          /* streams that were dropped, or lost frames, for lack of memory */
    uint64_t n_stopped;          /* streams whose writers were stopped for lack of a reader */
};

struct stream_start {
    const char *owner, *id;   /* copied; the id is new */
    const char *conversation; /* second name, which finds the owner's latest stream with it; or
                               * "" */
    const char *type;         /* Content-Type: static */
    bool is_lines;            /* a frame is a line; else an empty line ends it */
    bool is_alone;            /* the stream continues without readers */
    bool is_restored;         /* frames that readers have already are written again: readers wait
                               * for the frames after them */
    uint64_t first_frame;     /* the number of the first frame that is written */
    /* Called, at most once and not after kept_stream_end(), when the stream is freed because no
     * client reads it: its writer should stop. */
    void (*stop)(void *ud);
    void *ud;
    /* The stream's last callback: no client can read it any more. Not called when the store stops.
     * NULL: not needed. */
    void (*gone)(void *gone_ud);
    void *gone_ud;
};

int stream_store_open(struct stream_store **out, const struct stream_store_options *options);
/* Stop the store and close the readers' connections; the loop must run once more before the memory
 * is freed. */
void stream_store_stop(struct stream_store *s);
void stream_store_close(struct stream_store **s);
struct stream_counts stream_store_counts(const struct stream_store *s); /* NULL: zeros */
uint32_t stream_store_keep_ms(const struct stream_store *s);

/* ---- the writer ---- */

/* Begin a stream; the owner's earlier stream of the same conversation is stopped. 0; ERR_AGAIN: the
 * memory is in use; ERR_NOMEM. */
int stream_store_add(struct kept_stream **out, struct stream_store *s,
                     const struct stream_start *start);
/* Append n_frames whole frames. Readers may still get frames that cannot be kept. */
void kept_stream_write(struct kept_stream *k, const char *bytes, size_t n, uint64_t n_frames);
/* Send a comment to the readers that have all bytes so far; it is not a frame, and not kept. */
void kept_stream_comment(struct kept_stream *k, const char *text, size_t n);
void kept_stream_end(struct kept_stream *k);

/* ---- readers ---- */

/* Return the owner's stream with that id, the latest if there are two; NULL: the owner has none. */
struct kept_stream *stream_store_find(struct stream_store *s, const char *owner, const char *id);
struct kept_stream *stream_store_find_conversation(struct stream_store *s, const char *owner,
                                                   const char *conversation);
/* Answer the call, which has not been answered, with the frames after number `after`; -1: all.
 * Otherwise a negative ERR_* with *e filled: a 410 when some were dropped, a 416 when `after` was
 * not written yet. */
int kept_stream_read(struct kept_stream *k, struct http_call *call /* takes */, int64_t after,
                     struct api_error *e);
/* As kept_stream_read(), but from a byte on, as in llama-server. */
int kept_stream_read_bytes(struct kept_stream *k, struct http_call *call /* takes */,
                           uint64_t from, struct api_error *e);
/* True: the stream has ended with frame number `after`. */
bool kept_stream_is_read(const struct kept_stream *k, int64_t after);
/* Stop the writer, end the readers' answers, and free the stream. */
void kept_stream_drop(struct kept_stream *k);

struct stream_facts {
    bool is_over;
    uint64_t n_bytes; /* ever written */
    int64_t begun_s, ended_s; /* Unix seconds; 0: not yet */
};
struct stream_facts kept_stream_facts(const struct kept_stream *k);

#endif
