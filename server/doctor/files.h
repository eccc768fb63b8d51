/* server/doctor/files.h - files and folders of the settings: are they there, may the server use
 * them, may others.
 *
 * "The server" is the user that runs the command: that of the service should.
 *
 * Thread: the main thread.
 * Memory: none is kept.
 */
#ifndef SERVER_DOCTOR_FILES_H
#define SERVER_DOCTOR_FILES_H

struct config;
struct doctor_report;

/* The file of settings (NULL: none), of keys, passwords; the folders of stores, databases, swap. */
void doctor_check_files(struct doctor_report *r, const struct config *c, const char *settings);

#endif
