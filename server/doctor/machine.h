/* server/doctor/machine.h - what of the machine makes a server slow, or has it killed.
 *
 * `root` stands before /sys and /proc: "" for the machine.
 *
 * Thread: the main thread.
 * Memory: none.
 */
#ifndef SERVER_DOCTOR_MACHINE_H
#define SERVER_DOCTOR_MACHINE_H

#include <stdint.h>

struct config;
struct doctor_report;

/* CPU features, threads and quota, frequency, huge pages, swap, NUMA balancing, clocks. */
void doctor_check_machine(struct doctor_report *r, const struct config *c, const char *root);

/* Does what a server takes (`bytes`, and at most `more` beside them) fit into memory? */
void doctor_check_memory(struct doctor_report *r, uint64_t bytes, uint64_t more, const char *root);

/* File descriptors for as many connections. */
void doctor_check_descriptors(struct doctor_report *r, const struct config *c);

#endif
