/* core/json/json_scan.h - scans a JSON text byte by byte, as it arrives.
 *
 * Tells where values and names begin and end, and which byte is not allowed where it is, without
 * keeping any of them. It accepts the same texts as json_parse(): control characters in strings,
 * but no \u0000, no half of a surrogate pair, no depth beyond JSON_MAX_DEPTH. The caller checks
 * that the text is UTF-8.
 *
 * Thread: one owner.
 * Memory: none but the struct.
 */
#ifndef CORE_JSON_JSON_SCAN_H
#define CORE_JSON_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/json/json.h"

enum json_event {               /* several events of one byte are or-ed */
    JSON_EVENT_BAD = 1,         /* the byte is not allowed here; all bytes after it are bad too */
    JSON_EVENT_BEGIN = 2,       /* the first byte of a value */
    JSON_EVENT_END = 4,         /* the last byte of a value */
    JSON_EVENT_ENDED = 8,       /* a number ended with the previous byte */
    JSON_EVENT_OPEN_NAME = 16,  /* the quote before a member's name */
    JSON_EVENT_CLOSE_NAME = 32, /* the quote after a member's name */
};

struct json_scan {
    uint8_t state;
    uint8_t n_digits;    /* digits of \uXXXX so far */
    uint8_t n_literal;   /* letters of true, false, null so far */
    char literal;        /* first letter of that literal */
    bool is_name;        /* the string is a member's name */
    uint16_t unit, high; /* UTF-16 units; `high`: the first half of a pair, or 0 */
    uint32_t depth;      /* objects and lists that are open */
    uint8_t objects[(JSON_MAX_DEPTH + 7) / 8]; /* a bit for each open container: 1: object, 0:
                                                * list */
};

void json_scan_init(struct json_scan *s);

/* Scan the next byte. Returns its json_events, or-ed. */
unsigned json_scan_byte(struct json_scan *s, char c);

/* True: the next byte is inside a string and not part of an escape. */
bool json_scan_is_in_string(const struct json_scan *s);

/* Append the object or list text[0..n), which may be cut anywhere, and close it: a string that was
 * cut ends there, a member without its whole value is left out, and so is a number that might have
 * more digits. A text that begins no object or list gives "{}". 0 or ERR_*. */
int json_add_closed(struct buf *out, const char *text, size_t n);

#endif
