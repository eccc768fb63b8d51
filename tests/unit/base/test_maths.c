/* tests/unit/base/test_maths.c - exp, log, powers, sine and cosine beside numbers that were
 * computed with 400 bits and rounded to doubles (mpmath), and beside the C library's, an ulp apart
 * at most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "core/base/maths.h"
#include "tests/fixtures/random.h"

#define N 20000

enum function { EXP, EXP2, LOG, POW };

/* Nearest doubles. */
static const struct value {
    enum function f;
    double x, y, result;
} VALUES[] = {
    {EXP, 0, 0, 0x1p0},
    {EXP, 0x1p0, 0, 0x1.5bf0a8b145769p1},
    {EXP, -0x1p0, 0, 0x1.78b56362cef38p-2},
    {EXP, 0x1p-1, 0, 0x1.a61298e1e069cp0},
    {EXP, -0x1.44p4, 0, 0x1.b93de1e27ca3bp-30},
    {EXP, 0x1.56e1fc2f8f359p-997, 0, 0x1p0},
    {EXP, 0x1.62d999999999ap9, 0, 0x1.d75ae7a50ee14p1023},
    {EXP, -0x1.748cccccccccdp9, 0, 0x0.0000000000001p-1022},
    {EXP, -0x1.624p9, 0, 0x0.e6cf6d08897acp-1022},
    {EXP, 0x1.62e147ae147aep6, 0, 0x1.fe8c665382968p127},
    {EXP, 0x1.999999999999ap-4, 0, 0x1.1aec7b35a00d4p0},
    {EXP, 0x1.8p1, 0, 0x1.415e5bf6fb106p4},
    {EXP, -0x1.ed44ac963f43cp7, 0, 0x1.22742b8716ed8p-356},
    {EXP, -0x1.e8cfa7f3e7e86p8, 0, 0x1.bc0c083bb704ep-706},
    {EXP, 0x1.a69dd48ce676cp7, 0, 0x1.ce85f33ad47e9p304},
    {EXP, -0x1.2b4b6adca374cp9, 0, 0x1.561d137b2cc84p-864},
    {EXP, 0x1.91e0e1fbc835p5, 0, 0x1.63735f0564b4bp72},
    {EXP, -0x1.78122f320631ep7, 0, 0x1.a64a737a7c4dap-272},
    {EXP2, 0, 0, 0x1p0},
    {EXP2, 0x1p0, 0, 0x1p1},
    {EXP2, -0x1p0, 0, 0x1p-1},
    {EXP2, -0x1p3, 0, 0x1p-8},
    {EXP2, 0x1p-1, 0, 0x1.6a09e667f3bcdp0},
    {EXP2, -0x1p-1, 0, 0x1.6a09e667f3bcdp-1},
    {EXP2, 0x1.ffcp9, 0, 0x1.6a09e667f3bcdp1023},
    {EXP2, -0x1.0c8p10, 0, 0x0.0000000000001p-1022},
    {EXP2, 0x1.5555555555555p-2, 0, 0x1.428a2f98d728bp0},
    {EXP2, -0x1.5555555555555p1, 0, 0x1.428a2f98d728bp-3},
    {EXP2, -0x1.a8522f2ad5e43p4, 0, 0x1.6509d565576abp-27},
    {EXP2, 0x1.c8d9f870e1ccp-2, 0, 0x1.5cc5da7e03b3bp0},
    {EXP2, -0x1.bc011125afb38p4, 0, 0x1.3061ce7f702fbp-28},
    {EXP2, -0x1.fd99e4ee8e03p1, 0, 0x1.0358e285fd11ep-4},
    {EXP2, -0x1.9cf054c31ed54p4, 0, 0x1.244dce563d2d8p-26},
    {EXP2, -0x1.88ea5eaddfd42p4, 0, 0x1.5bf5f4369ff52p-25},
    {LOG, 0x1p0, 0, 0},
    {LOG, 0x1p1, 0, 0x1.62e42fefa39efp-1},
    {LOG, 0x1.4p3, 0, 0x1.26bb1bbb55516p1},
    {LOG, 0x1p-1, 0, -0x1.62e42fefa39efp-1},
    {LOG, 0x1.0000000000001p0, 0, 0x1.fffffffffffffp-53},
    {LOG, 0x1.fffffffffffffp-1, 0, -0x1p-53},
    {LOG, 0x0.0000000000001p-1022, 0, -0x1.74385446d71c3p9},
    {LOG, 0x1.fffffffffffffp1023, 0, 0x1.62e42fefa39efp9},
    {LOG, 0x1p13, 0, 0x1.205966f2b4f12p3},
    {LOG, 0x1.8p1, 0, 0x1.193ea7aad030bp0},
    {LOG, 0x1.9e91cc1ae933fp18, 0, 0x1.9eadc5cfae118p3},
    {LOG, 0x1.93bc83fd5036cp19, 0, 0x1.b4031f53a2ba9p3},
    {LOG, 0x1.e399f60de7366p16, 0, 0x1.773efbe9794bp3},
    {LOG, 0x1.b4037b783e1e7p17, 0, 0x1.8a1ca7fa5925cp3},
    {LOG, 0x1.325d271df2539p19, 0, 0x1.ab2e393bff7fbp3},
    {LOG, 0x1.cebf9e289b982p19, 0, 0x1.b860b0146b02ep3},
    {POW, 0x1.388p13, -0x1p-6, 0x1.bb5fad00ab22cp-1},
    {POW, 0x1.388p13, -0x1.f8p-1, 0x1.e459c57e28a47p-14},
    {POW, 0x1.e848p18, -0x1.28p-1, 0x1.09fb7de6f8595p-11},
    {POW, 0x1.e848p19, -0x1.345d1745d1746p-1, 0x1.fe7f566faaf7ep-13},
    {POW, 0x1.e848p22, -0x1.3p-2, 0x1.247ab1a8819a4p-7},
    {POW, 0x1.4p3, 0x1.4p2, 0x1.86ap16},
    {POW, 0x1.4p3, -0x1.8p1, 0x1.0624dd2f1a9fcp-10},
    {POW, 0x1p1, 0x1p-1, 0x1.6a09e667f3bcdp0},
    {POW, 0x1p1, -0x1.0c8p10, 0x0.0000000000001p-1022},
    {POW, -0x1.8p1, 0x1.8p1, -0x1.bp4},
    {POW, -0x1p1, 0x1p2, 0x1p4},
    {POW, 0x1.8p0, 0x1p1, 0x1.2p1},
    {POW, 0x1.999999999999ap-4, 0x1p5, 0x1.9f623d5a8a74p-107},
    {POW, 0x1.fffffffffffffp-1, 0x1.1c37937e08p53, 0x1.5164a390287e9p-2},
    {POW, 0x1.4f8b588e368f1p-17, 0x1.999999999999ap-4, 0x1.43d136248490fp-2},
    {POW, 0x1.cp2, 0x1.5555555555555p-2, 0x1.e9b5dba58189dp0},
    {POW, 0x1.4e718d7d7625ap664, 0x1.8p0, 0x1.7e43c8800759bp996},
    {POW, 0x1.8p1, 0x1.4p5, 0x1.517168a4523fdp63},
    {POW, 0x1.cdaeaf128ddc3p5, -0x1.087f7bf021a4ep2, 0x1.c3f9f05f4a2efp-25},
    {POW, 0x1.868085d70dd8fp6, -0x1.222fe4c37780dp4, 0x1.18603f778a358p-120},
    {POW, 0x1.57632b92a8a33p6, -0x1.0d4cd43cf010ap3, 0x1.eb579126113cap-55},
    {POW, 0x1.cd9dc3a8463bep3, -0x1.e939d6e4a7602p3, 0x1.1872d2fcce58ep-59},
    {POW, 0x1.ed9227b80d2c2p4, 0x1.94a4490d1ed48p3, 0x1.7880f1ea4faf9p62},
    {POW, 0x1.212986749c73bp4, 0x1.a1caf76d922p1, 0x1.8c1300d58e1e1p13},
    {POW, 0x1.ff217a7ac97f9p5, -0x1.46a98be0d27ccp2, 0x1.4efa58fa26774p-31},
    {POW, 0x1.b632110b36091p5, -0x1.17d0a782d9bccp4, 0x1.fed5cc8e6c16bp-102},
};

