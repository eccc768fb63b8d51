/* core/hub/interrupt.h - SIGINT, SIGTERM and SIGHUP end a download in order: the part stays, and
 * the next pull continues it.
 *
 * Thread: the one that starts the program, before there are others.
 * Memory: a flag, which the handler sets.
 */
#ifndef CORE_HUB_INTERRUPT_H
#define CORE_HUB_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

/* Begin; until hub_interrupt_end() SIGPIPE and SIGXFSZ become errors of write() too. */
void hub_interrupt_begin(void);
void hub_interrupt_end(void);

bool hub_interrupt_came(void);
/* Sleep, but return early after a signal. True: none came. */
bool hub_interrupt_sleep(uint64_t ms);

#endif
