/* core/base/utf8.h - how much of the bytes at hand is well-formed UTF-8.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_BASE_UTF8_H
#define CORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum utf8_state { UTF8_BROKEN = 0, UTF8_PARTIAL, UTF8_WHOLE };

/* Are s[0..n) one whole character, the beginning of one, or neither? 1 <= n <= 4. */
enum utf8_state utf8_check(const uint8_t *s, size_t n);

/* Bytes of the well-formed character at s, 0 if there is none; n >= 1. */
size_t utf8_len(const uint8_t *s, size_t n);

#endif
