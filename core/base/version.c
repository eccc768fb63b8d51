/* core/base/version.c - see version.h.
 *
 * The Makefile defines QUIRE_VERSION for this file alone, so that a new commit recompiles one file.
 */
#include "core/base/version.h"

const char *quire_version(void)
{
    return QUIRE_VERSION;
}
