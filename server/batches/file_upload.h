/* server/batches/file_upload.h - POST /v1/files: a form whose file is written to the disk as it
 * arrives.
 *
 * One piece of the body is processed at a time: the client is paused while the storage thread
 * parses the form and writes. A file gets its name only when all of it is on the disk.
 *
 * Thread: the loop's, except for the jobs' work.
 * Memory: a piece of at most 64 KiB, which the exchange counts, and the names of a form.
 */
#ifndef SERVER_BATCHES_FILE_UPLOAD_H
#define SERVER_BATCHES_FILE_UPLOAD_H

struct batch_pages;
struct http_call;

/* The functions http_route.receive and http_route.handle of uploads. */
void file_upload_receive(const struct batch_pages *pages, struct http_call *call);
void file_upload_end(const struct batch_pages *pages, struct http_call *call);

#endif
