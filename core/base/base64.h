/* core/base/base64.h - bytes as base64 (RFC 4648, section 4), by GnuTLS.
 *
 * Thread: any.
 * Memory: a copy of the text while it is added.
 */
#ifndef CORE_BASE_BASE64_H
#define CORE_BASE_BASE64_H

#include "core/base/buf.h"

/* Append bytes[0..n) as text; without memory out->err is set. */
void base64_add(struct buf *out, const void *bytes, size_t n);

/* Append the bytes of text[0..n). ERR_FORMAT: not base64; ERR_LIMIT, ERR_NOMEM. */
int base64_decode(struct buf *out, const char *text, size_t n);

#endif
