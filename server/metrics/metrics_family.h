/* server/metrics/metrics_family.h - tables of metrics about models, and their text.
 *
 * A family is a row: its name, and where each of its samples has its value in struct metrics_model.
 * The samples of a family are written model by model.
 *
 * Thread: the loop's.
 * Memory: the text.
 */
#ifndef SERVER_METRICS_METRICS_FAMILY_H
#define SERVER_METRICS_METRICS_FAMILY_H

#include <stddef.h>
#include <stdint.h>

#include "server/metrics/metrics.h"

enum metrics_form { /* the type of a value, and how it is shown */
    FORM_NONE = 0,  /* ends a list of samples */
    FORM_U32,
    FORM_U64,
    FORM_HIST,    /* left out while it has no bounds: it is not fed then */
    FORM_BLOCKS,  /* uint32_t blocks, shown in bytes */
    FORM_SECONDS, /* uint64_t microseconds */
    FORM_SUM,     /* a double as it is */
    FORM_USAGE,   /* computed: the part of the blocks that requests hold */
    FORM_COUNT,   /* computed by `count` */
    FORM_NUMBER,  /* computed by `number` */
};

struct metrics_bounds {
    uint32_t n;
    double at[HIST_MAX];
};

enum metrics_owner { OWNER_MODEL = 0, OWNER_COUNTS };

struct metrics_sample {
    const char *labels; /* or NULL */
    enum metrics_form form;
    enum metrics_owner owner; /* which struct the offset is in: metrics_model, or its counts */
    size_t offset;
    uint64_t (*count)(const struct metrics_model *m);
    double (*number)(const struct metrics_model *m);
    const struct metrics_bounds *only; /* show only these of a histogram's bounds; NULL: all */
};

#define METRICS_MAX_SAMPLES 6

struct metrics_family {
    const char *name, *type, *help;
    struct metrics_sample samples[METRICS_MAX_SAMPLES];
};

/* The initialisers of a sample after its labels. A field whose type has no form does not
 * compile. */
#define FORM_OF(type, field)                                                                       \
    _Generic(((struct type *)0)->field, uint32_t: FORM_U32, uint64_t: FORM_U64,              \
             struct hist: FORM_HIST)
#define AT(form, field) form, OWNER_MODEL, offsetof(struct metrics_model, field), NULL, NULL, NULL
#define MODEL(field) AT(FORM_OF(metrics_model, field), field)
#define COUNTS_AT(form, field) form, OWNER_COUNTS, offsetof(struct metrics, field), NULL, NULL, NULL
#define COUNTS(field) COUNTS_AT(FORM_OF(metrics, field), field)
#define COUNTS_WITHIN(field, bounds)                                                               \
    FORM_HIST, OWNER_COUNTS, offsetof(struct metrics, field), NULL, NULL, bounds
#define COUNT_OF(function) FORM_COUNT, OWNER_MODEL, 0, function, NULL, NULL
#define NUMBER_OF(function) FORM_NUMBER, OWNER_MODEL, 0, NULL, function, NULL

enum metrics_label { /* the label that names a sample's model */
    METRICS_LABEL_MODEL = 0,  /* model="ID", if there are several */
    METRICS_LABEL_MODEL_NAME, /* model_name="ID" always, as in vLLM */
};

void metrics_families_add(const struct metrics_family *f, size_t n,
                          const struct metrics_scene *scene, enum metrics_label label,
                          struct buf *b);

/* The value of the label `model` of model i; NULL: there is only one. */
const char *metrics_model_label(const struct metrics_scene *scene, uint32_t i);

#endif
