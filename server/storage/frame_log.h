/* server/storage/frame_log.h - the latest frames of a stream, in segments of whole frames.
 *
 * Frames are numbered from first_frame on, and bytes from 0. New frames are appended; the oldest
 * segments are dropped when there are more bytes than may be kept. Neither operation moves or reads
 * the other frames, and a frame or byte is found by a binary search among the segments: the cost of
 * a call grows with what it adds or returns, not with what is kept.
 *
 * Thread: one owner.
 * Memory: the segments; frame_log_held() is what they take.
 */
#ifndef SERVER_STORAGE_FRAME_LOG_H
#define SERVER_STORAGE_FRAME_LOG_H

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
    size_t first, n, max_segments;  /* the n segments from `first` on are live */
    uint64_t next_byte, next_frame; /* the numbers of the next byte and frame to be appended */
    uint64_t held;                  /* bytes of memory that the segments take */
    bool is_lines;                  /* a frame is a line; else an empty line ends it */
};

void frame_log_init(struct frame_log *l, bool is_lines, uint64_t first_frame);
void frame_log_release(struct frame_log *l);

/* Append n_frames whole frames. ERR_NOMEM: the log is empty, and continues after them. */
int frame_log_add(struct frame_log *l, const char *bytes, size_t n, uint64_t n_frames);

/* Drop the oldest frames until at most `max` bytes of frames are left. */
void frame_log_keep(struct frame_log *l, uint64_t max);

/* Return the first byte and frame that are kept; next_byte and next_frame if none are. */
uint64_t frame_log_first_byte(const struct frame_log *l);
uint64_t frame_log_first_frame(const struct frame_log *l);
uint64_t frame_log_held(const struct frame_log *l);

/* Return the byte at which a kept frame (or next_frame) begins. */
uint64_t frame_log_byte_of(const struct frame_log *l, uint64_t frame);
/* Return the bytes from `at` on, which must be kept: *n contiguous ones. Valid until the log
 * changes. */
const char *frame_log_bytes(const struct frame_log *l, uint64_t at, size_t *n);

#endif
