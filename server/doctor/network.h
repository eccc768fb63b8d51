/* server/doctor/network.h - can the server listen, who can reach it, and is its certificate valid.
 *
 * `root` stands before /proc: "" for the machine.
 *
 * Thread: the main thread.
 * Memory: none is kept.
 */
#ifndef SERVER_DOCTOR_NETWORK_H
#define SERVER_DOCTOR_NETWORK_H

struct config;
struct doctor_report;

void doctor_check_network(struct doctor_report *r, const struct config *c, const char *root);

#endif