static const struct angle {
    double x, sine, cosine;
} ANGLES[] = {
    {0, 0, 0x1p0},
    {0x1p0, 0x1.aed548f090ceep-1, 0x1.14a280fb5068cp-1},
    {0x1.921fb54442d18p-1, 0x1.6a09e667f3bccp-1, 0x1.6a09e667f3bcdp-1},
    {0x1.921fb54442d18p0, 0x1p0, 0x1.1a62633145c07p-54},
    {0x1.921fb54442d18p1, 0x1.1a62633145c07p-53, -0x1p0},
    {0x1.9p6, -0x1.03425b78c4db8p-1, 0x1.b981dbf665fdfp-1},
    {-0x1.4p1, -0x1.326af0dcfcab1p-1, -0x1.9a2f7ef858b7dp-1},
    {0x1.ffep11, -0x1.fee26bf3a602ep-1, -0x1.0e3cd8b89b3a3p-4},
    {0x1.ffffp16, -0x1.268613f60babcp-1, -0x1.a2cebbb513e7cp-1},
    {0x1.12e0be826d695p-30, 0x1.12e0be826d695p-30, 0x1p0},
    {0x1.fffffdp22, 0x1.dca47297df68fp-1, -0x1.75ee44544f037p-2},
    {0x1.fffffep23, -0x1.e57ec09221973p-1, -0x1.4532c3721ed43p-2},
    {0x1.da1e99ce7dd62p15, -0x1.d4660bfb1b195p-1, -0x1.9d8172dccc3c2p-2},
    {0x1.7e457ba23175ep15, -0x1.b05a416b88b3dp-2, -0x1.d01ff1e47d6d8p-1},
    {0x1.1bba8d2fa732p14, 0x1.d78fbea1896a7p-3, 0x1.f23e26458f58ap-1},
    {0x1.bbadfeab4e20dp16, 0x1.82015c7db8997p-1, 0x1.505e62640b49fp-1},
    {0x1.a5ba4ad39p9, 0x1.ff0260fdd7579p-1, 0x1.fd5e7637f8722p-5},
    {0x1.016ca71dad9d1p16, 0x1.059c28b2a25bbp-1, -0x1.b81e4fc222727p-1},
    {0x1.cbedb626b362bp16, 0x1.c8c65e20d3c6dp-1, 0x1.ce9abbede234bp-2},
    {0x1.4b044cab05318p13, -0x1.952a16a8e1364p-1, 0x1.3906def4f5811p-1},
    {0x1.1bc956bbedbefp16, -0x1.1cc6ccaf55e03p-7, -0x1.fffb0cd31dcd8p-1},
    {0x1.3bb98decce691p16, -0x1.f296535d4ee95p-1, 0x1.d1b342cce1b46p-3},
};

