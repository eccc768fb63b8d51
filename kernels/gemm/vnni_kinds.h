/* kernels/gemm/vnni_kinds.h - the weight types of gemm_q_vnni_body.inc, in three lists.
 *
 * With a tile for each number of rows up to sixteen, a type takes the compiler more than a second.
 * So AVX-512 has two files, compiled in parallel, and fewer tiles for rare types. TQ1_0 and IQ2_S
 * are in no list, because they have the panels of another type.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef KERNELS_GEMM_VNNI_KINDS_H
#define KERNELS_GEMM_VNNI_KINDS_H

/* Types whose codes are numbers. */
#define VNNI_KINDS_Q(KIND)                                                                         \
    KIND(KERN_Q8_0, q8_0)                                                                          \
    KIND(KERN_Q4_0, q4_0)                                                                          \
    KIND(KERN_Q4_1, q4_1)                                                                          \
    KIND(KERN_Q5_0, q5_0)                                                                          \
    KIND(KERN_Q5_1, q5_1)                                                                          \
    KIND(KERN_Q4_K, q4_k)                                                                          \
    KIND(KERN_Q5_K, q5_k)                                                                          \
    KIND(KERN_Q6_K, q6_k)                                                                          \
    KIND(KERN_Q3_K, q3_k)                                                                          \
    KIND(KERN_Q2_K, q2_k)

/* Types whose codes of four bits are indices of a table of numbers. */
#define VNNI_KINDS_IQ4(KIND)                                                                       \
    KIND(KERN_IQ4_NL, iq4_nl)                                                                      \
    KIND(KERN_IQ4_XS, iq4_xs)                                                                      \
    KIND(KERN_MXFP4, mxfp4)

/* Types that few files use. */
#define VNNI_KINDS_RARE(KIND)                                                                      \
    KIND(KERN_NVFP4, nvfp4)                                                                        \
    KIND(KERN_TQ2_0, tq2_0)                                                                        \
    KIND(KERN_Q2_0, q2_0)                                                                          \
    KIND(KERN_Q1_0, q1_0)                                                                          \
    KIND(KERN_IQ3_S, iq3_s)                                                                        \
    KIND(KERN_IQ3_XXS, iq3_xxs)                                                                    \
    KIND(KERN_IQ2_XS, iq2_xs)                                                                      \
    KIND(KERN_IQ2_XXS, iq2_xxs)                                                                    \
    KIND(KERN_IQ1_S, iq1_s)                                                                        \
    KIND(KERN_IQ1_M, iq1_m)                                                                        \
    KIND(KERN_IQ6_K, iq6_k)                                                                        \
    KIND(KERN_IQ5_K, iq5_k)                                                                        \
    KIND(KERN_IQ5_KS, iq5_ks)                                                                      \
    KIND(KERN_IQ4_K, iq4_k)                                                                        \
    KIND(KERN_IQ4_KS, iq4_ks)                                                                      \
    KIND(KERN_IQ3_K, iq3_k)                                                                        \
    KIND(KERN_IQ2_K, iq2_k)

#endif
