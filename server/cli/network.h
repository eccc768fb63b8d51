/* server/cli/network.h - checks that the server can listen, which hosts can reach it, and that its
 * certificate is valid.
 *
 * `root` is put before /proc: "" for the machine itself.
 *
 * Thread: the main thread.
 * Memory: none afterwards.
 */
#ifndef SERVER_CLI_NETWORK_H
#define SERVER_CLI_NETWORK_H

struct config;
struct doctor_report;

void doctor_check_network(struct doctor_report *r, const struct config *c, const char *root);

#endif
