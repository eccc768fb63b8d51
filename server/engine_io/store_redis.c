/* server/engine_io/store_redis.c - records as values of a Redis or Valkey server; see
 * store_backend.h.
 *
 * The key of a record is quire:kv:NAME. The server's maxmemory and maxmemory-policy (allkeys-lru)
 * decide how many records are kept, and which are evicted. After an error the connection is closed,
 * and opened again after a pause that doubles from a second to half a minute; until then every call
 * returns ERR_BUSY at once.
 *
 * The server is not trusted: an answer that is a list, that is longer than what was asked for, or
 * that takes too long for its size, is an error. hiredis would accept all of these.
 */
#include "server/engine_io/store_redis.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/engine_io/store_backend.h"
#include "server/engine_io/store_place.h"

#include <stdio.h>
#include <string.h>

#ifdef QUIRE_HIREDIS
#include <hiredis.h>
#include <stdarg.h>

#define KEY "quire:kv:%s"
#define FIRST_PAUSE_MS 1000
#define LONGEST_PAUSE_MS 30000
#define MORE_BYTES ((size_t)64 << 10) /* bytes of an answer besides its value: words, errors,
                                       * lengths */
#define BYTES_PER_MS 4096             /* least speed of a network for which a block store is
                                       * useful */

struct store_redis {
    struct store_backend base;
    const struct store_place *place;
    redisContext *c; /* NULL: not connected */
    redisReplyObjectFunctions answers;
    uint64_t retry_at_ms; /* time before which it is not opened again; 0: any time */
    uint64_t pause_ms;
};

bool store_redis_is_built(void)
{
    return true;
}

/* ---- the connection ---- */

static int fail_redis(struct store_redis *r, const char *what, const char *why)
{
    snprintf(r->base.why, sizeof(r->base.why), "%s: %.120s", what, why);
    redisFree(r->c); /* NULL is allowed; the state of the connection is unknown */
    r->c = NULL;
    r->pause_ms = r->pause_ms == 0                    ? FIRST_PAUSE_MS
                  : r->pause_ms * 2 < LONGEST_PAUSE_MS ? r->pause_ms * 2
                                                       : LONGEST_PAUSE_MS;
    r->retry_at_ms = clock_ms() + r->pause_ms;
    return ERR_IO;
}

/* Refuse lists: no answer to the commands used here is one, and "*1000000000" would make hiredis
 * allocate memory for it. */
#if HIREDIS_MAJOR > 0
static void *refuse_list(const redisReadTask *task, size_t n)
#else
static void *refuse_list(const redisReadTask *task, int n)
#endif
{
    (void)task, (void)n;
    return NULL;
}

/* Send the commands that were appended. */
static int send_all(struct store_redis *r, const char *what, uint64_t end_ms)
{
    int is_sent = 0;

    while (!is_sent) {
        if (redisBufferWrite(r->c, &is_sent) != REDIS_OK)
            return fail_redis(r, what, r->c->errstr);
        if (!is_sent && clock_ms() > end_ms)
            return fail_redis(r, what, "the server takes the command too slowly");
    }
    return 0;
}

/* Receive the next answer of at most `most` bytes. NULL: it failed, with the reason in base.why. */
static redisReply *receive_reply(struct store_redis *r, const char *what, size_t most,
                                 uint64_t end_ms)
{
    const redisReader *reader = r->c->reader;
    const char *why = NULL;
    void *got = NULL;
    redisReply *a;

    while (why == NULL && got == NULL) {
        if (redisReaderGetReply(r->c->reader, &got) != REDIS_OK)
            why = reader->err == REDIS_ERR_OOM ? "the answer is a list, or takes more memory than "
                                                 "there is"
                                               : reader->errstr;
        else if (got == NULL && reader->len - reader->pos > most)
            why = "the answer is longer than what was asked for";
        else if (got == NULL && clock_ms() > end_ms)
            why = "the answer comes too slowly";
        else if (got == NULL && redisBufferRead(r->c) != REDIS_OK)
            why = r->c->errstr;
    }
    a = got;
    if (a != NULL && a->type == REDIS_REPLY_ERROR)
        why = a->str;
    if (why == NULL)
        return a;
    (void)fail_redis(r, what, why);
    if (a != NULL)
        freeReplyObject(a);
    return NULL;
}

