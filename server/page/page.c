/* server/page/page.c - see page.h.
 *
 * The assembler includes the files of server/page/assets (assets.S) and assets.inc lists them; a
 * linear search finds one by name. Bodies are borrowed from read-only data, never copied, and the
 * ETag is a hash of the bytes, so that a new binary replaces what browsers keep.
 */
#include "server/page/page.h"

#include "core/base/buf.h"
#include "server/http/error.h"
#include "server/http/http_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#define INDEX "index.html"
#define FOLDER "server/page/assets/"

struct asset {
    const char *name, *type;
    const char *begin, *end;
};

#define ASSET(symbol, path, type) extern const char page_##symbol##_begin[], page_##symbol##_end[];
#include "server/page/assets.inc"
#undef ASSET

static const struct asset assets[] = {
#define ASSET(symbol, path, type)                                                                  \
    {&path[sizeof(FOLDER) - 1], type, page_##symbol##_begin, page_##symbol##_end},
#include "server/page/assets.inc"
#undef ASSET
};

/* connect-src: only the API of this server. frame-ancestors: no other page may frame this one. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static const struct asset *find_asset(const char *name)
{
    for (size_t i = 0; i < sizeof(assets) / sizeof(assets[0]); i++)
        if (strcmp(assets[i].name, name) == 0)
            return &assets[i];
    return NULL;
}

static void set_headers(struct http_call *call, const char *tag)
{
    http_call_set_header(call, "Content-Security-Policy", policy);
    http_call_set_header(call, "X-Content-Type-Options", "nosniff");
    http_call_set_header(call, "Referrer-Policy", "no-referrer");
    /* Browsers may keep it, and ask again each time: a new binary has a new page. */
    http_call_set_header(call, "Cache-Control", "no-cache");
    http_call_set_header(call, "ETag", tag);
}

/* True: the list in If-None-Match has this tag, weak or strong, or is a star (RFC 9110, 13.1.2).
 * Our tags have no comma. */
static bool has_tag(const struct http_call *call, const char *tag)
{
    const char *at = http_call_header(call, "If-None-Match");
    const size_t n_tag = strlen(tag);

    for (size_t n; at != NULL && *at != '\0'; at += n + (at[n] == ',')) {
        at += strspn(at, " \t");
        n = strcspn(at, ",");
        if (at[0] == '*')
            return true;
        if (strncmp(at, "W/", 2) == 0 ? strncmp(at + 2, tag, n_tag) == 0
                                      : strncmp(at, tag, n_tag) == 0)
            return true;
    }
    return false;
}

static void reply_asset(struct http_call *call, const struct asset *a)
{
    const size_t n = (size_t)(a->end - a->begin);
    char tag[24];
    struct buf body;

    snprintf(tag, sizeof(tag), "\"%016" PRIx64 "\"", (uint64_t)XXH3_64bits(a->begin, n));
    set_headers(call, tag);
    buf_init(&body, n + 1);
    if (has_tag(call, tag)) {
        http_call_reply(call, 304, "", &body);
        return;
    }
    buf_borrow(&body, a->begin, n);
    http_call_reply_page(call, a->type, &body);
}

/* True: a media range has the weight 0, which means "not this one". */
static bool is_unwanted(const char *range, size_t n)
{
    for (size_t i = 0; i + 2 < n; i++)
        if (range[i] == ';') {
            const size_t at = i + 1 + strspn(range + i + 1, " \t");

            if (strncasecmp(range + at, "q=", 2) == 0)
                return strtod(range + at + 2, NULL) <= 0;
        }
    return false;
}

bool page_is_wanted(const char *accept)
{
    const char *at = accept;

    for (size_t n; at != NULL && *at != '\0'; at += n + (at[n] == ',')) {
        at += strspn(at, " \t");
        n = strcspn(at, ",");
        if (strncasecmp(at, "text/html", 9) == 0 && strcspn(at, "; \t,") == 9)
            return !is_unwanted(at, n);
    }
    return false;
}

void page_show(struct http_call *call)
{
    reply_asset(call, find_asset(INDEX));
}

void page_file(struct http_call *call)
{
    const struct asset *a = find_asset(http_call_tail(call));
    struct api_error e;

    if (a != NULL) {
        reply_asset(call, a);
        return;
    }
    api_error_set(&e, 404, NULL, NULL, "the page has no such file");
    http_call_reply_error(call, &e);
}
