/* server/process/hold.c - see hold.h. */
#include "server/process/hold.h"

#ifdef QUIRE_DEBUG
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

void hold(const char *variable)
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
void hold(const char *variable)
{
    (void)variable;
}
#endif
