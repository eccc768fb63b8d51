/* core/base/version.h - the version of this build. */
#ifndef CORE_BASE_VERSION_H
#define CORE_BASE_VERSION_H

/* `git describe` at build time, or "unknown". */
const char *quire_version(void);

#endif
