/* server/metrics/metrics_impl.h - the part of GET /metrics that is about models: metrics.c's other
 * half.
 *
 * Each function adds some families in the order of the page, and in each the samples of all models.
 * With several models each sample has the label model="ID" first; with one model there is no such
 * label, as dashboards expect.
 *
 * Thread: the loop's.
 * Memory: the text.
 */
#ifndef SERVER_METRICS_METRICS_IMPL_H
#define SERVER_METRICS_METRICS_IMPL_H

struct buf;
struct metrics_scene;

void metrics_models_add_infos(const struct metrics_scene *scene, struct buf *b);
/* Add the engines' own statistics. */
void metrics_models_add_engines(const struct metrics_scene *scene, struct buf *b);
/* Add how requests ended, and why they were refused: by the models, and by the server before. */
void metrics_models_add_outcomes(const struct metrics_scene *scene, struct buf *b);
/* Add sizes and durations of requests. */
void metrics_models_add_requests(const struct metrics_scene *scene, struct buf *b);

/* Add the metrics that have names in vLLM's or llama-server's page, if scene->names asks for
 * them. */
void metrics_peers_add(const struct metrics_scene *scene, struct buf *b);

#endif
