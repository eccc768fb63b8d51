/* server/storage/frame_log.c - segments of whole frames in one array; see frame_log.h.
 *
 * The array has live segments from `first` on; dropped ones leave a gap at the front, which is
 * closed only when the live ones fill less than half, so that each segment moves a bounded number
 * of times. A segment takes frames up to 64 KiB and is searched for the end of a frame (an empty
 * line, or a line end) when the position of a frame is needed. Only the I/O thread uses it, through
 * kept_stream.c.
 */
#include "server/storage/frame_log.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

/* Bytes after which a segment takes no further frames; a longer write gets a segment of its own. */
#define SEGMENT_BYTES ((size_t)64 << 10)
#define FIRST_SEGMENTS 8

void frame_log_init(struct frame_log *l, bool is_lines, uint64_t first_frame)
{
    *l = (struct frame_log){.is_lines = is_lines, .next_frame = first_frame};
}

static void drop_first(struct frame_log *l)
{
    struct frame_segment *s = &l->segments[l->first++];

    l->n--;
    l->held -= s->bytes.cap;
    buf_release(&s->bytes);
}

void frame_log_release(struct frame_log *l)
{
    while (l->n > 0)
        drop_first(l);
    mem_free(l->segments);
    l->segments = NULL;
    l->first = l->max_segments = 0;
}

static struct frame_segment *last_of(const struct frame_log *l)
{
    return &l->segments[l->first + l->n - 1];
}

/* Make room for one more segment after the others: move the segments to the front of the array, or
 * to a longer array. */
static int make_place(struct frame_log *l)
{
    const size_t more = l->max_segments > 0 ? 2 * l->max_segments : FIRST_SEGMENTS;
    struct frame_segment *longer;

    if (l->first + l->n < l->max_segments)
        return 0;
    if (l->first > l->n) {
        memmove(l->segments, l->segments + l->first, l->n * sizeof(*l->segments));
        l->first = 0;
        return 0;
    }
    longer = mem_realloc(l->segments, more * sizeof(*l->segments));
    if (longer == NULL)
        return ERR_NOMEM;
    l->segments = longer;
    l->max_segments = more;
    return 0;
}

/* Return the segment for the next n bytes; NULL: no memory. */
static struct frame_segment *segment_for(struct frame_log *l, size_t n)
{
    struct frame_segment *s;

    if (l->n > 0 && last_of(l)->bytes.len + n <= SEGMENT_BYTES)
        return last_of(l);
    if (make_place(l) < 0)
        return NULL;
    l->n++;
    s = last_of(l);
    *s = (struct frame_segment){.first_byte = l->next_byte, .first_frame = l->next_frame};
    buf_init(&s->bytes, SIZE_MAX / 4);
    return s;
}

int frame_log_add(struct frame_log *l, const char *bytes, size_t n, uint64_t n_frames)
{
    struct frame_segment *s = segment_for(l, n);
    const size_t before = s != NULL ? s->bytes.cap : 0;
    const int rc = s != NULL ? buf_add(&s->bytes, bytes, n) : ERR_NOMEM;

    if (s != NULL)
        l->held += s->bytes.cap - before;
    l->next_byte += n;
    l->next_frame += n_frames;
    if (rc < 0)
        frame_log_release(l);
    return rc;
}

/* Return the end of the frame that begins at `at`. */
static size_t end_of_frame(const struct frame_log *l, const struct frame_segment *s, size_t at)
{
    const char *end = l->is_lines ? "\n" : "\n\n";
    const char *found = memmem(s->bytes.data + at, s->bytes.len - at, end, strlen(end));

    return found != NULL ? (size_t)(found - s->bytes.data) + strlen(end) : s->bytes.len;
}

/* Drop as many whole frames of the first segment as cover n bytes; the segment has more. */
static void trim_first(struct frame_log *l, size_t n)
{
    struct frame_segment *s = &l->segments[l->first];
    struct frame_segment rest = *s;
    size_t at = 0;

    for (; at < n; rest.first_frame++)
        at = end_of_frame(l, s, at);
    rest.first_byte += at;
    buf_init(&rest.bytes, s->bytes.max);
    if (at == s->bytes.len || buf_add(&rest.bytes, s->bytes.data + at, s->bytes.len - at) < 0) {
        buf_release(&rest.bytes);
        drop_first(l);
        return;
    }
    l->held -= s->bytes.cap - rest.bytes.cap;
    buf_release(&s->bytes);
    *s = rest;
}

void frame_log_keep(struct frame_log *l, uint64_t max)
{
    while (l->n > 0 && l->next_byte - frame_log_first_byte(l) > max) {
        const uint64_t excess = l->next_byte - frame_log_first_byte(l) - max;

        if (excess >= l->segments[l->first].bytes.len)
            drop_first(l);
        else
            trim_first(l, (size_t)excess);
    }
}

uint64_t frame_log_first_byte(const struct frame_log *l)
{
    return l->n > 0 ? l->segments[l->first].first_byte : l->next_byte;
}

uint64_t frame_log_first_frame(const struct frame_log *l)
{
    return l->n > 0 ? l->segments[l->first].first_frame : l->next_frame;
}

uint64_t frame_log_held(const struct frame_log *l)
{
    return l->held + l->max_segments * sizeof(*l->segments);
}

/* Find the last segment that begins at or before a byte (or, with by_frame, a frame), which must
 * exist. */
static const struct frame_segment *find_segment(const struct frame_log *l, uint64_t at,
                                                bool by_frame)
{
    const struct frame_segment *s = &l->segments[l->first];
    size_t low = 0, high = l->n;

    while (high - low > 1) {
        const size_t mid = low + (high - low) / 2;

        if ((by_frame ? s[mid].first_frame : s[mid].first_byte) <= at)
            low = mid;
        else
            high = mid;
    }
    return &s[low];
}

uint64_t frame_log_byte_of(const struct frame_log *l, uint64_t frame)
{
    const struct frame_segment *s;
    size_t at = 0;

    if (frame >= l->next_frame || l->n == 0)
        return l->next_byte;
    s = find_segment(l, frame, true);
    for (uint64_t n = frame - s->first_frame; n > 0; n--)
        at = end_of_frame(l, s, at);
    return s->first_byte + at;
}

const char *frame_log_bytes(const struct frame_log *l, uint64_t at, size_t *n)
{
    const struct frame_segment *s = find_segment(l, at, false);
    const size_t skip = (size_t)(at - s->first_byte);

    *n = s->bytes.len - skip;
    return s->bytes.data + skip;
}
