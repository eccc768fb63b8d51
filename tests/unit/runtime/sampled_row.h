/* tests/unit/runtime/sampled_row.h - a sampler, and a row of logits for it to pick from.
 *
 * Thread: one.
 * Memory: a fixture is taken in fixture_of() and freed in teardown().
 */
#ifndef TESTS_UNIT_RUNTIME_SAMPLED_ROW_H
#define TESTS_UNIT_RUNTIME_SAMPLED_ROW_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/runtime/sampler.h"

#define MAX_VOCAB 3000

struct fixture {
    struct kern_table kern;
    struct sampler_scratch scratch;
    float logits[MAX_VOCAB];
    struct sampling sampling;
    struct batch_output out;
    float mu;
};

static inline struct fixture *fixture_of(uint32_t n_vocab, const struct sampling *sampling)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    assert_true(n_vocab <= MAX_VOCAB);
    kern_init(&f->kern, kern_isa_best());
    assert_int_equal(sampler_scratch_create(&f->scratch, n_vocab), 0);
    f->sampling = *sampling;
    f->out.sampling = &f->sampling;
    return f;
}

static inline void teardown(struct fixture *f)
{
    sampler_scratch_release(&f->scratch);
    free(f);
}

#endif
