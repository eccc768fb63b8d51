/* server/batches/file_upload.h - POST /v1/files: a form whose file goes to the disk as it comes.
 *
 * A piece of the body at a time is on its way: its client is paused while the keeper's thread takes
 * the form apart and writes. A file has its name only when all of it is on the disk.
 *
 * Thread: the loop's, but for the jobs' work.
 * Memory: a piece of at most 64 KiB, which the exchange counts, and the names of a form.
 */
#ifndef SERVER_BATCHES_FILE_UPLOAD_H
#define SERVER_BATCHES_FILE_UPLOAD_H

struct batch_pages;
struct http_call;

/* http_route.receive, and its handle. */
void file_upload_receive(const struct batch_pages *pages, struct http_call *call);
void file_upload_end(const struct batch_pages *pages, struct http_call *call);

#endif
