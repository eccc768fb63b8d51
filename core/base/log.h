/* core/base/log.h - one event per line: time, level, module, then key=value.
 *
 * error = the operator must act; warn = a limit was hit; info = start, stop, a request
 * finished; debug = once a step. Never the text of prompts or answers. Units stand in
 * the key (ms=31). As JSON each line is an object with the same keys.
 *
 * Until log_start(), and in commands that never call it, a line is written by the thread that logs
 * it. Afterwards it goes into a bounded ring (log_ring.h), and a thread of its own writes it: a
 * blocked reader, a full disk or a slow terminal stops no other thread. A line that finds the ring
 * full, or cannot be written, is dropped and counted; the next line that can be written is followed
 * by one with the count.
 *
 * Thread: any; a line is one write(2), so lines never interleave. Setup, start and stop: the main
 * thread.
 * Memory: a line is formatted on the stack and cut at LOG_LINE_MAX bytes. The ring: 1 MB.
 */
#ifndef CORE_BASE_LOG_H
#define CORE_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_MAX 1024
#define LOG_THREAD_NAME "log" /* the thread sleeps when all is written; tests wait for that */

enum log_level { LOG_DEBUG = 0, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

/* Set what is written, and how. Call before other threads start; default: info, plain, stderr. */
void log_setup(enum log_level level, bool as_json, int fd);

/* Write log lines to a file instead: it is created with 0640 if missing, appended to, and never
 * opened through a symbolic link. ERR_IO with a sentence in `err`. `path` is copied. */
int log_open_file(const char *path, char *err, size_t err_len);

/* Start the thread that writes the lines. ERR_NOMEM or ERR_INTERNAL: callers keep writing them. */
int log_start(void);

/* Open the file again by its path, so that the old one may be renamed. No line is lost: lines in
 * the ring go to one of the two files. If the file cannot be opened, the old one stays in use, and
 * a log line says so. Does nothing without a file. Asynchronous; I/O thread. */
void log_reopen(void);

/* Wait until all earlier lines are written, but no longer than about `wait_ms`. For threads that
 * end the process themselves. False: the reader of the log is blocked. */
bool log_flush(unsigned wait_ms);

/* Write the lines in the ring and end the thread, but wait no longer than `wait_ms` for a reader.
 * False: the reader is blocked; the thread stays, and later lines are dropped. Else later lines are
 * written directly. Call it before the process ends, when no other thread logs any more. */
bool log_stop(unsigned wait_ms);

/* Return the number of lines since the start that were never written. */
uint64_t log_dropped(void);

/* True: this level is written. Lets a caller skip the work of composing a line. */
bool log_is_on(enum log_level level);

/* `format` gives key=value pairs separated by single blanks; a value that may hold blanks
 * or quotes goes through log_quote(). */
void log_write(enum log_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copy `text` into buf as a quoted value, cut to fit: \" and \\ are escaped, and as \u00xx all
 * control characters (C0, DEL, C1) and those that reorder or break lines on a terminal (U+2028,
 * U+2029, bidirectional overrides); bytes that are not UTF-8 become question marks. Returns buf.
 * All text from a client, a file or the system goes through here. */
const char *log_quote(char *buf, unsigned long size, const char *text);

#define log_debug(module, ...) log_write(LOG_DEBUG, module, __VA_ARGS__)
#define log_info(module, ...) log_write(LOG_INFO, module, __VA_ARGS__)
#define log_warn(module, ...) log_write(LOG_WARN, module, __VA_ARGS__)
#define log_error(module, ...) log_write(LOG_ERROR, module, __VA_ARGS__)

#endif
