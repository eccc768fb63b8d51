/* server/cli/machine.h - checks the properties of the machine that make a server slow or get it
 * killed.
 *
 * `root` is put before /sys and /proc: "" for the machine itself.
 *
 * Thread: the main thread.
 * Memory: none.
 */
#ifndef SERVER_CLI_MACHINE_H
#define SERVER_CLI_MACHINE_H

#include <stdint.h>

struct config;
struct doctor_report;

/* Check CPU features, threads and quota, frequency, huge pages, swap, NUMA balancing, clocks. */
void doctor_check_machine(struct doctor_report *r, const struct config *c, const char *root);

/* Check that the memory of a server (`bytes`, and at most `more` under load) is available. */
void doctor_check_memory(struct doctor_report *r, uint64_t bytes, uint64_t more, const char *root);

/* Check the limit of file descriptors for the connections of the settings. */
void doctor_check_descriptors(struct doctor_report *r, const struct config *c);

#endif
