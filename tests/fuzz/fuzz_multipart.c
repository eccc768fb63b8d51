/* tests/fuzz/fuzz_multipart.c - libFuzzer: any bytes as the body of a form.
 *
 * What the parser makes of them must not depend on how they are cut, and a part's data is what a
 * plain look for the boundary finds.
 */
#include <string.h>

#include "core/base/buf.h"
#include "server/batches/multipart.h"
#include "tests/fuzz/target.h"

#define TYPE "multipart/form-data; boundary=--b"
#define DELIMITER "\r\n----b"
#define MAX ((size_t)1 << 22)

/* All events; the data of parts apart. */
static void read_form(const char *bytes, size_t n, size_t piece, struct buf *events,
                      struct buf *data)
{
    enum multipart_event e = MULTIPART_MORE;
    struct multipart m;

    require(multipart_init(&m, TYPE));
    for (size_t from = 0; from < n && e != MULTIPART_BAD; from += piece) {
        const char *at = bytes + from, *end = bytes + (n - from < piece ? n : from + piece);
        const char *some;
        size_t n_some;

        while ((e = multipart_next(&m, &at, end, &some, &n_some)) != MULTIPART_MORE) {
            require(at <= end);
            if (e == MULTIPART_DATA) {
                require(n_some > 0);
                buf_add(data, some, n_some);
                continue;
            }
            buf_printf(events, "%d %s %d %s\n", (int)e, m.name, m.has_filename, m.filename);
            if (e == MULTIPART_PART_END)
                buf_add_str(data, DELIMITER);
            if (e == MULTIPART_BAD)
                break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const size_t pieces[] = {1, 3, 64};
    struct buf events, data, other_events, other_data;

    buf_init(&events, MAX);
    buf_init(&data, MAX);
    buf_init(&other_events, MAX);
    buf_init(&other_data, MAX);
    read_form((const char *)bytes, n, n > 0 ? n : 1, &events, &data);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        buf_clear(&other_events);
        buf_clear(&other_data);
        read_form((const char *)bytes, n, pieces[i], &other_events, &other_data);
        require(events.len == other_events.len && data.len == other_data.len);
        require(events.len == 0 || memcmp(events.data, other_events.data, events.len) == 0);
        require(data.len == 0 || memcmp(data.data, other_data.data, data.len) == 0);
    }
    /* Data with its boundary is a part of the body as it came, up to the first such end. */
    if (data.len > 0) {
        const char *end = memmem(data.data, data.len, DELIMITER, strlen(DELIMITER));
        const size_t len = end != NULL ? (size_t)(end - data.data) : data.len;

        require(memmem(bytes, n, data.data, len) != NULL || len == 0);
    }
    buf_release(&events);
    buf_release(&data);
    buf_release(&other_events);
    buf_release(&other_data);
    return 0;
}
