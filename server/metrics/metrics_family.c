/* server/metrics/metrics_family.c - see metrics_family.h.
 *
 * A table row says where each sample's value is (an offset into struct metrics_model or its counts)
 * and in which form it is shown, so that a new metric is a new row. add_sample() is the one place
 * that reads values by offset; FORM_OF() in the header ties each offset to its type at compile
 * time.
 */
#include "server/metrics/metrics_family.h"

#include "server/metrics/prometheus.h"

#include <stdbool.h>

const char *metrics_model_label(const struct metrics_scene *scene, uint32_t i)
{
    return scene->n_models > 1 ? scene->models[i].id : NULL;
}

static const void *family_value(const struct metrics_sample *p, const struct metrics_model *m)
{
    const char *base = p->owner == OWNER_COUNTS ? (const char *)m->counts : (const char *)m;

    return base + p->offset;
}

static double usage_of(const struct engine_stats *s)
{
    return s->blocks_total > 0 ? (double)s->blocks_held / s->blocks_total : 0;
}

static void add_hist(struct buf *b, const struct prom_series *series, const struct hist *h,
                     const struct metrics_bounds *only)
{
    if (only != NULL)
        prom_hist_at(b, series, h, only->at, only->n);
    else
        prom_hist(b, series, h);
}

static void add_sample(struct buf *b, const struct prom_series *series,
                       const struct metrics_sample *p, const struct metrics_model *m)
{
    const void *value = family_value(p, m);

    switch (p->form) {
    case FORM_NONE:
        break;
    case FORM_U32:
        prom_count(b, series, *(const uint32_t *)value);
        break;
    case FORM_U64:
        prom_count(b, series, *(const uint64_t *)value);
        break;
    case FORM_HIST:
        if (((const struct hist *)value)->n > 0)
            add_hist(b, series, value, p->only);
        break;
    case FORM_BLOCKS:
        prom_count(b, series, *(const uint32_t *)value * m->stats.block_bytes);
        break;
    case FORM_SECONDS:
        prom_number(b, series, (double)*(const uint64_t *)value / 1e6);
        break;
    case FORM_SUM:
        prom_number(b, series, *(const double *)value);
        break;
    case FORM_USAGE:
        prom_number(b, series, usage_of(&m->stats));
        break;
    case FORM_COUNT:
        prom_count(b, series, p->count(m));
        break;
    case FORM_NUMBER:
        prom_number(b, series, p->number(m));
        break;
    }
}

/* Whether no model has values for the family; histograms have one sample per model. */
static bool family_is_empty(const struct metrics_family *f, const struct metrics_scene *scene)
{
    const struct metrics_sample *p = &f->samples[0];

    if (p->form != FORM_HIST)
        return false;
    for (uint32_t i = 0; i < scene->n_models; i++)
        if (((const struct hist *)family_value(p, &scene->models[i]))->n > 0)
            return false;
    return true;
}

static void add_family(const struct metrics_family *f, const struct metrics_scene *scene,
                       enum metrics_label label, struct buf *b)
{
    if (family_is_empty(f, scene))
        return;
    prom_family(b, f->name, f->type, f->help);
    for (uint32_t i = 0; i < scene->n_models; i++)
        for (size_t j = 0; j < METRICS_MAX_SAMPLES && f->samples[j].form != FORM_NONE; j++) {
            const bool is_named = label == METRICS_LABEL_MODEL_NAME;
            const struct prom_series series = {
                .name = f->name,
                .model = is_named ? scene->models[i].id : metrics_model_label(scene, i),
                .model_label = is_named ? "model_name" : NULL,
                .labels = f->samples[j].labels,
            };

            add_sample(b, &series, &f->samples[j], &scene->models[i]);
        }
}

void metrics_families_add(const struct metrics_family *f, size_t n,
                          const struct metrics_scene *scene, enum metrics_label label,
                          struct buf *b)
{
    for (size_t i = 0; i < n; i++)
        add_family(&f[i], scene, label, b);
}
