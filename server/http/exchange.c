/* server/http/exchange.c - see exchange.h.
 *
 * One allocation holds an exchange and the tail of its path; body and answer are growing buffers
 * whose memory is counted through http_hold(). The client's side (a connection or a local call)
 * calls the functions here in the order of exchange.h; handlers use it through http_call.c. `state`
 * decides what may still happen: only CALL_RECEIVING takes a body, and a refusal during it discards
 * the rest.
 *
 * An encoded body is decoded as it comes. A small piece may expand enormously: one call decodes at
 * most DECODED_AT_ONCE bytes and leaves the rest, in the client's buffer or in the decoder, to the
 * loop's next turn (`has_more`). All limits count decoded bytes.
 */
#include "server/http/exchange.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/hex.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/http/access_log.h"
#include "server/http/body_decoder.h"
#include "server/process/loop_guard.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* A refused body is read to its end, up to so many times its limit, so that the client gets the
 * answer instead of a reset. */
#define DISCARD_FACTOR 4
/* Most bytes of a client's request id that is echoed. */
#define MAX_GIVEN_ID 128
/* Random bytes of a request id that the server makes. */
#define ID_BYTES 8
/* Most bytes of a body that its route receives in pieces and has not taken yet. */
#define MAX_PIECE ((size_t)1 << 20)
/* Bytes after which one call stops to decode a body, and bytes that are decoded before the limits
 * are checked again. */
#define DECODED_AT_ONCE ((size_t)256 << 10)
#define DECODED_PIECE ((size_t)16 << 10)

const struct http_route *exchange_route(const struct http_call *c)
{
    const struct http_options *o = &c->http->opt;

    return c->route < o->n_routes ? &o->routes[c->route] : NULL;
}

/* Return the next n random bytes; one call of the kernel serves many requests. Without entropy
 * (early in a boot) they are zeros, which suffices for an id. */
static const unsigned char *take_random(struct http_shared *h, size_t n)
{
    if (h->n_random < n) {
        if (getrandom(h->random, sizeof(h->random), GRND_NONBLOCK) < 0)
            memset(h->random, 0, sizeof(h->random));
        h->n_random = sizeof(h->random);
    }
    h->n_random -= n;
    return h->random + h->n_random;
}

/* Use the client's X-Request-Id if it can be echoed safely, else make one. */
static void choose_id(struct http_call *c)
{
    const char *given = http_call_header(c, "X-Request-Id");
    char digits[2 * ID_BYTES + 1];
    size_t n = 0;

    while (given != NULL && given[n] > 0x20 && given[n] < 0x7f)
        n++;
    if (n > 0 && n <= MAX_GIVEN_ID && given[n] == '\0') {
        memcpy(c->id, given, n + 1);
        return;
    }
    hex_write(digits, take_random(c->http, ID_BYTES), ID_BYTES);
    snprintf(c->id, sizeof(c->id), "req-%s", digits);
}

/* Split ?a=b&c=d into decoded pairs; a name without a value is dropped. */
static int read_query(struct http_call *c, const char *text)
{
    char *out = c->query = mem_alloc(strlen(text) + 2);

    if (out == NULL)
        return ERR_NOMEM;
    for (size_t n = 0; *text != '\0'; text += n + (text[n] == '&')) {
        char *equals;

        n = strcspn(text, "&");
        memcpy(out, text, n);
        out[n] = '\0';
        equals = strchr(out, '=');
        if (equals == NULL)
            continue;
        *equals++ = '\0';
        http_percent_decode(out, true);
        http_percent_decode(equals, true);
        memmove(out + strlen(out) + 1, equals, strlen(equals) + 1);
        out += strlen(out) + 1;
        out += strlen(out) + 1;
        c->n_query++;
    }
    return 0;
}

struct http_call *exchange_create(struct http_shared *h, void *client, void (*wake)(void *client),
                                  const struct http_request *request)
{
    const char *method = http_request_method(request), *path = request->target.path;
    const size_t n_tail = path != NULL ? strlen(path) : 0; /* an upper bound */
    struct http_call *c = mem_calloc(1, sizeof(*c) + n_tail + 1);

    if (c == NULL)
        return NULL;
    c->http = h;
    c->wake = wake;
    c->client = client;
    c->request = *request;
    c->tail = (char *)(c + 1);
    c->route = h->opt.n_routes;
    c->is_head = strcmp(method, "HEAD") == 0;
    c->closes = !request->keeps_alive;
    buf_init(&c->body, h->opt.max_body);
    buf_init(&c->out, HTTP_MAX_REPLY);
    if (request->target.query != NULL && read_query(c, request->target.query) < 0) {
        mem_free(c);
        return NULL;
    }
    choose_id(c);
    c->access = access_begin(c->id, method[0] != '\0' ? method : "-");
    return c;
}

