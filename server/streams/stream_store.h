/* server/streams/stream_store.h - streams that can be gone on with: their latest frames, who reads
 * them, and when they go.
 *
 * Whoever makes an answer writes frames into a kept stream, and readers get them from there, each
 * from a place of its own: a frame's number, or a byte. Frames are numbered from 0. A stream is
 * kept for keep_ms after its end, and while it has no reader for keep_ms at most: then its writer
 * is stopped. What is beyond max_bytes of one stream goes, its oldest frames first. When all
 * streams together are beyond `memory`, those that have ended and have no reader go, the oldest
 * first, and then the oldest frames of whichever stream is written to.
 *
 * A reader that is slower than its stream gets what is kept as fast as it takes it; one whose next
 * byte has gone loses its connection.
 *
 * Thread: the loop's.
 * Memory: bounded as above, and by HTTP_MAX_BACKLOG for each reader.
 */
#ifndef SERVER_STREAMS_STREAM_STORE_H
#define SERVER_STREAMS_STREAM_STORE_H

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
    uint64_t n_resumed;          /* readers that went on somewhere, ever */
    uint64_t n_evicted;          /* that went, or lost frames, for want of memory */
    uint64_t n_stopped;          /* whose writers were stopped for want of a reader */
};

struct stream_start {
    const char *owner, *id;   /* copied; the id is new */
    const char *conversation; /* another name of the owner's latest stream that has it; or "" */
    const char *type;         /* Content-Type: static */
    bool is_lines;            /* a frame is a line; else it ends with an empty one */
    bool is_alone;            /* it runs on without readers */
    bool is_restored;         /* readers may know frames that are still to be written again: they
                               * wait for those that follow */
    uint64_t first_frame;     /* the number of the first one that is written */
    /* The stream is gone and may not be touched any more; nobody wants the rest. Called once at
     * most, and not after kept_stream_end(). */
    void (*stop)(void *ud);
    void *ud;
    /* Nobody can read it any more: the last that is heard of it, not called when the store stops.
     * NULL: nobody wants to know. */
    void (*gone)(void *gone_ud);
    void *gone_ud;
};

int stream_store_open(struct stream_store **out, const struct stream_store_options *options);
/* Readers lose their connections; the loop must run once more before the memory goes. */
void stream_store_stop(struct stream_store *s);
void stream_store_close(struct stream_store **s);
struct stream_counts stream_store_counts(const struct stream_store *s); /* NULL: zeros */
uint32_t stream_store_keep_ms(const struct stream_store *s);

/* ---- the writer ---- */

/* The owner's stream of the same conversation is stopped. 0; ERR_AGAIN: the memory is in use;
 * ERR_NOMEM. */
int stream_store_add(struct kept_stream **out, struct stream_store *s,
                     const struct stream_start *start);
/* n_frames whole frames; what cannot be kept, readers may still get. */
void kept_stream_write(struct kept_stream *k, const char *bytes, size_t n, uint64_t n_frames);
/* To those readers that have everything so far; it is no frame, and not kept. */
void kept_stream_comment(struct kept_stream *k, const char *text, size_t n);
void kept_stream_end(struct kept_stream *k);

/* ---- readers ---- */

/* NULL: it is not there, or another's. Of two of one id the latest. */
struct kept_stream *stream_store_find(struct stream_store *s, const char *owner, const char *id);
struct kept_stream *stream_store_find_conversation(struct stream_store *s, const char *owner,
                                                   const char *conversation);
/* The call, which has not been answered, gets the frames behind number `after`, -1: all. Else a
 * negative ERR_* with *e filled: a 410 where some have gone, a 416 where there are none yet. */
int kept_stream_read(struct kept_stream *k, struct http_call *call /* takes */, int64_t after,
                     struct api_error *e);
/* The same from a byte on, as llama-server has it. */
int kept_stream_read_bytes(struct kept_stream *k, struct http_call *call /* takes */,
                           uint64_t from, struct api_error *e);
/* The stream is over, and frame number `after` was its last one. */
bool kept_stream_is_read(const struct kept_stream *k, int64_t after);
/* Its writer is stopped, its readers come to their end, and it is gone. */
void kept_stream_drop(struct kept_stream *k);

struct stream_facts {
    bool is_over;
    uint64_t n_bytes; /* ever written */
    int64_t begun_s, ended_s; /* Unix seconds; 0: not yet */
};
struct stream_facts kept_stream_facts(const struct kept_stream *k);

#endif
