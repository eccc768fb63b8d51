/* server/cli/files.h - checks that the files and folders of the settings exist, that the server can
 * use them, and that other users cannot.
 *
 * "The server" is the user that runs the command; run it as the user of the service.
 *
 * Thread: the main thread.
 * Memory: none afterwards.
 */
#ifndef SERVER_CLI_FILES_H
#define SERVER_CLI_FILES_H

struct config;
struct doctor_report;

/* Check the file of settings (NULL: none), files of keys and passwords, and the folders of stores,
 * databases and swap. */
void doctor_check_files(struct doctor_report *r, const struct config *c, const char *settings);

#endif
