/* server/http/http_parser.c - see http_parser.h: lines, the head, the body. */
#include "server/http/http_parser.h"

#include "core/base/err.h"
#include "core/base/hex.h"
#include "server/http/http_grammar.h"

#include <string.h>
#include <strings.h>

enum state {
    STATE_LINE = 0, /* the request line, or the empty line before it */
    STATE_FIELD,
    STATE_LENGTH,     /* of a body that has one */
    STATE_CHUNK_SIZE, /* digits */
    STATE_CHUNK_EXTENSION,
    STATE_CHUNK_LF, /* of the chunk's line */
    STATE_CHUNK_DATA,
    STATE_CHUNK_END, /* the CR behind the data */
    STATE_CHUNK_END_LF,
    STATE_TRAILER,
    STATE_DONE,
    STATE_BAD,
};

static enum http_event bad(struct http_parser *p, int status, const char *why)
{
    p->state = STATE_BAD;
    p->status = status;
    p->why = why;
    return HTTP_BAD;
}

const char *http_parser_method(const struct http_parser *p)
{
    return p->line > 0 ? p->head.data + p->method : "";
}

const char *http_parser_field(const struct http_parser *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_fields; i++)
        if (strcasecmp(p->head.data + p->fields[i].name, name) == 0)
            return p->head.data + p->fields[i].value;
    return NULL;
}

uint32_t http_parser_count(const struct http_parser *p, const char *name)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_fields; i++)
        n += strcasecmp(p->head.data + p->fields[i].name, name) == 0;
    return n;
}

void http_parser_get_request(const struct http_parser *p, struct http_request *out)
{
    *out = (struct http_request){.method = http_parser_method(p),
                                 .target = p->target,
                                 .is_http_10 = p->is_http_10,
                                 .keeps_alive = p->keeps_alive && p->status == 0,
                                 .expects_continue = p->expects_continue,
                                 .has_bad_expectation = p->has_bad_expectation,
                                 .is_chunked = p->framing == HTTP_CHUNKED,
                                 .length = p->length,
                                 .n_fields = p->n_fields};
    for (uint32_t i = 0; i < p->n_fields; i++)
        out->fields[i] = (struct http_field){.name = p->head.data + p->fields[i].name,
                                             .value = p->head.data + p->fields[i].value};
}

bool http_parser_has_begun(const struct http_parser *p)
{
    return p->state != STATE_LINE || p->has_cr || p->has_skipped_line || p->head.len > 0;
}

void http_parser_reset(struct http_parser *p)
{
    buf_release(&p->head);
    buf_release(&p->trailer);
    *p = (struct http_parser){0};
}

/* ---- lines ---- */

static bool is_line_char(char c)
{
    return ((unsigned char)c >= 0x20 && c != 0x7f) || c == '\t';
}

/* Bytes up to the end of a line, without it: HTTP_END when the line is complete, HTTP_MORE when
 * the bytes are used up. `max`: of b; `status`: of what is longer. */
static enum http_event take_line(struct http_parser *p, const char **at, const char *end,
                                 struct buf *b, size_t max, int status, const char *why)
{
    while (*at < end) {
        const size_t room = max > b->len ? max - b->len : 0;
        const char *from = *at;

        while (*at < end && !p->has_cr && is_line_char(**at))
            (*at)++;
        if ((size_t)(*at - from) > room)
            return bad(p, status, why);
        if (*at > from && buf_add(b, from, (size_t)(*at - from)) < 0)
            return bad(p, 503, "there is no memory for the request's head");
        if (*at == end)
            break;
        const char c = *(*at)++;

        if (p->has_cr && c == '\n') {
            p->has_cr = false;
            return HTTP_END;
        }
        if (p->has_cr || c != '\r')
            return bad(p, 400, "a line must end with CR LF and have no other control characters");
        p->has_cr = true;
    }
    return HTTP_MORE;
}