/* Return the time by which a command and its answer, of `bytes` bytes together, must be
 * complete. */
static uint64_t reply_end(const struct store_redis *r, size_t bytes)
{
    return clock_ms() + r->place->timeout_ms + bytes / BYTES_PER_MS;
}

/* Send one command and receive its answer; `bytes`: of the value in either. NULL: it failed. */
static redisReply *ask_redis(struct store_redis *r, const char *what, size_t bytes,
                             const char *format, ...)
{
    const uint64_t end_ms = reply_end(r, bytes);
    va_list args;
    int rc;

    va_start(args, format);
    rc = redisvAppendCommand(r->c, format, args);
    va_end(args);
    if (rc != REDIS_OK)
        return (void)fail_redis(r, what, r->c->errstr), NULL;
    return send_all(r, what, end_ms) == 0 ? receive_reply(r, what, bytes + MORE_BYTES, end_ms)
                                          : NULL;
}

static int done(redisReply *reply)
{
    if (reply == NULL)
        return ERR_IO;
    freeReplyObject(reply);
    return 0;
}

static int greet(struct store_redis *r)
{
    const struct store_place *p = r->place;
    int rc = 0;

    if (p->password[0] != '\0' && p->user[0] != '\0')
        rc = done(ask_redis(r, "AUTH", 0, "AUTH %s %s", p->user, p->password));
    else if (p->password[0] != '\0')
        rc = done(ask_redis(r, "AUTH", 0, "AUTH %s", p->password));
    if (rc == 0 && p->db != 0)
        rc = done(ask_redis(r, "SELECT", 0, "SELECT %u", p->db));
    return rc;
}

static int connect_now(struct store_redis *r)
{
    const struct store_place *p = r->place;
    const struct timeval timeout = {p->timeout_ms / 1000, p->timeout_ms % 1000 * 1000};

    if (r->c != NULL)
        return 0;
    if (clock_ms() < r->retry_at_ms)
        return ERR_BUSY;
    r->c = redisConnectWithTimeout(p->address, p->port, timeout);
    if (r->c == NULL || r->c->err != 0)
        return fail_redis(r, "cannot connect", r->c != NULL ? r->c->errstr : "no memory");
    if (redisSetTimeout(r->c, timeout) != REDIS_OK)
        return fail_redis(r, "cannot set a timeout", r->c->errstr);
    r->answers = *r->c->reader->fn;
    r->answers.createArray = refuse_list;
    r->c->reader->fn = &r->answers;
    (void)redisEnableKeepAlive(r->c);
    return greet(r);
}

/* Called when an answer has come: reset the pause. */
static void went_well(struct store_redis *r)
{
    r->pause_ms = r->retry_at_ms = 0;
}

/* ---- records ---- */

static int redis_count(struct store_backend *b, const store_name *names, uint32_t n)
{
    struct store_redis *r = (struct store_redis *)b;
    const uint64_t end_ms = reply_end(r, 0);
    int rc = connect_now(r);
    uint32_t n_there = 0;
    bool goes_on = true;

    for (uint32_t i = 0; i < n && rc == 0; i++)
        if (redisAppendCommand(r->c, "EXISTS " KEY, names[i]) != REDIS_OK)
            rc = fail_redis(r, "EXISTS", r->c->errstr);
    if (rc == 0)
        rc = send_all(r, "EXISTS", end_ms);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        redisReply *a = receive_reply(r, "EXISTS", MORE_BYTES, end_ms);

        if (a == NULL)
            return ERR_IO;
        goes_on = goes_on && a->type == REDIS_REPLY_INTEGER && a->integer == 1;
        n_there += goes_on;
        freeReplyObject(a);
    }
    went_well(r);
    return (int)n_there;
}

