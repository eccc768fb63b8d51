/* kernels/gemm_q_avx512.c - products with quantised weights on AVX-512 VNNI. */
#include "kernels/vnni_512.inc"

#define NAME(op) kern_##op##_avx512
#ifndef ROWS
#define ROWS 16
#endif
#ifndef IN_REGISTERS
#define IN_REGISTERS 16
#endif
#define TILES(type, name)                                                                          \
    VNNI_TILE(type, name, 1)                                                                       \
    VNNI_TILE(type, name, 2)                                                                       \
    VNNI_TILE(type, name, 3)                                                                       \
    VNNI_TILE(type, name, 4)                                                                       \
    VNNI_TILE(type, name, 5)                                                                       \
    VNNI_TILE(type, name, 6)                                                                       \
    VNNI_TILE(type, name, 7)                                                                       \
    VNNI_TILE(type, name, 8)                                                                       \
    VNNI_TILE(type, name, 9)                                                                       \
    VNNI_TILE(type, name, 10)                                                                      \
    VNNI_TILE(type, name, 11)                                                                      \
    VNNI_TILE(type, name, 12)                                                                      \
    VNNI_TILE(type, name, 13)                                                                      \
    VNNI_TILE(type, name, 14)                                                                      \
    VNNI_TILE(type, name, 15)                                                                      \
    VNNI_TILE(type, name, 16)
#define NAMES(name)                                                                                \
    GEMM_NAMES_12(name), name##_13, name##_14, name##_15, name##_16
#include "kernels/gemm_q_vnni_body.inc"
