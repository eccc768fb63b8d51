/* core/base/ini_line.h - reads the lines of a settings file for inih.
 *
 * It prevents four mistakes of inih: that cuts long lines in two, ends a line at a NUL, takes
 * leading blanks (any that isspace() knows) for the continuation of the line before, and skips a
 * byte order mark before its caller has seen the line.
 *
 * Thread: any. Memory: none.
 */
#ifndef CORE_BASE_INI_LINE_H
#define CORE_BASE_INI_LINE_H

#include <stdbool.h>
#include <stdio.h>

/* Read the next line, without its end, leading blanks and, in the file's first line, byte order
 * marks. 1; 0 at the end of the file; ERR_LIMIT: it has more than `size` - 2 bytes; ERR_FORMAT:
 * there is a NUL in it; ERR_IO with errno set. */
int ini_line_read(char *buf, int size, FILE *file, bool is_first);

#endif
