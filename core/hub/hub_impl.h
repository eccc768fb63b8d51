/* core/hub/hub_impl.h - limits and error functions that the files of core/hub share.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_HUB_HUB_IMPL_H
#define CORE_HUB_HUB_IMPL_H

#include <stddef.h>

#define HUB_MAX_URL 4096
#define HUB_HASH_TEXT 65 /* SHA-256 in hexadecimal digits, and the NUL */

/* Write the sentence to `err` and return rc. */
int hub_fail(int rc, char *err, size_t err_len, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Make a text from outside fit for messages: bytes that are not printable ASCII become '?'. Returns
 * dst. */
const char *hub_printable(char *dst, size_t size, const char *text);

#endif