/* The text of a line becomes name and value, in place. */
static bool split_field(char *text, const char **name, const char **value)
{
    char *colon = strchr(text, ':');
    char *last = text + strlen(text);

    if (colon == NULL || !http_is_token(text, (size_t)(colon - text)))
        return false;
    *colon++ = '\0';
    colon += strspn(colon, " \t");
    while (last > colon && (last[-1] == ' ' || last[-1] == '\t'))
        last--;
    *last = '\0';
    *name = text;
    *value = colon;
    return true;
}

/* ---- the head ---- */

static enum http_event parse_request_line(struct http_parser *p)
{
    char *text = p->head.data + p->line;
    char *target = strchr(text, ' ');
    char *version = target != NULL ? strchr(target + 1, ' ') : NULL;

    if (version == NULL || !http_is_token(text, (size_t)(target - text)))
        return bad(p, 400, "the request line must be a method, a target and HTTP/1.1");
    *target++ = '\0';
    *version++ = '\0';
    if (!http_is_version(version))
        return bad(p, 400, "the request line must be a method, a target and HTTP/1.1");
    if (strcmp(version, "HTTP/1.0") != 0 && strcmp(version, "HTTP/1.1") != 0)
        return bad(p, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    if (strcmp(text, "CONNECT") == 0)
        return bad(p, 501, "there are no tunnels here");
    p->is_http_10 = version[7] == '0';
    p->method = p->line;
    p->line = p->head.len;
    p->state = STATE_FIELD;
    return HTTP_MORE;
}

/* The end of a line of the head: its NUL, which stands for CR LF. */
static bool end_line(struct http_parser *p)
{
    return buf_add_char(&p->head, '\0') == 0;
}

static enum http_event take_request_line(struct http_parser *p, const char **at, const char *end)
{
    enum http_event e;

    if (p->head.max == 0)
        buf_init(&p->head, HTTP_MAX_HEAD + 2);
    e = take_line(p, at, end, &p->head, HTTP_MAX_LINE, 414, "the request line is too long");
    if (e != HTTP_END)
        return e;
    if (p->head.len == 0 && !p->has_skipped_line) {
        p->has_skipped_line = true;
        return HTTP_MORE;
    }
    if (!end_line(p))
        return bad(p, 503, "there is no memory for the request's head");
    return parse_request_line(p);
}

static enum http_event add_field(struct http_parser *p)
{
    struct http_parser_field *f = &p->fields[p->n_fields];
    const char *name, *value;

    if (p->n_fields == HTTP_MAX_FIELDS)
        return bad(p, 431, "the request has too many header fields");
    if (!end_line(p))
        return bad(p, 431, "the request's headers are too large");
    if (!split_field(p->head.data + p->line, &name, &value))
        return bad(p, 400, "a header field must be a name, a colon and a value, on one line");
    f->name = (uint16_t)(name - p->head.data);
    f->value = (uint16_t)(value - p->head.data);
    p->n_fields++;
    p->line = p->head.len;
    return HTTP_MORE;
}

/* ---- what the head says of the request ---- */

static enum http_event check_host(struct http_parser *p)
{
    const uint32_t n = http_parser_count(p, "Host");
    const char *host = http_parser_field(p, "Host");

    if (n > 1 || (n == 0 && !p->is_http_10))
        return bad(p, 400, "a request must have one Host");
    if (host != NULL && !http_host_is_valid(host))
        return bad(p, 400, "the Host is not valid");
    if (p->target.host == NULL)
        p->target.host = host;
    return HTTP_MORE;
}

static enum http_event read_coding(struct http_parser *p)
{
    const char *coding = http_parser_field(p, "Transfer-Encoding");

    if (p->is_http_10)
        return bad(p, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (http_parser_count(p, "Transfer-Encoding") > 1 || http_parser_count(p, "Content-Length") > 0)
        return bad(p, 400, "a request has one Content-Length or one Transfer-Encoding");
    if (http_has_foreign_coding(coding))
        return bad(p, 501, "no transfer coding but chunked is known here");
    if (strcasecmp(coding, "chunked") != 0)
        return bad(p, 400, "Transfer-Encoding must be chunked");
    p->framing = HTTP_CHUNKED;
    return HTTP_MORE;
}

static enum http_event read_framing(struct http_parser *p)
{
    const char *length = http_parser_field(p, "Content-Length");

