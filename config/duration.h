/* config/duration.h - a span of time as text: "10m", "1h30m", "300ms", or seconds as a number.
 *
 * The units are those of Go's durations (h, m, s, ms, us), which Ollama's keep_alive uses too; a
 * number without a unit means seconds. A negative duration means "never ends": DURATION_NEVER.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CONFIG_DURATION_H
#define CONFIG_DURATION_H

#include <stdint.h>

#define DURATION_NEVER UINT64_MAX

/* Parse a duration into microseconds, at most a hundred years; ERR_INVAL. */
int duration_parse(const char *text, uint64_t *us);

#endif
