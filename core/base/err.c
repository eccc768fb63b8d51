/* core/base/err.c - names and sentences of errors, generated from the one list.
 *
 * The list in err.h is a macro; expanded as cases of a switch it gives name and sentence of each
 * number, so a new error needs one line and cannot be forgotten here.
 */
#include "core/base/err.h"

#include <errno.h>

const char *err_name(int err)
{
    switch ((enum err)err) {
#define XX(name, value, text)                                                                      \
    case ERR_##name:                                                                               \
        return #name;
        ERR_MAP(XX)
#undef XX
    }
    return "UNKNOWN";
}

const char *err_text(int err)
{
    switch ((enum err)err) {
#define XX(name, value, text)                                                                      \
    case ERR_##name:                                                                               \
        return text;
        ERR_MAP(XX)
#undef XX
    }
    return "unknown error";
}

int err_from_errno(int errnum)
{
    switch (errnum) {
    case ENOMEM:
        return ERR_NOMEM;
    case EINVAL:
        return ERR_INVAL;
    case ENOENT:
        return ERR_NOENT;
    case EAGAIN:
        return ERR_AGAIN;
    case EBUSY:
        return ERR_BUSY;
    case ERANGE:
        return ERR_RANGE;
    default:
        return ERR_IO;
    }
}
