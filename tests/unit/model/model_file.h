/* tests/unit/model/model_file.h - a fixture in memory, opened, for the tests of the loader. */
#ifndef TESTS_UNIT_MODEL_MODEL_FILE_H
#define TESTS_UNIT_MODEL_MODEL_FILE_H

#include "core/model/model.h"

#include "core/base/err.h"
#include "core/formats/gguf/gguf.h"
#include "tests/tools/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

typedef void more_fn(struct gguf_writer *w);

static char err[512];
static const struct model_options plain = {.threads = 1};

/* A fixture in memory. */
struct file {
    uint8_t *data;
    size_t bytes;
    struct gguf *g;
};

static inline void build(struct file *file, struct fixture f, more_fn *more)
{
    struct gguf_writer *w;

    assert_int_equal(gguf_writer_create(&w), 0);
    assert_int_equal(fixture_add(&f, w), 0);
    if (more != NULL)
        more(w);
    assert_int_equal(gguf_writer_finish(w, &file->data, &file->bytes), 0);
    gguf_writer_destroy(&w);
    fixture_release(&f);
    if (gguf_open_memory(&file->g, "file", file->data, file->bytes, err, sizeof(err)) < 0)
        fail_msg("%s", err);
}

static inline void drop(struct file *file)
{
    gguf_close(&file->g);
    mem_free(file->data);
}

static inline struct model *load(const struct gguf *g, const struct model_options *o)
{
    struct model *m;

    if (model_load(&m, g, o, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    return m;
}

#endif
