/* server/page/page.h - the page for browsers at /, and the files below /page/ that it is made of.
 *
 * The files are those of server/page/assets, in the binary's read-only data: the process reads none
 * while it serves. Each has an ETag, so that a browser asks again and gets a 304. All of them carry
 * a Content-Security-Policy under which nothing is loaded from elsewhere and no script or style
 * stands in the page itself; what the page says and asks of the API it does with the reader's key.
 *
 * Thread: the loop's; each call is answered within its handler.
 * Memory: the reply only.
 */
#ifndef SERVER_PAGE_PAGE_H
#define SERVER_PAGE_PAGE_H

#include <stdbool.h>

struct http_call;

/* Does an Accept header (NULL: there is none) name text/html? Browsers say so of what they show;
 * clients that look whether a server lives do not. */
bool page_is_wanted(const char *accept);

/* The page itself. */
void page_show(struct http_call *call);

/* /page/NAME; 404 for names that there are not. */
void page_file(struct http_call *call);

#endif
