/* core/base/log.h - one event per line: time, level, module, then key=value.
 *
 * error = somebody must act; warn = a limit was hit; info = start, stop, a request
 * finished; debug = once a step. Never the text of prompts or answers. Units stand in
 * the key (ms=31). As JSON each line is an object with the same keys.
 *
 * Thread: any; a line is one write(2), so lines never interleave.
 * Memory: a line is formatted on the stack and cut at LOG_LINE_MAX bytes.
 */
#ifndef CORE_BASE_LOG_H
#define CORE_BASE_LOG_H

#include <stdbool.h>

#define LOG_LINE_MAX 1024

enum log_level { LOG_DEBUG = 0, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

/* What is written and how. Call before other threads start; default: info, plain, stderr. */
void log_setup(enum log_level level, bool as_json, int fd);

/* Is this level written? Lets a caller skip the work of composing a line. */
bool log_is_on(enum log_level level);

/* `format` gives key=value pairs separated by single blanks; a value that may hold blanks
 * or quotes goes through log_quote(). */
void log_write(enum log_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copy `text` into buf as a quoted value ("…" with \" \\ and control bytes escaped), cut to
 * fit. Returns buf. */
const char *log_quote(char *buf, unsigned long size, const char *text);

#define log_debug(module, ...) log_write(LOG_DEBUG, module, __VA_ARGS__)
#define log_info(module, ...) log_write(LOG_INFO, module, __VA_ARGS__)
#define log_warn(module, ...) log_write(LOG_WARN, module, __VA_ARGS__)
#define log_error(module, ...) log_write(LOG_ERROR, module, __VA_ARGS__)

#endif
