/* core/formats/gguf/str.h - a string of a GGUF file.
 *
 * Thread: any.
 * Memory: borrowed from the file.
 */
#ifndef CORE_FORMATS_GGUF_STR_H
#define CORE_FORMATS_GGUF_STR_H

#include <stddef.h>

struct gguf_str { /* not NUL-terminated; may hold any bytes */
    const char *data;
    size_t len;
};

#endif
