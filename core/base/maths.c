/* core/base/maths.c - see maths.h.
 *
 * Arguments and results are pairs of doubles (double-double, about 100 bits), reduced to a small
 * range and then summed as series long enough that the last rounding is almost always the only one.
 * Only +, -, *, / and exact functions (ldexp, fmod, floor) are used, in a fixed order, which IEEE
 * 754 defines to the bit.
 */
#include "core/base/maths.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* The sum of two doubles, the second at most half an ulp of the first. */
struct pair {
    double hi, lo;
};

static const struct pair LN_2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

/* ---- pairs: exact sums and products ---- */

/* Return the exact sum, for |a| >= |b|. */
static struct pair ordered_sum(double a, double b)
{
    const double hi = a + b;

    return (struct pair){hi, b - (hi - a)};
}

static struct pair sum(double a, double b)
{
    const double hi = a + b, of_b = hi - a;

    return (struct pair){hi, (a - (hi - of_b)) + (b - of_b)};
}

static struct pair product(double a, double b)
{
    const double hi = a * b;

    return (struct pair){hi, fma(a, b, -hi)};
}

static struct pair add_pairs(struct pair a, struct pair b)
{
    struct pair s = sum(a.hi, b.hi);
    const struct pair low = sum(a.lo, b.lo);

    s = ordered_sum(s.hi, s.lo + low.hi);
    return ordered_sum(s.hi, s.lo + low.lo);
}

static struct pair multiply(struct pair a, struct pair b)
{
    const struct pair p = product(a.hi, b.hi);

    return ordered_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static struct pair divide(struct pair a, struct pair b)
{
    const double first = a.hi / b.hi;
    const struct pair p = multiply(b, (struct pair){first, 0});
    const double rest = ((a.hi - p.hi) - p.lo) + a.lo;

    return ordered_sum(first, rest / b.hi);
}

/* ---- exp and log of pairs ---- */

/* Return e^x for |x| < 746: 2^k e^r, |r| <= ln(2) / 2, by Taylor's series up to r^24 / 24!. */
static double exp_of(struct pair x)
{
    const double k = rint(x.hi * 0x1.71547652b82fep0);
    const struct pair whole = multiply(LN_2, (struct pair){k, 0});
    const struct pair r = add_pairs(x, (struct pair){-whole.hi, -whole.lo});
    struct pair p = {1, 0};

    for (int n = 24; n >= 1; n--)
        p = add_pairs((struct pair){1, 0}, multiply(p, divide(r, (struct pair){n, 0})));
    return ldexp(p.hi, (int)k); /* p.hi is p's nearest double */
}

/* log x for 0 < x < infinity: e ln 2 + 2 atanh(f), f = (m - 1) / (m + 1), |f| < 0.1716, by the
 * series' terms up to f^43. */
static struct pair log_of(double x)
{
    int e;
    double m = frexp(x, &e);
    struct pair f, square, p = {0, 0};

