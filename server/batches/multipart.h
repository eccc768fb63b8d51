/* server/batches/multipart.h - parses bodies of multipart/form-data (RFC 7578, RFC 2046), piece by
 * piece.
 *
 * A push parser without I/O: the caller feeds bytes as they come and gets events, which depend on
 * the bytes alone, except that a part's data may come in any number of pieces. Bytes before the
 * first boundary and after the last one are skipped. An error is final.
 *
 * Thread: any, one at a time.
 * Memory: none but the struct; headers of a part take at most MULTIPART_MAX_HEADERS bytes.
 */
#ifndef SERVER_BATCHES_MULTIPART_H
#define SERVER_BATCHES_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

#define MULTIPART_MAX_BOUNDARY 70 /* characters: RFC 2046, section 5.1.1 */
#define MULTIPART_MAX_HEADERS 4096
#define MULTIPART_MAX_NAME 63
#define MULTIPART_MAX_FILENAME 255

enum multipart_event {
    MULTIPART_MORE = 0, /* all bytes are used */
    MULTIPART_PART,     /* a part begins: name and filename are set */
    MULTIPART_DATA,     /* data of the part, at least one byte */
    MULTIPART_PART_END,
    MULTIPART_END,      /* the last boundary; the rest is skipped */
    MULTIPART_BAD,      /* the body is not valid, for the reason `why`; returned by all further
                         * calls */
};

struct multipart {
    char name[MULTIPART_MAX_NAME + 1];
    char filename[MULTIPART_MAX_FILENAME + 1];
    bool has_filename;
    const char *why; /* static */
    /* private */
    int state;
    char delimiter[MULTIPART_MAX_BOUNDARY + 5]; /* CR LF -- boundary */
    size_t n_delimiter, n_matched, n_headers, n_line;
    bool has_name;
    char line[MULTIPART_MAX_HEADERS];
};

/* Start from the value of Content-Type (NULL: none). False: the type is another one, or its
 * boundary is not valid. */
bool multipart_init(struct multipart *m, const char *content_type);

/* Take bytes from *at on, before `end`; *at is moved past the used bytes. *data points into these
 * bytes or *m, valid until the next call. */
enum multipart_event multipart_next(struct multipart *m, const char **at, const char *end,
                                    const char **data, size_t *n_data);

#endif
