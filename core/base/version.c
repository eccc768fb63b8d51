/* core/base/version.c - see version.h. */
#include "core/base/version.h"

const char *quire_version(void)
{
    return QUIRE_VERSION;
}