void exchange_hold_memory(struct http_call *c)
{
    const uint64_t now = c->n_kept + c->n_decoder + c->out.cap;

    http_hold(c->http, (int64_t)(now - c->n_held), false);
    c->n_held = now;
}

void exchange_drop_owner(struct http_call *c)
{
    if (c->owner != NULL)
        c->release_owner(c->owner);
    c->owner = NULL;
}

void exchange_take_from_handler(struct http_call *c)
{
    assert(!c->is_out_of_hands);
    c->is_out_of_hands = true;
    c->gone = NULL;
    c->room = NULL;
    c->received = NULL;
}

/* Call the handler's `gone` callback, unless the handler has answered. */
static void tell_handler_gone(struct http_call *c)
{
    void (*gone)(void *ud) = c->gone;

    if (c->is_out_of_hands)
        return;
    exchange_take_from_handler(c);
    if (gone != NULL)
        gone(c->gone_ud);
}

static void drop_decoder(struct http_call *c)
{
    body_decoder_destroy(c->decoder);
    c->decoder = NULL;
    c->encoding = NULL;
    c->n_decoder = 0;
    exchange_hold_memory(c);
}

/* Count and log the exchange, and free it. Status 499: the client disconnected before there was an
 * answer (nginx's number). */
void exchange_end(struct http_call *c)
{
    const struct http_options *o = &c->http->opt;
    const int status = c->has_head_sent ? c->status : 499;

    tell_handler_gone(c);
    o->done(o->ud, c->route, status);
    access_end(c->access, c->route < o->n_routes ? o->routes[c->route].path : "other", status,
               c->n_sent);
    if (c->is_owed)
        c->http->n_owed--;
    buf_release(&c->body);
    buf_release(&c->out);
    c->n_kept = 0;
    drop_decoder(c);
    c->http->n_page_bytes -= c->n_page;
    exchange_drop_owner(c);
    mem_free(c->query);
    mem_free(c);
}

/* ---- the request ---- */

void exchange_refuse(struct http_call *c, int status, const char *code, const char *message)
{
    struct api_error e;

    tell_handler_gone(c); /* a handler may have begun to receive the body */
    api_error_set(&e, status, NULL, code, "%s", message);
    c->is_discarding = true;
    drop_decoder(c);
    exchange_answer_error(c, &e);
}

uint64_t exchange_max_body(const struct http_call *c)
{
    const struct http_route *route = exchange_route(c);
    const uint64_t max = c->http->opt.max_body;

    if (route == NULL || !http_call_is(c, HTTP_POST))
        return max;
    if (route->receive != NULL)
        return c->http->opt.max_upload;
    return route->max_body > 0 && route->max_body < max ? route->max_body : max;
}

/* Refuse the body as too large; the rest of it is discarded. */
void exchange_refuse_body(struct http_call *c)
{
    char why[100];

    snprintf(why, sizeof(why), "the request's body is too large: this path takes %" PRIu64 " bytes",
             exchange_max_body(c));
    exchange_refuse(c, 413, NULL, why);
}

static bool is_in_pieces(const struct http_call *c)
{
    const struct http_route *route = exchange_route(c);

    return route != NULL && route->receive != NULL;
}

/* True: the body's bytes are kept. A refused body is discarded, and a GET's is read and dropped. */
static bool is_body_kept(const struct http_call *c)
{
    const struct http_route *route = exchange_route(c);

    return !c->is_discarding && c->state == CALL_RECEIVING &&
           (route == NULL || (route->methods & HTTP_GET) == 0 || http_call_is(c, HTTP_POST));
}

/* Pass the bytes that have come to a route that receives its body in pieces. */
static void pass_body_on(struct http_call *c)
{
    const struct http_options *o = &c->http->opt;

    if (!is_in_pieces(c))
        return;
    exchange_route(c)->receive(o->ud, c);
    c->is_discarding = c->state != CALL_RECEIVING;
}

/* Count n bytes more of a body or its decoder. False: there is no room, and the request is
 * refused. */
static bool hold_more(struct http_call *c, uint64_t n)
{
    if (!http_hold(c->http, (int64_t)n, true)) {
        exchange_refuse(c, 429, "request_memory",
                        "the memory for requests (request_memory) is in use");
        return false;
    }
    c->n_held += n;
    return true;
}

/* Keep bytes of the body. False: the request is refused. */
static bool keep_body(struct http_call *c, const char *bytes, size_t n)
{
    const uint64_t max = exchange_max_body(c);

    if (!hold_more(c, n))
        return false;
    c->n_kept += n;
    c->n_body += n;
    c->body.max = is_in_pieces(c) ? MAX_PIECE : max;
    if (c->n_body > max || (buf_add(&c->body, bytes, n) < 0 && c->body.err == ERR_LIMIT))
        exchange_refuse_body(c);
    else if (c->body.err < 0)
        exchange_refuse(c, 503, NULL, "there is no memory for the request's body");
    else
        return true;
    return false;
}

