/* core/base/log_impl.h - functions between log.c, which formats lines, and log_sink.c, which writes
 * them.
 *
 * The rest of the contract is in log.h.
 *
 * Thread: log_sink_put() any; the others the main thread.
 * Memory: see log.h.
 */
#ifndef CORE_BASE_LOG_IMPL_H
#define CORE_BASE_LOG_IMPL_H

#include <stddef.h>

#include "core/base/log.h"

/* Write to `fd` (borrowed) from now on. Not after log_start(). */
void log_sink_use(int fd);

/* Write or queue one line with its line end, at most LOG_LINE_MAX bytes. */
void log_sink_put(const char *line, size_t n);

/* Format a line as log_write() does, whatever the level is set to; returns its length. */
size_t log_format(char line[LOG_LINE_MAX], enum log_level level, const char *module,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
