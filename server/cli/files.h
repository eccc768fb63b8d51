/* server/cli/files.h - checks the files and folders of the settings: whether they exist, whether
 * the server may use them, and whether others may.
 *
 * "The server" is the user that runs the command; run it as the user of the service.
 *
 * Thread: the main thread.
 * Memory: none is kept.
 */
#ifndef SERVER_CLI_FILES_H
#define SERVER_CLI_FILES_H

struct config;
struct doctor_report;

/* Check the file of settings (NULL: none), files of keys and passwords, and the folders of stores,
 * databases and swap. */
void doctor_check_files(struct doctor_report *r, const struct config *c, const char *settings);

#endif