static int64_t redis_get(struct store_backend *b, const char *name, uint8_t *buf, size_t size)
{
    struct store_redis *r = (struct store_redis *)b;
    const int rc = connect_now(r);
    redisReply *a;
    int64_t n = ERR_NOENT;

    if (rc < 0)
        return rc;
    a = ask_redis(r, "GET", size, "GET " KEY, name);
    if (a == NULL)
        return ERR_IO;
    if (a->type == REDIS_REPLY_STRING) {
        n = (int64_t)((size_t)a->len <= size ? (size_t)a->len : size + 1);
        memcpy(buf, a->str, (size_t)a->len <= size ? (size_t)a->len : size);
    }
    freeReplyObject(a);
    went_well(r);
    return n;
}

static int redis_put(struct store_backend *b, const char *name, const uint8_t *bytes, size_t n)
{
    struct store_redis *r = (struct store_redis *)b;
    int rc = connect_now(r);

    if (rc == 0)
        rc = done(ask_redis(r, "SET", n, "SET " KEY " %b", name, bytes, n));
    if (rc == 0)
        went_well(r);
    return rc;
}

static int redis_remove(struct store_backend *b, const char *name)
{
    struct store_redis *r = (struct store_redis *)b;
    const int rc = connect_now(r);

    return rc < 0 ? rc : done(ask_redis(r, "DEL", 0, "DEL " KEY, name));
}

/* Reconnect if there is no connection and the pause is over. */
static int redis_tidy(struct store_backend *b, uint64_t *bytes)
{
    struct store_redis *r = (struct store_redis *)b;
    int rc;

    *bytes = 0;
    if (r->c != NULL)
        return 0;
    rc = connect_now(r);
    if (rc == 0)
        rc = done(ask_redis(r, "PING", 0, "PING"));
    if (rc == 0)
        went_well(r);
    return rc;
}

/* ---- opening ---- */

static void redis_close(struct store_backend *b)
{
    struct store_redis *r = (struct store_redis *)b;

    redisFree(r->c);
    mem_free(r);
}

int store_redis_open(struct store_backend **out, const struct store_place *place)
{
    static const struct store_backend_ops ops = {redis_count,  redis_get,  redis_put,
                                                 redis_remove, redis_tidy, redis_close};
    struct store_redis *r = mem_calloc(1, sizeof(*r));

    *out = NULL;
    if (r == NULL)
        return ERR_NOMEM;
    r->base.ops = &ops;
    r->place = place;
    *out = &r->base;
    return 0;
}

int store_redis_secret(const struct store_place *place, const char *offered, char *secret,
                       size_t size, char *why, size_t why_len)
{
    struct store_redis r = {.place = place};
    redisReply *a = NULL;
    int rc = connect_now(&r);

    if (rc == 0)
        rc = done(ask_redis(&r, "SET", 0, "SET quire:secret %s NX", offered));
    if (rc == 0)
        a = ask_redis(&r, "GET", 0, "GET quire:secret");
    if (rc == 0 && (a == NULL || a->type != REDIS_REPLY_STRING))
        rc = ERR_IO;
    if (rc == 0)
        snprintf(secret, size, "%s", a->str);
    snprintf(why, why_len, "%s", r.base.why[0] != '\0' ? r.base.why : "it keeps no keys");
    if (a != NULL)
        freeReplyObject(a);
    redisFree(r.c);
    return rc;
}

#else
bool store_redis_is_built(void)
{
    return false;
}

int store_redis_open(struct store_backend **out, const struct store_place *place)
{
    (void)place;
    *out = NULL;
    return ERR_UNSUPPORTED;
}

int store_redis_secret(const struct store_place *place, const char *offered, char *secret,
                       size_t size, char *why, size_t why_len)
{
    (void)place, (void)offered, (void)secret, (void)size;
    snprintf(why, why_len, "built without hiredis");
    return ERR_UNSUPPORTED;
}
#endif