/* ---- an encoded body ---- */

static void refuse_encoded(struct http_call *c, int err)
{
    char why[300];

    body_decoder_explain(c->decoder, err, why, sizeof(why));
    exchange_refuse(c, err == ERR_NOMEM ? 503 : 400, NULL, why);
}

/* Create the decoder with the body's first bytes, so that a head alone costs no memory. False:
 * there is none, and the request is refused. */
static bool begin_decoder(struct http_call *c)
{
    if (c->decoder == NULL)
        c->decoder = body_decoder_create(c->encoding);
    if (c->decoder == NULL)
        exchange_refuse(c, 503, NULL, "there is no memory to decode the request's body");
    return c->decoder != NULL;
}

/* Decode and keep up to DECODED_PIECE bytes; *n_out: their number. False: the request is refused:
 * as too large, if bytes before damaged ones already are. */
static bool decode_piece(struct http_call *c, const char **in, const char *end, size_t *n_out)
{
    char out[DECODED_PIECE];
    const int err = body_decoder_read(c->decoder, in, end, out, sizeof(out), n_out);
    const uint64_t before = c->n_decoder, now = body_decoder_bytes(c->decoder);

    if (now > before && !hold_more(c, now - before))
        return false;
    c->n_decoder = now;
    exchange_hold_memory(c);
    if (*n_out > 0 && !keep_body(c, out, *n_out))
        return false;
    if (err < 0)
        refuse_encoded(c, err);
    return err == 0;
}

/* Decode bytes of the body, and keep or pass on what they become. Returns the number of bytes that
 * were not taken. */
static size_t decode_body(struct http_call *c, const char *bytes, size_t n)
{
    const char *in = bytes, *end = bytes + n;
    size_t n_out = DECODED_PIECE, sum = 0;

    if (!begin_decoder(c))
        return 0;
    for (; n_out == DECODED_PIECE && sum < DECODED_AT_ONCE; sum += n_out)
        if (!decode_piece(c, &in, end, &n_out))
            return 0;
    c->has_more = n_out == DECODED_PIECE;
    if (sum > 0)
        pass_body_on(c);
    return (size_t)(end - in);
}

/* Take bytes of the body. */
int exchange_receive(struct http_call *c, const char *bytes, size_t *n)
{
    const size_t given = *n;

    *n = 0;
    c->has_more = false;
    c->n_received += given;
    if (c->n_received / DISCARD_FACTOR > exchange_max_body(c)) {
        if (c->state == CALL_RECEIVING) /* the handler may have answered already */
            exchange_refuse_body(c);
        return ERR_LIMIT;
    }
    if (!is_body_kept(c))
        return 0;
    if (c->encoding != NULL) {
        *n = decode_body(c, bytes, given);
        c->n_received -= *n;
    } else if (keep_body(c, bytes, given)) {
        pass_body_on(c);
    }
    return 0;
}

void exchange_finish_body(struct http_call *c)
{
    c->has_more = false;
    if (c->encoding == NULL || !is_body_kept(c))
        return;
    decode_body(c, "", 0);
    if (c->has_more || c->is_paused || !is_body_kept(c))
        return;
    if (body_decoder_end(c->decoder) < 0)
        refuse_encoded(c, ERR_FORMAT);
    else
        drop_decoder(c);
}

void exchange_dispatch(struct http_call *c)
{
    const struct http_options *o = &c->http->opt;

    if (c->state != CALL_RECEIVING)
        return;
    c->state = CALL_WAITING;
    c->is_owed = true;
    c->http->n_owed++;
    c->arrival_us = clock_us();
    LOOP_PART(o->loop, o->routes[c->route].path);
    o->routes[c->route].handle(o->ud, c);
    /* a handler that answers later must have set a callback for its client's disconnect */
    assert(c->state != CALL_WAITING || c->gone != NULL);
}

/* ---- the answer ---- */

/* Release the answer's buffer, or keep a small one. Called when all its bytes have been passed to
 * the client's side. */
static void forget_out(struct http_call *c)
{
    if (c->out_pos < c->out.len)
        return;
    c->out_pos = 0;
    if (c->out.cap > EXCHANGE_KEEPS)
        buf_release(&c->out);
    else
        buf_clear(&c->out);
    exchange_hold_memory(c);
}

size_t exchange_read(struct http_call *c, char *out, size_t max)
{
    const size_t left = c->out.len - c->out_pos, n = left < max ? left : max;

    if (n == 0)
        return 0;
    memcpy(out, c->out.data + c->out_pos, n);
    c->out_pos += n;
    c->n_sent += n;
    forget_out(c);
    return n;
}

bool exchange_is_complete(const struct http_call *c)
{
    return c->state != CALL_STREAMING && c->out_pos == c->out.len;
}
