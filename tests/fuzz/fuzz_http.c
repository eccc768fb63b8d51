/* tests/fuzz/fuzz_http.c - libFuzzer: any bytes from a client.
 *
 * What the parser makes of them must not depend on how they are cut; its memory is bounded; and
 * each request must end where a second reader of the RFC, written as plainly as possible over the
 * whole text, sees its end. Queries and hosts go through their decoders.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "tests/fuzz/target.h"
#include "tests/unit/server/http_transcript.h"

#define MAX_REQUESTS 64

/* ---- the second reader: SIZE_MAX where it sees no complete request ---- */

static size_t find(const char *bytes, size_t from, size_t n, const char *what)
{
    const size_t len = strlen(what);

    for (size_t i = from; i + len <= n; i++)
        if (memcmp(bytes + i, what, len) == 0)
            return i;
    return SIZE_MAX;
}

/* The value of a field in a head that the parser has found good: lines are CRLF, names end at
 * colons. */
static bool value_of(const char *bytes, size_t from, size_t end, const char *name, char out[64])
{
    const size_t len = strlen(name);

    for (size_t line = find(bytes, from, end + 2, "\r\n") + 2; line < end;
         line = find(bytes, line, end + 2, "\r\n") + 2) {
        if (end - line <= len || strncasecmp(bytes + line, name, len) != 0 ||
            bytes[line + len] != ':')
            continue;
        const size_t to = find(bytes, line, end + 2, "\r\n");
        size_t k = 0;

        for (size_t i = line + len + 1; i < to && k < 63; i++)
            if (bytes[i] != ' ' && bytes[i] != '\t')
                out[k++] = bytes[i];
        out[k] = '\0';
        return true;
    }
    return false;
}

static size_t end_of_chunks(const char *bytes, size_t at, size_t n)
{
    for (;;) {
        const size_t to = find(bytes, at, n, "\r\n");
        char size[32] = "";
        unsigned long long bytes_of_chunk;

        if (to == SIZE_MAX)
            return SIZE_MAX;
        memcpy(size, bytes + at, to - at < 31 ? to - at : 31);
        bytes_of_chunk = strtoull(size, NULL, 16);
        if (bytes_of_chunk == 0) { /* trailers: to the first empty line */
            const size_t end = find(bytes, to, n, "\r\n\r\n");

            return end == SIZE_MAX ? SIZE_MAX : end + 4;
        }
        if (bytes_of_chunk > n - to || to + 4 + bytes_of_chunk > n)
            return SIZE_MAX;
        at = to + 2 + bytes_of_chunk + 2;
    }
}

static size_t end_of_request(const char *bytes, size_t at, size_t n)
{
    size_t head;
    char value[64];

    if (n - at >= 2 && memcmp(bytes + at, "\r\n", 2) == 0)
        at += 2;
    head = find(bytes, at, n, "\r\n\r\n");
    if (head == SIZE_MAX)
        return SIZE_MAX;
    if (value_of(bytes, at, head, "Transfer-Encoding", value)) {
        require(strcasecmp(value, "chunked") == 0);
        require(!value_of(bytes, at, head, "Content-Length", value));
        return end_of_chunks(bytes, head + 4, n);
    }
    if (value_of(bytes, at, head, "Content-Length", value)) {
        const unsigned long long length = strtoull(value, NULL, 10);

        return length > n - head - 4 ? SIZE_MAX : head + 4 + length;
    }
    return head + 4;
}

/* ---- cuts ---- */

static size_t cut_by_seed(void *ud, size_t at)
{
    uint64_t *seed = ud;

    *seed = *seed * 6364136223846793005u + 1442695040888963407u + at;
    return 1 + (*seed >> 33) % ((*seed >> 60) + 1);
}

static void check_cuts(const char *bytes, size_t n, const struct buf *whole)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        uint64_t state = seed * (n + 1);
        struct buf cut;

        buf_init(&cut, TRANSCRIPT_MAX);
        transcribe(bytes, n, cut_by_seed, &state, &cut, NULL, NULL, 0);
        require(cut.len == whole->len && memcmp(cut.data, whole->data, cut.len) == 0);
        buf_release(&cut);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *bytes = mem_dup(data, n); /* its own block: the sanitizer sees a read past the end */
    size_t ends[MAX_REQUESTS], n_ends = 0, at = 0;
    struct buf whole;

    buf_init(&whole, TRANSCRIPT_MAX);
    transcribe(bytes, n, NULL, NULL, &whole, ends, &n_ends, MAX_REQUESTS);
    require(whole.err == 0);
    for (size_t i = 0; i < n_ends; i++) {
        require(end_of_request(bytes, at, n) == ends[i]);
        at = ends[i];
    }
    check_cuts(bytes, n, &whole);
    buf_release(&whole);
    mem_free(bytes);
    return 0;
}
