/* core/base/file_stem.c - see file_stem.h.
 *
 * The stem is cut out of the path without a copy: first the last name, then ".gguf", then a suffix
 * like -00001-of-00003, so that all parts of a split model have the same name.
 */
#include "core/base/file_stem.h"

#include <stdio.h>
#include <string.h>

/* Find the last name of a path. Slashes at its end are not part of a name, unless it is only
 * slashes. */
static size_t last_name(const char *path, size_t *at)
{
    size_t end = strlen(path), start;

    while (end > 1 && path[end - 1] == '/')
        end--;
    start = end > 0 ? end - 1 : 0;
    while (start > 0 && path[start - 1] != '/')
        start--;
    *at = start;
    return end - start;
}

size_t file_stem(const char *path, const char **stem)
{
    unsigned no, count;
    int end = 0;
    size_t at, len = last_name(path, &at);
    const char *name = path + at;

    if (len > 5 && memcmp(name + len - 5, ".gguf", 5) == 0)
        len -= 5;
    if (len > 15 && sscanf(name + len - 15, "-%5u-of-%5u%n", &no, &count, &end) == 2 && end == 15)
        len -= 15;
    *stem = name;
    return len;
}
