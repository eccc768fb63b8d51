/* server/http/body_decoder.c - see body_decoder.h.
 *
 * Each library has three functions in the table of encodings: open, read, close. `is_complete` says
 * whether the bytes so far are a whole stream; the next byte then begins another gzip member or
 * zstd frame. zlib allocates through mem.h, and the sum of its allocations is its memory, because
 * inflate() frees nothing before its end. libzstd has its own allocator and says what it holds; its
 * stable interface has no other.
 *
 * libzstd may be built to read the formats that preceded RFC 8878, whose windows it does not limit:
 * zstd_check_magic() lets only frames of today's format reach it. It has two ways to decode, for
 * frames that it has whole and for pieces: the first START_BYTES of each frame are passed one by
 * one, so that all are decoded as pieces, with the same result however the body was cut.
 */
#include "server/http/body_decoder.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <strings.h>

#ifdef QUIRE_ZLIB
#include <zlib.h>
#endif
#ifdef QUIRE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

#define GZIP_BITS (15 + 16) /* inflateInit2(): a window of 32 KiB, in gzip's format */
#define ZLIB_BITS 15        /* the same in zlib's */
#define MAGIC_BYTES 4       /* bytes at the start of a zstd frame that tell its kind */
#define START_BYTES 18      /* most bytes of a frame's header */

enum decoder_fault { FAULT_DAMAGED = 0, FAULT_TRUNCATED, FAULT_AFTER_END };

struct body_encoding {
    const char *name, *alias;
    int bits; /* zlib's */
    int (*open)(struct body_decoder *d);
    int (*read)(struct body_decoder *d, const char **in, const char *end, char *out, size_t max,
                size_t *n_out);
    void (*close)(struct body_decoder *d);
};

struct body_decoder {
    const struct body_encoding *encoding;
    enum decoder_fault fault; /* what ERR_FORMAT means */
    bool is_complete;         /* no member or frame is under way, and at least one has ended */
    uint32_t n_ended;         /* members or frames that have ended */
#ifdef QUIRE_ZLIB
    z_stream zlib;
    uint64_t n_zlib; /* bytes that zlib has allocated */
#endif
#ifdef QUIRE_ZSTD
    ZSTD_DCtx *zstd;
    bool has_more;    /* the last call may have left bytes to write */
    bool is_skipped;  /* the frame has no content */
    unsigned n_start; /* bytes of the frame that were read, up to START_BYTES */
#endif
};

static int decoder_refuse(struct body_decoder *d, enum decoder_fault fault)
{
    d->fault = fault;
    return ERR_FORMAT;
}

/* ---- zlib ---- */

#ifdef QUIRE_ZLIB
static void *zlib_alloc(void *ud, uInt count, uInt bytes)
{
    struct body_decoder *d = ud;

    d->n_zlib += (uint64_t)count * bytes;
    return mem_calloc(count, bytes);
}

static void zlib_free(void *ud, void *p)
{
    (void)ud;
    mem_free(p);
}

static int zlib_open(struct body_decoder *d)
{
    d->zlib = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = d};
    return inflateInit2(&d->zlib, d->encoding->bits) == Z_OK ? 0 : ERR_NOMEM;
}

static void zlib_close(struct body_decoder *d)
{
    inflateEnd(&d->zlib);
}

/* Begin the next member of a gzip body. */
static int zlib_next_member(struct body_decoder *d)
{
    if (d->encoding->bits != GZIP_BITS)
        return decoder_refuse(d, FAULT_AFTER_END);
    d->is_complete = false;
    return inflateReset(&d->zlib) == Z_OK ? 0 : ERR_FORMAT;
}

static int zlib_result(struct body_decoder *d, int rc)
{
    if (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR) /* the last: there is no input */
        return 0;
    if (rc == Z_MEM_ERROR)
        return ERR_NOMEM;
    return decoder_refuse(d, d->n_ended > 0 && d->zlib.total_out == 0 ? FAULT_AFTER_END
                                                                      : FAULT_DAMAGED);
}

