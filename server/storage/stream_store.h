/* server/storage/stream_store.h - streams that clients can resume: their latest frames and readers.
 *
 * The writer of an answer appends frames to a kept stream, and readers get them from there, each
 * from a place of its own: a frame's number, or a byte. Frames are numbered from 0. A stream is
 * kept for keep_ms after its end; without a reader it is kept for keep_ms at most, then its writer
 * is stopped. When one stream exceeds max_bytes, its oldest frames are dropped. When all streams
 * together exceed `memory`, ended streams without a reader are dropped, the oldest first, and then
 * the oldest frames of the stream that is being written.
 *
 * A reader that is slower than its stream gets what is kept as fast as it takes it; a reader whose
 * next byte was dropped loses its connection.
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
    uint64_t max_bytes, memory; /* of one stream, of all */
};

struct stream_counts {
    uint64_t bytes;
    uint32_t n_running, n_ended; /* that are kept */
    uint64_t n_resumed;          /* readers that resumed a stream, ever */
    uint64_t n_evicted;          /* streams that were dropped, or lost frames, for lack of memory */
    uint64_t n_stopped;          /* streams whose writers were stopped for lack of a reader */
};

struct stream_start {
    const char *owner, *id;   /* copied; the id is new */
    const char *conversation; /* another name, of the owner's latest stream that has it; or "" */
    const char *type;         /* Content-Type: static */
    bool is_lines;            /* a frame is a line; else an empty line ends it */
    bool is_alone;            /* it continues without readers */
    bool is_restored;         /* readers may know frames that are still to be written again: they
                               * wait for the frames after those */
    uint64_t first_frame;     /* the number of the first frame that is written */
    /* The stream is freed, and its writer should stop: nobody reads the rest. Called once at most,
     * and not after kept_stream_end(). */
    void (*stop)(void *ud);
    void *ud;
    /* Nobody can read the stream any more: its last callback, not called when the store stops.
     * NULL: not needed. */
    void (*gone)(void *gone_ud);
    void *gone_ud;
};

int stream_store_open(struct stream_store **out, const struct stream_store_options *options);
/* Readers lose their connections; the loop must run once more before the memory is freed. */
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
/* Send a comment to the readers that have everything so far; it is not a frame, and not kept. */
void kept_stream_comment(struct kept_stream *k, const char *text, size_t n);
void kept_stream_end(struct kept_stream *k);

/* ---- readers ---- */

/* The owner's stream with that id, the latest if there are two; NULL: none, or another owner's. */
struct kept_stream *stream_store_find(struct stream_store *s, const char *owner, const char *id);
struct kept_stream *stream_store_find_conversation(struct stream_store *s, const char *owner,
                                                   const char *conversation);
/* Answer the call, which has not been answered, with the frames after number `after`; -1: all.
 * Otherwise a negative ERR_* with *e filled: a 410 when some were dropped, a 416 when `after` was
 * not written yet. */
int kept_stream_read(struct kept_stream *k, struct http_call *call /* takes */, int64_t after,
                     struct api_error *e);
/* kept_stream_read() from a byte on, as in llama-server. */
int kept_stream_read_bytes(struct kept_stream *k, struct http_call *call /* takes */,
                           uint64_t from, struct api_error *e);
/* Whether the stream has ended with frame number `after`. */
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