    if (http_parser_field(p, "Transfer-Encoding") != NULL)
        return read_coding(p);
    if (length == NULL)
        return HTTP_MORE;
    if (http_parser_count(p, "Content-Length") > 1)
        return bad(p, 400, "a request has one Content-Length or one Transfer-Encoding");
    if (!http_read_length(length, &p->length))
        return bad(p, 400, "Content-Length must be a number");
    p->framing = HTTP_LENGTH;
    p->left = p->length;
    return HTTP_MORE;
}

static void read_options(struct http_parser *p)
{
    const char *expect = http_parser_field(p, "Expect");

    p->keeps_alive = !p->is_http_10;
    for (uint32_t i = 0; i < p->n_fields; i++) {
        if (strcasecmp(p->head.data + p->fields[i].name, "Connection") != 0)
            continue;
        if (http_list_has(p->head.data + p->fields[i].value, "keep-alive"))
            p->keeps_alive = true;
    }
    for (uint32_t i = 0; i < p->n_fields; i++)
        if (strcasecmp(p->head.data + p->fields[i].name, "Connection") == 0 &&
            http_list_has(p->head.data + p->fields[i].value, "close"))
            p->keeps_alive = false;
    p->expects_continue =
        expect != NULL && !p->is_http_10 && strcasecmp(expect, "100-continue") == 0;
    p->has_bad_expectation = expect != NULL && !p->is_http_10 && !p->expects_continue;
}

static enum http_event end_head(struct http_parser *p)
{
    char *method = p->head.data + p->method;

    if (http_target_parse(&p->target, method + strlen(method) + 1, method) < 0) {
        p->target = (struct http_target){0};
        return bad(p, 400, "the request's target is not valid");
    }
    if (check_host(p) == HTTP_BAD || read_framing(p) == HTTP_BAD)
        return HTTP_BAD;
    read_options(p);
    p->state = p->framing == HTTP_CHUNKED                 ? STATE_CHUNK_SIZE
               : p->framing == HTTP_LENGTH && p->left > 0 ? STATE_LENGTH
                                                          : STATE_DONE;
    return HTTP_HEAD;
}

static enum http_event take_field(struct http_parser *p, const char **at, const char *end)
{
    const enum http_event e = take_line(p, at, end, &p->head, HTTP_MAX_HEAD, 431,
                                        "the request's headers are too large");

    if (e != HTTP_END)
        return e;
    return p->head.len > p->line ? add_field(p) : end_head(p);
}

/* ---- the body ---- */

static enum http_event take_data(struct http_parser *p, const char **at, const char *end,
                                 const char **body, size_t *n_body)
{
    const size_t n = (size_t)(end - *at);

    if (n == 0)
        return HTTP_MORE;
    *body = *at;
    *n_body = n < p->left ? n : (size_t)p->left;
    *at += *n_body;
    p->left -= *n_body;
    if (p->left == 0)
        p->state = p->state == STATE_LENGTH ? STATE_DONE : STATE_CHUNK_END;
    return HTTP_BODY;
}

static enum http_event size_byte(struct http_parser *p, char c)
{
    const int digit = hex_digit(c);

