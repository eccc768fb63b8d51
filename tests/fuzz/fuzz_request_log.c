/* tests/fuzz/fuzz_request_log.c - libFuzzer: bytes that claim to be records of requests_db.
 *
 * The input makes a file, step by step: a step (1 byte, see enum step), whose request (1 byte), a
 * number (1 byte) and how many bytes follow (1 byte), which are texts, tokens, or what is written
 * over the file as it is so far. Whatever comes of it is read, and what is whole is written anew:
 * then it is read as the same.
 */
#include "tests/fuzz/target.h"

#include "server/storage/saved_requests.h"

#include <stdio.h>
#include <string.h>

enum step {
    STEP_BEGIN = 0,
    STEP_TOKENS,
    STEP_END,
    STEP_GONE,
    STEP_WRITE,
    STEP_CUT,
    STEP_RAW,
    STEP_N
};
enum { MAX_FILE = 1 << 16 };

static void add_begin(struct buf *file, uint8_t who, const char *id, uint8_t number,
                      const uint8_t *bytes, uint32_t n)
{
    const struct request_begin b = {.seed = number,
                                    .priority = number % 3u,
                                    .n_past = number % 5u,
                                    .tenant = {(const char *)bytes, n / 4},
                                    .path = {"/v1/completions", 15},
                                    .body = {(const char *)bytes + n / 4, n - n / 4}};

    request_record_begin(file, who, id, &b);
}

static void add_tokens(struct buf *file, uint8_t who, const char *id, uint8_t from,
                       const uint8_t *bytes, uint32_t n)
{
    int32_t ids[256];

    for (uint32_t i = 0; i < n; i++)
        ids[i] = bytes[i];
    request_record_tokens(file, who, id, from, ids, n);
}

static void make_step(struct buf *file, const uint8_t *head, const uint8_t *bytes, uint32_t n)
{
    const uint8_t who = head[1], number = head[2];
    const size_t at = file->len > 0 ? (size_t)number * 16 % file->len : 0;
    char id[REQUEST_RECORD_ID];

    snprintf(id, sizeof(id), "cmpl-%u", who);
    switch ((enum step)(head[0] % STEP_N)) {
    case STEP_BEGIN:
        add_begin(file, who, id, number, bytes, n);
        break;
    case STEP_TOKENS:
        add_tokens(file, who, id, number, bytes, n);
        break;
    case STEP_END:
        request_record_end(file, who, id, 1 + n % 2, number);
        break;
    case STEP_GONE:
        request_record_gone(file, who, id);
        break;
    case STEP_WRITE:
        for (uint32_t i = 0; i < n && at + i < file->len; i++)
            file->data[at + i] = (char)bytes[i];
        break;
    case STEP_CUT:
        file->len = at;
        break;
    case STEP_RAW:
        buf_add(file, bytes, n);
        break;
    case STEP_N:
        break;
    }
}

static void make_file(struct buf *file, const uint8_t *data, size_t n)
{
    while (n >= 4 && file->err == 0) {
        const uint32_t n_bytes = data[3] < n - 4 ? data[3] : (uint32_t)(n - 4);

        make_step(file, data, data + 4, n_bytes);
        data += 4 + n_bytes;
        n -= 4 + n_bytes;
    }
    file->err = 0;
}

static bool is_same(struct request_text a, struct request_text b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.text, b.text, a.n) == 0);
}

static void compare(const struct saved_request *a, const struct saved_request *b)
{
    require(a->number == b->number && strcmp(a->id, b->id) == 0 && saved_request_is_whole(b));
    require(a->begin.seed == b->begin.seed && a->begin.n_past == b->begin.n_past);
    require(is_same(a->begin.body, b->begin.body) && is_same(a->begin.tenant, b->begin.tenant));
    require(a->n_tokens == b->n_tokens && a->has_end == b->has_end);
    require(a->n_tokens == 0 ||
            memcmp(a->tokens, b->tokens, a->n_tokens * sizeof(*a->tokens)) == 0);
}

static void count(void *ud, size_t offset, size_t n)
{
    (void)offset;
    *(uint64_t *)ud += n;
}

static void check(const struct saved_requests *s)
{
    struct saved_requests again = {0};
    struct buf file;
    size_t n = 0;

    buf_init(&file, 2 * MAX_FILE);
    for (size_t i = 0; i < s->n; i++) {
        require(i == 0 || s->all[i - 1].number < s->all[i].number);
        if (saved_request_is_whole(&s->all[i]))
            saved_request_write(&s->all[i], &file);
    }
    require(file.err == 0);
    require(saved_requests_read(&again, file.data, file.len, NULL, NULL) == 0);
    require(again.n_damaged == 0);
    for (size_t i = 0; i < s->n; i++)
        if (saved_request_is_whole(&s->all[i]))
            compare(&s->all[i], &again.all[n++]);
    require(n == again.n);
    saved_requests_release(&again);
    buf_release(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct saved_requests saved = {0};
    uint64_t n_damaged = 0;
    struct buf file;

    buf_init(&file, MAX_FILE);
    make_file(&file, data, n);
    require(saved_requests_read(&saved, file.data, file.len, count, &n_damaged) == 0);
    require(n_damaged == saved.n_damaged && n_damaged <= file.len);
    check(&saved);
    saved_requests_release(&saved);
    buf_release(&file);
    return 0;
}
