/* server/cli/replay_line.h - parses a line of the journal into a typed record.
 *
 * Every value is checked for its type and range; replay.h checks that the record is possible at its
 * place.
 *
 * Thread: any.
 * Memory: the record owns what it holds (replay_record_release).
 */
#ifndef SERVER_CLI_REPLAY_LINE_H
#define SERVER_CLI_REPLAY_LINE_H

#include <stddef.h>

struct replay_record;

/* Parse a line without its newline. ERR_FORMAT with a sentence in `err`, or ERR_NOMEM; *out is
 * empty then. */
int replay_line_parse(struct replay_record *out, const char *text, size_t n, char *err,
                      size_t err_len);

#endif