static int zlib_read(struct body_decoder *d, const char **in, const char *end, char *out,
                     size_t max, size_t *n_out)
{
    z_stream *z = &d->zlib;
    int rc = Z_STREAM_END, err = 0;

    assert(end - *in <= INT_MAX && max <= INT_MAX);
    z->next_in = (z_const Bytef *)*in;
    z->avail_in = (uInt)(end - *in);
    z->next_out = (Bytef *)out;
    z->avail_out = (uInt)max;
    while (err == 0 && rc == Z_STREAM_END && (z->avail_in > 0 || !d->is_complete)) {
        if (d->is_complete)
            err = zlib_next_member(d);
        if (err < 0)
            break;
        rc = inflate(z, Z_NO_FLUSH);
        d->is_complete = rc == Z_STREAM_END;
        d->n_ended += d->is_complete;
        err = zlib_result(d, rc);
        if (z->avail_out == 0)
            break;
    }
    *in = end - z->avail_in;
    *n_out = max - z->avail_out;
    return err;
}
#endif

/* ---- zstd ---- */

#ifdef QUIRE_ZSTD
static int zstd_open(struct body_decoder *d)
{
    d->zstd = ZSTD_createDCtx();
    if (d->zstd == NULL)
        return ERR_NOMEM;
    ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, BODY_DECODER_MAX_WINDOW_LOG);
    return 0;
}

static void zstd_close(struct body_decoder *d)
{
    ZSTD_freeDCtx(d->zstd);
}

/* Check the next byte, if it belongs to a frame's magic number. */
static int zstd_check_magic(struct body_decoder *d, char next)
{
    static const unsigned char frame[MAGIC_BYTES] = {0x28, 0xb5, 0x2f, 0xfd},
                               skipped[MAGIC_BYTES] = {0x50, 0x2a, 0x4d, 0x18};
    unsigned char byte = (unsigned char)next;

    if (d->n_start >= MAGIC_BYTES)
        return 0;
    if (d->n_start == 0) {
        if (byte >> 4 == 5) /* sixteen numbers mark frames to skip */
            byte = skipped[0];
        d->is_skipped = byte == skipped[0];
    }
    if (byte == (d->is_skipped ? skipped : frame)[d->n_start])
        return 0;
    return decoder_refuse(d, d->n_ended > 0 ? FAULT_AFTER_END : FAULT_DAMAGED);
}

static int zstd_result(struct body_decoder *d, size_t rc)
{
    switch (ZSTD_getErrorCode(rc)) {
    case ZSTD_error_no_error:
        return 0;
    case ZSTD_error_frameParameter_windowTooLarge:
        return ERR_LIMIT;
    case ZSTD_error_memory_allocation:
        return ERR_NOMEM;
    default:
        return decoder_refuse(d, FAULT_DAMAGED);
    }
}

/* Note what a call of libzstd returned: 0 is the end of a frame, all of which was written. */
static void zstd_note(struct body_decoder *d, size_t rc, size_t n_taken, bool is_full)
{
    d->is_complete = rc == 0;
    d->has_more = rc != 0 && is_full;
    d->n_ended += rc == 0;
    if (rc == 0)
        d->n_start = 0;
    else if (d->n_start < START_BYTES)
        d->n_start += (unsigned)n_taken;
}

static int zstd_read(struct body_decoder *d, const char **in, const char *end, char *out,
                     size_t max, size_t *n_out)
{
    ZSTD_outBuffer to = {out, max, 0};
    int err = 0;

    while (err == 0 && to.pos < max && (*in < end || d->has_more)) {
        const size_t left = (size_t)(end - *in);
        ZSTD_inBuffer from = {*in, left > 0 && d->n_start < START_BYTES ? 1 : left, 0};
        size_t rc;

        err = left > 0 ? zstd_check_magic(d, **in) : 0;
        if (err < 0)
            break;
        rc = ZSTD_decompressStream(d->zstd, &to, &from);
        *in += from.pos;
        err = zstd_result(d, rc);
        zstd_note(d, rc, from.pos, to.pos == max);
    }
    *n_out = to.pos;
    return err;
}
#endif

