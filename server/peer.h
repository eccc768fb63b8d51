/* server/peer.h - the client's end of a connection, watched by the loop.
 *
 * MHD looks at a socket only while the connection is not suspended, and even then it may overlook
 * an end that came together with the last bytes. So every connection has a poll handle for
 * UV_DISCONNECT from its first to its last moment; what an end means depends on what its call is
 * doing (see http.h).
 *
 * Thread: the loop's.
 * Memory: freed by the loop once the handle is closed.
 */
#ifndef SERVER_PEER_H
#define SERVER_PEER_H

#include <stdbool.h>
#include <uv.h>

struct http;
struct http_call;
struct tls_credentials;

struct peer {
    uv_poll_t poll;
    struct http *http;
    struct http_call *call; /* the exchange under way, or NULL */
    int fd;                 /* MHD's; open until peer_close() */
    bool has_ended;         /* the client has closed or half-closed */
    struct tls_credentials *credentials; /* of its session, held; or NULL */
    bool is_fresh;                       /* counted as such by its door (door.h) */
};

/* Watch a new connection. NULL when that is impossible: then its end is noticed late. */
struct peer *peer_open(struct http *h, uv_loop_t *loop, int fd);
void peer_close(struct peer *p); /* before MHD closes the descriptor; NULL is allowed */

/* The call of a peer is over: MHD is to look whether the client has ended. */
void peer_forget_call(struct peer *p);

#endif
