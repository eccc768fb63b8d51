/* core/runtime/limits/cpu_name_aarch64.c - see cpu_name.h.
 *
 * MIDR_EL1 identifies the core. Linux traps the read in user space and answers it when HWCAP_CPUID
 * is set; without that bit the instruction would kill the process, so the name stays empty.
 */
#include "core/runtime/limits/cpu_name.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>

#ifndef HWCAP_CPUID
#define HWCAP_CPUID (1 << 11) /* the kernel emulates reads of MIDR_EL1 for processes */
#endif

/* Implementer and part of MIDR_EL1, from the reference manuals of these cores. */
static const struct core {
    uint8_t implementer;
    uint16_t part;
    const char *name;
} CORES[] = {
    {0x41, 0xd03, "Cortex-A53"},    {0x41, 0xd05, "Cortex-A55"},    {0x41, 0xd07, "Cortex-A57"},
    {0x41, 0xd08, "Cortex-A72"},    {0x41, 0xd09, "Cortex-A73"},    {0x41, 0xd0a, "Cortex-A75"},
    {0x41, 0xd0b, "Cortex-A76"},    {0x41, 0xd0d, "Cortex-A77"},    {0x41, 0xd41, "Cortex-A78"},
    {0x41, 0xd46, "Cortex-A510"},   {0x41, 0xd47, "Cortex-A710"},   {0x41, 0xd44, "Cortex-X1"},
    {0x41, 0xd48, "Cortex-X2"},     {0x41, 0xd0c, "Neoverse N1"},   {0x41, 0xd49, "Neoverse N2"},
    {0x41, 0xd8e, "Neoverse N3"},   {0x41, 0xd40, "Neoverse V1"},   {0x41, 0xd4f, "Neoverse V2"},
    {0x41, 0xd84, "Neoverse V3"},   {0x46, 0x001, "Fujitsu A64FX"}, {0x48, 0xd01, "Kunpeng 920"},
    {0xc0, 0xac3, "Ampere-1"},      {0xc0, 0xac4, "Ampere-1a"},
};

void cpu_name_read(char name[CPU_NAME_BYTES])
{
    uint64_t midr;
    uint32_t implementer, part;

    name[0] = '\0';
    if ((getauxval(AT_HWCAP) & HWCAP_CPUID) == 0)
        return;
    __asm__("mrs %0, MIDR_EL1" : "=r"(midr));
    implementer = midr >> 24 & 0xff;
    part = midr >> 4 & 0xfff;
    snprintf(name, CPU_NAME_BYTES, "implementer 0x%02x, part 0x%03x", implementer, part);
    for (size_t i = 0; i < sizeof(CORES) / sizeof(CORES[0]); i++)
        if (CORES[i].implementer == implementer && CORES[i].part == part)
            snprintf(name, CPU_NAME_BYTES, "%s", CORES[i].name);
}