static double result_of(enum function f, double x, double y)
{
    switch (f) {
    case EXP:
        return maths_exp(x);
    case EXP2:
        return maths_exp2(x);
    case LOG:
        return maths_log(x);
    case POW:
        return maths_pow(x, y);
    }
    return NAN;
}

static double library_of(enum function f, double x, double y)
{
    switch (f) {
    case EXP:
        return exp(x);
    case EXP2:
        return exp2(x);
    case LOG:
        return log(x);
    case POW:
        return pow(x, y);
    }
    return NAN;
}

static int64_t bits_of(double x)
{
    int64_t i;

    memcpy(&i, &x, sizeof(i));
    return i < 0 ? INT64_MIN - i : i;
}

static int64_t ulps_between(double a, double b)
{
    const int64_t d = bits_of(a) - bits_of(b);

    return d < 0 ? -d : d;
}

static void nearest_doubles(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(VALUES) / sizeof(VALUES[0]); i++) {
        const struct value *v = &VALUES[i];
        const double found = result_of(v->f, v->x, v->y);

        if (ulps_between(found, v->result) != 0)
            fail_msg("function %d of %a and %a: %a, not %a", v->f, v->x, v->y, found, v->result);
    }
}

static void nearest_angles(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(ANGLES) / sizeof(ANGLES[0]); i++) {
        const struct angle *a = &ANGLES[i];
        double sine, cosine;

        maths_sin_cos(a->x, &sine, &cosine);
        if (ulps_between(sine, a->sine) > 1 || ulps_between(cosine, a->cosine) > 1)
            fail_msg("%a: %a and %a, not %a and %a", a->x, sine, cosine, a->sine, a->cosine);
        assert_true((float)sine == (float)a->sine && (float)cosine == (float)a->cosine);
    }
}

