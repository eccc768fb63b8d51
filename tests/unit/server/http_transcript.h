/* tests/unit/server/http_transcript.h - what a parser makes of bytes, as text: the same for any
 * cut.
 *
 * One line for each event; the pieces of a body are joined. `cut` says after how many bytes the
 * next piece ends; NULL: all at once. For the unit test and the fuzzer.
 */
#ifndef TESTS_UNIT_SERVER_HTTP_TRANSCRIPT_H
#define TESTS_UNIT_SERVER_HTTP_TRANSCRIPT_H

#include "core/base/buf.h"
#include "server/http/http_parser.h"

#define TRANSCRIPT_MAX ((size_t)4 << 20)

static void transcribe_head(const struct http_parser *p, struct buf *out)
{
    buf_printf(out, "head %s path=%s query=%s host=%s 10=%d keep=%d expect=%d%d framing=%d:%llu\n",
               http_parser_method(p), p->target.path,
               p->target.query != NULL ? p->target.query : "-",
               p->target.host != NULL ? p->target.host : "-", p->is_http_10, p->keeps_alive,
               p->expects_continue, p->has_bad_expectation, p->framing,
               (unsigned long long)p->length);
    for (uint32_t i = 0; i < p->n_fields; i++)
        buf_printf(out, " %s=%s\n", p->head.data + p->fields[i].name,
                   p->head.data + p->fields[i].value);
}

/* One event into the text. False: that was the last. */
static bool transcribe_event(struct http_parser *p, enum http_event e, const char *body,
                             size_t n_body, struct buf *out)
{
    if (e == HTTP_HEAD) {
        transcribe_head(p, out);
    } else if (e == HTTP_BODY) {
        buf_add(out, body, n_body);
    } else if (e == HTTP_END) {
        buf_add_str(out, "\nend\n");
        http_parser_reset(p);
    } else if (e == HTTP_BAD) {
        buf_printf(out, "\nbad %d %s method=%s\n", p->status, p->why, http_parser_method(p));
    }
    return e != HTTP_BAD;
}

/* Where the requests ended goes to ends[0 … *n_ends-1], if it is not NULL. */
static void transcribe(const char *bytes, size_t n, size_t (*cut)(void *ud, size_t at), void *ud,
                       struct buf *out, size_t *ends, size_t *n_ends, size_t max_ends)
{
    struct http_parser p = {0};
    const char *at = bytes, *body = NULL;
    size_t n_body = 0, to = 0;
    bool goes_on = true;

    while (goes_on && to < n) {
        enum http_event e = HTTP_BODY;
        size_t more = cut != NULL ? cut(ud, to) : n;

        to = more < n - to ? to + more : n;
        while (goes_on && e != HTTP_MORE) {
            e = http_parser_next(&p, &at, bytes + to, &body, &n_body);
            if (e == HTTP_END && ends != NULL && *n_ends < max_ends)
                ends[(*n_ends)++] = (size_t)(at - bytes);
            goes_on = transcribe_event(&p, e, body, n_body, out);
        }
    }
    buf_printf(out, "begun=%d\n", http_parser_has_begun(&p));
    http_parser_reset(&p);
}

#endif
