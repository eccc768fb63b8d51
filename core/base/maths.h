/* core/base/maths.h - exp, log, powers, sine and cosine, with the same bits everywhere.
 *
 * The results of a C library differ between libraries, their versions and the instructions of a CPU
 * (glibc's exp and pow, with and without fma). Functions whose results reach a model's weights, a
 * prompt or an answer are computed here instead: a sequence of IEEE 754 operations on doubles and
 * pairs of them (the compiler's contraction is off), so promise P1 holds from one machine to the
 * next.
 *
 * exp, exp2, log and pow are computed to about 100 bits and then rounded: the nearest double except
 * for results next to the middle of two. Sine and cosine are within an ulp up to 2^24.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_BASE_MATHS_H
#define CORE_BASE_MATHS_H

/* Special values follow C's Annex F. */
double maths_exp(double x);
double maths_exp2(double x);
double maths_log(double x);
double maths_pow(double x, double y);

/* For |x| >= 2^24 the result is defined, too, but less and less precise. Infinities and NaN give
 * NaN. */
void maths_sin_cos(double x, double *sine, double *cosine);

#endif
