/* core/base/ini_line.c - see ini_line.h.
 *
 * A line is read byte by byte, so that a NUL and a length beyond inih's buffer are errors instead
 * of silent cuts; then leading blanks and byte order marks, in any order, are removed. The reader
 * functions that inih calls for settings and key files are thin wrappers of it.
 */
#include "core/base/ini_line.h"

#include "core/base/err.h"

#include <ctype.h>
#include <string.h>

static const char mark[] = "\xEF\xBB\xBF";

/* Return the bytes before the line's text. */
static size_t n_leading(const char *line, bool is_first)
{
    size_t n = 0, more;

    do {
        more = is_first && strncmp(line + n, mark, 3) == 0 ? 3 : 0;
        more += isspace((unsigned char)line[n + more]) != 0;
        n += more;
    } while (more > 0);
    return n;
}

int ini_line_read(char *buf, int size, FILE *file, bool is_first)
{
    int n = 0, c;
    size_t skip;

    while ((c = getc(file)) != EOF && c != '\n') {
        if (c == '\0')
            return ERR_FORMAT;
        if (n == size - 2)
            return ERR_LIMIT;
        buf[n++] = (char)c;
    }
    if (c == EOF && ferror(file) != 0)
        return ERR_IO;
    if (c == EOF && n == 0)
        return 0;
    buf[n] = '\0';
    skip = n_leading(buf, is_first);
    memmove(buf, buf + skip, (size_t)n + 1 - skip);
    return 1;
}