/* What a model's angles may become when its file is nonsense. */
static void far_angles_are_numbers(void **state)
{
    static const double far[] = {0x1p24, 0x1p39 + 0.5, -0x1.8p40, 1e300, -1.7e308};
    double sine, cosine;

    (void)state;
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
        maths_sin_cos(far[i], &sine, &cosine);
        assert_true(fabs(sine * sine + cosine * cosine - 1) < 1e-2);
    }
    maths_sin_cos(INFINITY, &sine, &cosine);
    assert_true(isnan(sine) && isnan(cosine));
    maths_sin_cos(NAN, &sine, &cosine);
    assert_true(isnan(sine) && isnan(cosine));
}

static double uniform(uint64_t *rng, double from, double to)
{
    const double high = random_below(rng, 1u << 26), low = random_below(rng, 1u << 26);

    return from + (to - from) * (high * 0x1p-26 + low * 0x1p-52);
}

static void beside_the_library(void **state)
{
    static const struct range {
        enum function f;
        double from, to, most; /* most: of y, from -most */
    } RANGES[] = {{EXP, -750, 710, 0}, {EXP2, -1080, 1024, 0}, {LOG, 0, 1e9, 0}, {LOG, 0, 2, 0},
                  {POW, 0, 100, 150}, {POW, 0, 2, 1}};
    uint64_t rng = 5;

    (void)state;
    for (size_t r = 0; r < sizeof(RANGES) / sizeof(RANGES[0]); r++)
        for (int i = 0; i < N; i++) {
            const double x = uniform(&rng, RANGES[r].from, RANGES[r].to);
            const double y = uniform(&rng, -RANGES[r].most, RANGES[r].most);
            const double ours = result_of(RANGES[r].f, x, y);
            const double theirs = library_of(RANGES[r].f, x, y);

            if (ulps_between(ours, theirs) > 1)
                fail_msg("function %d of %a and %a: %a, not %a", RANGES[r].f, x, y, ours, theirs);
        }
}

static void whole_powers_are_as_others(void **state)
{
    uint64_t rng = 6;

    (void)state;
    for (int i = 0; i < N; i++) {
        const double x = uniform(&rng, 0, 20), y = 1 + random_below(&rng, 32);

        assert_true(ulps_between(maths_pow(x, y), pow(x, y)) <= 1);
        assert_true(maths_pow(-x, y) == (fmod(y, 2) == 0 ? 1 : -1) * maths_pow(x, y));
    }
}

static void angles_beside_the_library(void **state)
{
    uint64_t rng = 7;

    (void)state;
    for (int i = 0; i < 10 * N; i++) {
        const double x = uniform(&rng, -1e6, 1e6);
        double sine, cosine;

        maths_sin_cos(x, &sine, &cosine);
        assert_true(ulps_between(sine, sin(x)) <= 1 && ulps_between(cosine, cos(x)) <= 1);
    }
}

static void special_values(void **state)
{
    static const double some[] = {0.0, -0.0, 1,     -1,     2,        -3,
                                  0.5, -0.5, 1e308, 5e-324, INFINITY, -INFINITY};
    const size_t n = sizeof(some) / sizeof(some[0]);

    (void)state;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            const double ours = maths_pow(some[i], some[j]), theirs = pow(some[i], some[j]);

            if (isnan(theirs) ? !isnan(ours) : ulps_between(ours, theirs) > 1)
                fail_msg("%g to the power of %g: %g, not %g", some[i], some[j], ours, theirs);
        }
    assert_true(isnan(maths_exp(NAN)) && isnan(maths_exp2(NAN)) && isnan(maths_log(NAN)));
    assert_true(isnan(maths_pow(NAN, 1)) && isnan(maths_pow(1.5, NAN)) && maths_pow(NAN, 0) == 1);
    assert_true(maths_exp(INFINITY) == INFINITY && maths_exp(-INFINITY) == 0);
    assert_true(maths_exp2(INFINITY) == INFINITY && maths_exp2(-INFINITY) == 0);
    assert_true(maths_exp(1e300) == INFINITY && maths_exp2(-1e300) == 0);
    assert_true(isnan(maths_log(-1)) && maths_log(0) == -INFINITY);
    assert_true(maths_log(INFINITY) == INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_doubles),           cmocka_unit_test(nearest_angles),
        cmocka_unit_test(far_angles_are_numbers),    cmocka_unit_test(beside_the_library),
        cmocka_unit_test(whole_powers_are_as_others), cmocka_unit_test(angles_beside_the_library),
        cmocka_unit_test(special_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
