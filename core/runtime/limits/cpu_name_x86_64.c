/* core/runtime/limits/cpu_name_x86_64.c - see cpu_name.h.
 *
 * CPUID leaves 0x80000002 to 0x80000004 hold the brand string, 16 bytes in the four registers of
 * each. A processor that lacks a leaf leaves its part zero, which ends the string.
 */
#include "core/runtime/limits/cpu_name.h"

#include <cpuid.h>
#include <stdint.h>
#include <string.h>

void cpu_name_read(char name[CPU_NAME_BYTES])
{
    uint32_t r[12] = {0};
    size_t n;

    for (uint32_t i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    memcpy(name, r, 48);
    name[48] = '\0';
    for (n = strlen(name); n > 0 && name[n - 1] == ' '; n--)
        name[n - 1] = '\0';
}