    if (m < 0x1.6a09e667f3bcdp-1) { /* sqrt(1/2): keep m around 1 */
        m *= 2;
        e--;
    }
    f = divide((struct pair){m - 1, 0}, sum(m, 1));
    square = multiply(f, f);
    for (int n = 43; n >= 1; n -= 2)
        p = add_pairs(multiply(p, square), divide((struct pair){1, 0}, (struct pair){n, 0}));
    p = multiply(p, f);
    return add_pairs(multiply(LN_2, (struct pair){e, 0}), (struct pair){2 * p.hi, 2 * p.lo});
}

/* Return e^x; beyond the range of doubles the result is infinite or zero. */
static double exp_within(struct pair x)
{
    if (x.hi > 709.8)
        return INFINITY;
    return x.hi < -745.2 ? 0 : exp_of(x);
}

double maths_exp(double x)
{
    return isnan(x) ? x : exp_within((struct pair){x, 0});
}

double maths_exp2(double x)
{
    if (!(fabs(x) < 2000)) /* beyond, a product of pairs would overflow */
        return isnan(x) ? x : x > 0 ? INFINITY : 0;
    return exp_within(multiply(LN_2, (struct pair){x, 0}));
}

double maths_log(double x)
{
    if (x > 0 && x < INFINITY)
        return log_of(x).hi;
    return x == 0 ? -INFINITY : x > 0 ? x : NAN;
}

/* Return x^n by multiplications only: as precise as power_of(), and much faster. */
static double whole_power_of(double x, unsigned n)
{
    struct pair square = {x, 0}, p = {1, 0};

    for (; n > 0; n >>= 1) {
        if ((n & 1) != 0)
            p = multiply(p, square);
        square = multiply(square, square);
    }
    return p.hi;
}

/* True: all powers are well within the range of doubles. */
static bool has_whole_powers(double x, double y)
{
    return y >= 1 && y <= 32 && y == rint(y) && x > 0x1p-14 && x < 0x1p14;
}

/* |x|^y, where neither is zero, infinite or NaN. */
static double power_of(double x, double y)
{
    const struct pair l = log_of(fabs(x));
    const double most = 1000; /* bound of y * l: beyond, the result is out of the range of
                               * doubles */

    if (fabs(y) > most / fabs(l.hi))
        return l.hi == 0 ? 1 : (y > 0) == (l.hi > 0) ? INFINITY : 0;
    return exp_within(multiply(l, (struct pair){y, 0}));
}

/* True: C's pow() has an exact result for these, the same in every library. */
static bool is_special(double x, double y)
{
    return x == 0 || y == 0 || !isfinite(x) || !isfinite(y);
}

double maths_pow(double x, double y)
{
    double result;

    if (is_special(x, y))
        return pow(x, y);
    if (x < 0 && y != floor(y))
        return NAN;
    if (has_whole_powers(x, y))
        return whole_power_of(x, (unsigned)y);
    result = power_of(x, y);
    return x < 0 && fmod(y, 2) != 0 ? -result : result;
}

/* ---- sine and cosine ---- */

/* pi / 2 in pieces, of which the first two have 29 bits, so that their product with a whole number
 * of 24 bits is exact. */
#define HALF_PI_1 0x1.921fb54p0
#define HALF_PI_2 0x1.10b4611p-30
#define HALF_PI_3 0x1.4c4c6628b80dcp-59

#define FAR 0x1p40 /* beyond every angle of a model; larger ones are reduced by fmod() */

/* Return x minus q times pi / 2, for a q that makes |x| <= pi / 4. */
static struct pair reduce(double x, double q)
{
    const struct pair r = sum(x - q * HALF_PI_1, -q * HALF_PI_2);

    return ordered_sum(r.hi, r.lo - q * HALF_PI_3);
}

/* Sum of the series terms[n], from the last term on. */
static double series(const double *terms, int n, double s)
{
    double p = terms[0];

    for (int i = 1; i < n; i++)
        p = p * s + terms[i];
    return p;
}

/* Taylor's series without its first term: x^3 (-1/3! + x^2 / 5! - ...) up to x^19. */
static double sine_of(struct pair x)
{
    static const double terms[] = {
        -1.0 / 121645100408832000, 1.0 / 355687428096000, -1.0 / 1307674368000,
        1.0 / 6227020800,          -1.0 / 39916800,       1.0 / 362880,
        -1.0 / 5040,               1.0 / 120,             -1.0 / 6};
    const double s = x.hi * x.hi;

    return x.hi + (x.hi * s * series(terms, 9, s) + x.lo * (1 - 0.5 * s));
}

/* 1 - x^2 / 2 loses bits, which are added again; then x^4 (1/4! - x^2 / 6! + ...) up to x^18. */
static double cosine_of(struct pair x)
{
    static const double terms[] = {-1.0 / 6402373705728000, 1.0 / 20922789888000,
                                   -1.0 / 87178291200,      1.0 / 479001600,
                                   -1.0 / 3628800,          1.0 / 40320,
                                   -1.0 / 720,              1.0 / 24};
    const double s = x.hi * x.hi, half = 0.5 * s, most = 1 - half;

    return most + (((1 - most) - half) + (s * s * series(terms, 8, s) - x.hi * x.lo));
}

void maths_sin_cos(double x, double *sine, double *cosine)
{
    const double to_whole = 0x1.8p52; /* adding it rounds to a whole number */
    double q, s, c;
    struct pair r;

    if (!(fabs(x) < FAR))
        x = fmod(x, FAR); /* exact; NaN where x is infinite */
    if (isnan(x)) {
        *sine = *cosine = NAN;
        return;
    }
    q = (x * 0x1.45f306dc9c883p-1 + to_whole) - to_whole;
    r = reduce(x, q);
    s = sine_of(r);
    c = cosine_of(r);
    switch ((int64_t)q & 3) {
    case 0:
        *sine = s, *cosine = c;
        return;
    case 1:
        *sine = c, *cosine = -s;
        return;
    case 2:
        *sine = -s, *cosine = -c;
        return;
    default:
        *sine = -c, *cosine = s;
    }
}
