/* core/base/hold.c - see hold.h.
 *
 * open() of a FIFO blocks until a writer comes, and read() until it closes: so a test stops a
 * thread at an exact point and lets it run on, without timing. In a release build the function is
 * empty.
 */
#include "core/base/hold.h"

#ifdef QUIRE_DEBUG
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

void hold_here(const char *variable)
{
    const char *path = getenv(variable);
    const int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char byte;

    if (fd < 0)
        return;
    while (read(fd, &byte, 1) > 0)
        ;
    close(fd);
}
#else
void hold_here(const char *variable)
{
    (void)variable;
}
#endif