    if (digit >= 0) {
        if (p->left >> 59 != 0 || p->n_digits == 16)
            return bad(p, 400, "a chunk is too large");
        p->left = p->left * 16 + (uint64_t)digit;
        p->n_digits++;
        return HTTP_MORE;
    }
    if (p->n_digits == 0 || (c != '\r' && c != ';'))
        return bad(p, 400, "a chunk must begin with its size");
    p->n_digits = 0;
    p->n_extension = 0;
    p->extension = 0;
    p->state = c == ';' ? STATE_CHUNK_EXTENSION : STATE_CHUNK_LF;
    return HTTP_MORE;
}

static enum http_event extension_byte(struct http_parser *p, char c)
{
    if (c == '\r' && http_extension_may_end(p->extension)) {
        p->state = STATE_CHUNK_LF;
        return HTTP_MORE;
    }
    if (++p->n_extension > HTTP_MAX_EXTENSION || ++p->n_extensions > HTTP_MAX_EXTENSIONS)
        return bad(p, 400, "the extensions of chunks are too long");
    p->extension = http_extension_step(p->extension, c);
    return p->extension >= 0 ? HTTP_MORE : bad(p, 400, "the extension of a chunk is not valid");
}

static enum http_event chunk_byte(struct http_parser *p, char c)
{
    switch ((enum state)p->state) {
    case STATE_CHUNK_SIZE:
        return size_byte(p, c);
    case STATE_CHUNK_EXTENSION:
        return extension_byte(p, c);
    case STATE_CHUNK_LF:
        p->state = p->left > 0 ? STATE_CHUNK_DATA : STATE_TRAILER;
        return c == '\n' ? HTTP_MORE : bad(p, 400, "the line of a chunk must end with CR LF");
    case STATE_CHUNK_END:
        p->state = STATE_CHUNK_END_LF;
        return c == '\r' ? HTTP_MORE : bad(p, 400, "a chunk must end with CR LF");
    case STATE_CHUNK_END_LF:
        p->state = STATE_CHUNK_SIZE;
        return c == '\n' ? HTTP_MORE : bad(p, 400, "a chunk must end with CR LF");
    case STATE_LINE:
    case STATE_FIELD:
    case STATE_LENGTH:
    case STATE_CHUNK_DATA:
    case STATE_TRAILER:
    case STATE_DONE:
    case STATE_BAD:
        break;
    }
    return HTTP_BAD;
}

/* Trailers are checked and discarded: no handler reads one. */
static enum http_event check_trailer(struct http_parser *p)
{
    const char *name, *value;

    p->n_trailer_bytes += p->trailer.len;
    if (++p->n_trailers > HTTP_MAX_FIELDS)
        return bad(p, 431, "the request has too many trailers");
    if (!split_field(p->trailer.data, &name, &value))
        return bad(p, 400, "a trailer must be a name, a colon and a value, on one line");
    if (strcasecmp(name, "Content-Length") == 0 || strcasecmp(name, "Transfer-Encoding") == 0 ||
        strcasecmp(name, "Host") == 0)
        return bad(p, 400, "a trailer cannot frame the request");
    buf_clear(&p->trailer);
    return HTTP_MORE;
}

static enum http_event take_trailer(struct http_parser *p, const char **at, const char *end)
{
    enum http_event e;

    if (p->trailer.max == 0)
        buf_init(&p->trailer, HTTP_MAX_TRAILER + 1);
    e = take_line(p, at, end, &p->trailer, HTTP_MAX_TRAILER - p->n_trailer_bytes, 431,
                  "the request's trailers are too large");
    if (e != HTTP_END)
        return e;
    if (p->trailer.len > 0)
        return check_trailer(p);
    p->state = STATE_DONE;
    return HTTP_END;
}

/* One step: HTTP_MORE with bytes left means go on. */
static enum http_event step(struct http_parser *p, const char **at, const char *end,
                            const char **body, size_t *n_body)
{
    switch ((enum state)p->state) {
    case STATE_LINE:
        return take_request_line(p, at, end);
    case STATE_FIELD:
        return take_field(p, at, end);
    case STATE_LENGTH:
    case STATE_CHUNK_DATA:
        return take_data(p, at, end, body, n_body);
    case STATE_TRAILER:
        return take_trailer(p, at, end);
    case STATE_CHUNK_SIZE:
    case STATE_CHUNK_EXTENSION:
    case STATE_CHUNK_LF:
    case STATE_CHUNK_END:
    case STATE_CHUNK_END_LF:
        return chunk_byte(p, *(*at)++);
    case STATE_DONE:
    case STATE_BAD:
        break;
    }
    return HTTP_BAD;
}

enum http_event http_parser_next(struct http_parser *p, const char **at, const char *end,
                                 const char **body, size_t *n_body)
{
    enum http_event e = HTTP_MORE;

    if (p->state == STATE_DONE)
        return HTTP_END;
    if (p->state == STATE_BAD)
        return HTTP_BAD;
    while (*at < end && e == HTTP_MORE)
        e = step(p, at, end, body, n_body);
    return e;
}
