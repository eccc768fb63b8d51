/* server/streams/frame_log.h - the latest frames of a stream, in segments of whole frames.
 *
 * Frames are numbered from first_frame on, and bytes from 0. New frames go behind the last one; the
 * oldest segments go when there are more bytes than may be kept. Neither moves nor reads the other
 * frames, and a frame or byte is found by a binary search among the segments: what a call costs
 * grows with what it adds or hands out, not with what is kept.
 *
 * Thread: one owner.
 * Memory: the segments; frame_log_held() is what they take.
 */
#ifndef SERVER_STREAMS_FRAME_LOG_H
#define SERVER_STREAMS_FRAME_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

struct frame_segment {
    struct buf bytes;
    uint64_t first_byte, first_frame;
};

struct frame_log {
    struct frame_segment *segments; /* [max_segments] */
    size_t first, n, max_segments;  /* those from `first` on, n of them, are there */
    uint64_t next_byte, next_frame; /* behind the last ones */
    uint64_t held;                  /* bytes of memory */
    bool is_lines;                  /* a frame is a line; else an empty line ends it */
};

void frame_log_init(struct frame_log *l, bool is_lines, uint64_t first_frame);
void frame_log_release(struct frame_log *l);

/* n_frames whole frames. ERR_NOMEM: the log is empty, and goes on behind them. */
int frame_log_add(struct frame_log *l, const char *bytes, size_t n, uint64_t n_frames);

/* The oldest frames go until `max` bytes of frames are left at most. */
void frame_log_keep(struct frame_log *l, uint64_t max);

/* The first byte and frame that are kept; next_byte and next_frame when there are none. */
uint64_t frame_log_first_byte(const struct frame_log *l);
uint64_t frame_log_first_frame(const struct frame_log *l);
uint64_t frame_log_held(const struct frame_log *l);

/* Where a frame begins that is kept, or next_frame. */
uint64_t frame_log_byte_of(const struct frame_log *l, uint64_t frame);
/* The bytes from `at` on, which is kept: *n of them stand together. Valid until the log changes. */
const char *frame_log_bytes(const struct frame_log *l, uint64_t at, size_t *n);

#endif
