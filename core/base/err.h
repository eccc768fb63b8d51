/* core/base/err.h - one list of error numbers for the whole program.
 *
 * Functions that can fail return 0 or a negative ERR_*. A non-negative result may
 * carry a count, where the comment says so. Three kinds are never mixed: ERR_AGAIN is
 * flow control (no room now, the caller has a plan, never logged); every other ERR_
 * means that this request or this file fails and the process lives; a bug is assert().
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_BASE_ERR_H
#define CORE_BASE_ERR_H

/* XX(name, value, sentence) */
#define ERR_MAP(XX)                                                                                \
    XX(AGAIN, -1, "no room now, try again")                                                        \
    XX(NOMEM, -2, "out of memory")                                                                 \
    XX(INVAL, -3, "invalid argument")                                                              \
    XX(NOENT, -4, "not found")                                                                     \
    XX(IO, -5, "input or output failed")                                                           \
    XX(FORMAT, -6, "malformed file")                                                               \
    XX(RANGE, -7, "value out of range")                                                            \
    XX(BUSY, -8, "busy")                                                                           \
    XX(CANCELED, -9, "cancelled")                                                                  \
    XX(LIMIT, -10, "a limit was exceeded")                                                         \
    XX(INTERNAL, -11, "internal error")                                                            \
    XX(UNSUPPORTED, -12, "not supported")

enum err {
#define XX(name, value, text) ERR_##name = value,
    ERR_MAP(XX)
#undef XX
};

/* Return "NOMEM" for ERR_NOMEM; "UNKNOWN" for a number that is not in the list. */
const char *err_name(int err);

/* Return the list's sentence for an error, without a full stop. */
const char *err_text(int err);

/* Return the nearest ERR_* for an errno value; ERR_IO if nothing fits better. */
int err_from_errno(int errnum);

#endif
