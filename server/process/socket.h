/* server/process/socket.h - opens listening sockets: TCP, and a Unix socket in the file system.
 *
 * Thread: any, but only while the process has one thread: a Unix socket is created under a changed
 * umask.
 * Memory: none.
 */
#ifndef SERVER_PROCESS_SOCKET_H
#define SERVER_PROCESS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

struct socket_file { /* file of a Unix socket; zero is none */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    dev_t device;
    ino_t inode;
};

/* Bind a name or address (IPv4 or IPv6) and a port (0: any free one) and listen, non-blocking.
 * *bound is the real port. ERR_IO with a sentence: "cannot listen on 127.0.0.1:80: …". */
int listen_open(const char *host, uint16_t port, int *fd, uint16_t *bound, char *err,
                size_t err_len);

/* True: only this machine can connect to the socket. */
bool listen_is_loopback(int fd);

/* As listen_open(), for a Unix socket with the permissions `mode`. An existing socket without a
 * listening process is a leftover, and is replaced. Any other file is left alone. */
int listen_unix(const char *path, mode_t mode, int *fd, struct socket_file *file, char *err,
                size_t err_len);

/* Describe the file of a socket that another process has bound to the path. */
void socket_file_of(const char *path, struct socket_file *file);

/* The port of a TCP socket; 0 for other sockets. */
uint16_t listen_port(int fd);

/* Remove the file, if the path still names the file that was made. */
void listen_unlink(struct socket_file *file);

/* Return the bytes that a TCP connection has received so far; 0: none, or another kind of socket,
 * or the kernel does not report it. */
uint64_t socket_n_received(int fd);

#endif
