/* server/batches/file_content.h - GET /v1/files/ID/content: the bytes of a file, a piece at a time,
 * as fast as the client reads them.
 *
 * Thread: the loop's, but for the jobs' work.
 * Memory: a piece.
 */
#ifndef SERVER_BATCHES_FILE_CONTENT_H
#define SERVER_BATCHES_FILE_CONTENT_H

struct batch_pages;
struct http_call;

/* Answer with the file's content; pages->store is not NULL. */
void file_content_send(const struct batch_pages *pages, struct http_call *call);

#endif