/* ---- the table ---- */

static const struct body_encoding encodings[] = {
#ifdef QUIRE_ZLIB
    {"gzip", "x-gzip", GZIP_BITS, zlib_open, zlib_read, zlib_close},
    {"deflate", "deflate", ZLIB_BITS, zlib_open, zlib_read, zlib_close},
#endif
#ifdef QUIRE_ZSTD
    {"zstd", "zstd", 0, zstd_open, zstd_read, zstd_close},
#endif
    {0},
};

const struct body_encoding *body_encoding_find(const char *name)
{
    for (const struct body_encoding *e = encodings; e->name != NULL; e++)
        if (strcasecmp(e->name, name) == 0 || strcasecmp(e->alias, name) == 0)
            return e;
    return NULL;
}

const char *body_encoding_names(void)
{
#if defined(QUIRE_ZLIB) && defined(QUIRE_ZSTD)
    return "gzip, deflate, zstd";
#elif defined(QUIRE_ZLIB)
    return "gzip, deflate";
#elif defined(QUIRE_ZSTD)
    return "zstd";
#else
    return "";
#endif
}

/* ---- the decoder ---- */

struct body_decoder *body_decoder_create(const struct body_encoding *encoding)
{
    struct body_decoder *d = mem_calloc(1, sizeof(*d));

    if (d == NULL)
        return NULL;
    d->encoding = encoding;
    if (encoding->open(d) < 0) {
        mem_free(d);
        return NULL;
    }
    return d;
}

void body_decoder_destroy(struct body_decoder *d)
{
    if (d == NULL)
        return;
    d->encoding->close(d);
    mem_free(d);
}

int body_decoder_read(struct body_decoder *d, const char **in, const char *end, char *out,
                      size_t max, size_t *n_out)
{
    return d->encoding->read(d, in, end, out, max, n_out);
}

int body_decoder_end(struct body_decoder *d)
{
    return d->is_complete ? 0 : decoder_refuse(d, FAULT_TRUNCATED);
}

static const char *fault_text(const struct body_decoder *d)
{
    switch (d->fault) {
    case FAULT_TRUNCATED:
        return d->n_ended > 0 ? "other bytes follow its end, or what follows it ends too early"
                              : "it ends too early";
    case FAULT_AFTER_END:
        return "other bytes follow its end";
    case FAULT_DAMAGED:
        break;
    }
    return "it is damaged, or compressed otherwise";
}

void body_decoder_explain(const struct body_decoder *d, int err, char *text, size_t n)
{
    const char *name = d->encoding->name;

    if (err == ERR_LIMIT)
        snprintf(text, n,
                 "Content-Encoding '%s': the body needs a window of more than %zu MiB; compress it "
                 "with a smaller one (a lower level), or send it uncompressed",
                 name, BODY_DECODER_MAX_WINDOW >> 20);
    else if (err == ERR_NOMEM)
        snprintf(text, n, "there is no memory to decode the request's body");
    else
        snprintf(text, n,
                 "Content-Encoding '%s': the body cannot be decoded, because %s; compress the "
                 "whole body once%s, or send it uncompressed",
                 name, fault_text(d),
                 strcasecmp(name, "deflate") == 0 ? " in zlib's format (RFC 1950)" : "");
}

uint64_t body_decoder_bytes(const struct body_decoder *d)
{
    uint64_t n = sizeof(*d);

#ifdef QUIRE_ZLIB
    n += d->n_zlib;
#endif
#ifdef QUIRE_ZSTD
    n += d->zstd != NULL ? ZSTD_sizeof_DCtx(d->zstd) : 0;
#endif
    return n;
}
