/* server/page/page.h - the page for browsers at /, and its files below /page/.
 *
 * The files of server/page/assets are in the binary's read-only data: the process reads no file
 * while it serves. Each has an ETag, so that a browser asks again and gets a 304. All have a
 * Content-Security-Policy under which nothing is loaded from elsewhere and the page itself has no
 * inline script or style; its calls of the API use the reader's key.
 *
 * Thread: the loop's; each call is answered within its handler.
 * Memory: the reply only.
 */
#ifndef SERVER_PAGE_PAGE_H
#define SERVER_PAGE_PAGE_H

#include <stdbool.h>

struct http_call;

/* True: an Accept header (NULL: none) names text/html: browsers do for pages that they show,
 * clients that check whether a server is up do not. */
bool page_is_wanted(const char *accept);

/* Answer with the page itself. */
void page_show(struct http_call *call);

/* Answer with /page/NAME; 404 for unknown names. */
void page_file(struct http_call *call);

#endif
