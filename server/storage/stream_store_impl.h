/* server/storage/stream_store_impl.h - shared by the files of stream_store.h: stream_store.c
 * handles all streams, kept_stream.c one.
 *
 * Thread: the loop's.
 * Memory: as stream_store.h says.
 */
#ifndef SERVER_STORAGE_STREAM_STORE_IMPL_H
#define SERVER_STORAGE_STREAM_STORE_IMPL_H

#include "core/base/hash_index.h"
#include "core/base/list.h"
#include "server/storage/frame_log.h"
#include "server/storage/stream_store.h"

/* Bytes that are counted for a stream in addition to its frames. */
#define STREAM_COST 4096

struct stream_store {
    struct stream_store_options opt;
    struct stream_counts counts;
    struct list all; /* of struct kept_stream.link */
    struct hash_index by_id, by_conversation; /* by owner and id; by owner and conversation, if
                                               * there is one */
    uint64_t n_begun;
    struct list idle;  /* .idle_link: streams without a reader, the longest idle first */
    struct list ended; /* .ended_link: streams of `idle` that have ended, in the same order */
    uv_timer_t timer;  /* runs while `idle` is not empty */
    bool is_stopped;
};

struct kept_stream {
    struct stream_store *store;
    struct list link, idle_link, ended_link; /* in the store's lists; idle_link while it is idle,
                                              * ended_link while it is idle and has ended */
    struct list readers;         /* struct stream_reader, n_readers */
    uint32_t n_readers;
    uint64_t number; /* streams that began later have greater numbers */
    char id[STREAM_MAX_ID + 1], owner[STREAM_MAX_OWNER + 2];
    char conversation[STREAM_MAX_CONVERSATION + 1];
    const char *type;
    bool is_alone, is_restored, is_over;
    int64_t begun_s, ended_s;
    uint64_t idle_us;                 /* time at which it became idle */
    struct frame_log frames; /* the latest frames */
    uint64_t n_counted;      /* bytes of `frames` in the store's account */
    void (*stop)(void *ud);           /* NULL: the writer has ended */
    void *ud;
    void (*gone)(void *gone_ud); /* or NULL */
    void *gone_ud;
};

void kept_stream_init(struct kept_stream *k, struct stream_store *s,
                      const struct stream_start *start);

/* Update whether the stream is idle. Called when a reader is added or removed, or the stream
 * ends. */
void stream_store_note(struct kept_stream *k);
void stream_store_remove(struct kept_stream *k);
/* Drop ended streams without readers, except `other`, until memory suffices. True: it does. */
bool stream_store_make_room(struct stream_store *s, const struct kept_stream *other);

#endif
