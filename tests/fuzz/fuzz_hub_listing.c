/* tests/fuzz/fuzz_hub_listing.c - libFuzzer: the Hub's listing of a repository, heads of its
 * answers, and references.
 *
 * The input is a page of a listing as JSON, a byte 0, lines of a head, a byte 0, and what
 * is wanted of the repository. Of what is accepted every path may be made below a folder, every
 * hash is one, and what is chosen is of the listing.
 */
#include <string.h>

#include "core/hub/choice.h"
#include "core/hub/listing.h"
#include "core/hub/reference.h"
#include "core/hub/transfer.h"
#include "tests/fuzz/target.h"

#define MAX_LINE 300

/* The bytes up to a byte 0; *data moves behind it. */
static size_t part(const uint8_t **data, size_t *n)
{
    const uint8_t *end = memchr(*data, 0, *n);
    const size_t len = end != NULL ? (size_t)(end - *data) : *n;

    *data += len + (end != NULL);
    *n -= len + (end != NULL);
    return len;
}

static void check_path(const char *path)
{
    require(path[0] != '/' && strchr(path, '\n') == NULL && strlen(path) <= HUB_MAX_PATH);
    for (const char *s = path; s != NULL; s = strchr(s, '/') != NULL ? strchr(s, '/') + 1 : NULL)
        require(*s != '\0' && *s != '/' && strncmp(s, "../", 3) != 0 && strcmp(s, "..") != 0);
}

static void check(struct hub_listing *l, const char *want)
{
    const char *first = NULL;
    char err[300];
    size_t n_chosen = 0;
    int rc;

    hub_listing_sort(l);
    for (size_t i = 0; i < l->n; i++) {
        check_path(l->files[i].path);
        require(strlen(l->files[i].hash) == 40 || strlen(l->files[i].hash) == 64);
        require(l->files[i].size <= HUB_MAX_FILE_BYTES);
    }
    rc = hub_choose(l, want, &first, err, sizeof(err));
    for (size_t i = 0; i < l->n; i++)
        n_chosen += l->files[i].is_chosen;
    require(rc < 0 || n_chosen > 0);
    require(rc < 0 || first[0] == '\0' || hub_listing_find(l, first)->is_chosen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hub_answer a = {0};
    struct hub_listing l = {0};
    struct hub_reference r = {0};
    char text[MAX_LINE + 1], err[300];
    const uint8_t *page = data, *lines;
    const size_t page_len = part(&data, &n);
    size_t len;

    lines = data;
    len = part(&data, &n);
    while (len > 0) {
        const uint8_t *end = memchr(lines, '\n', len);
        const size_t line = end != NULL ? (size_t)(end - lines) + 1 : len;

        hub_answer_take_line(&a, (const char *)lines, line);
        lines += line;
        len -= line;
    }
    require(strlen(a.etag) < sizeof(a.etag) && strlen(a.next) < sizeof(a.next));
    n = n < MAX_LINE ? n : MAX_LINE;
    memcpy(text, data, n);
    text[n] = '\0';
    if (hub_reference_parse(&r, text, err, sizeof(err)) == 0 && r.want[0] != '\0')
        check_path(r.want);
    if (hub_listing_add_page(&l, (const char *)page, page_len, err, sizeof(err)) == 0)
        check(&l, r.want);
    hub_listing_release(&l);
    return 0;
}
