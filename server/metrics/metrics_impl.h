/* server/metrics/metrics_impl.h - the part of GET /metrics that is about models: metrics.c's
 * other half.
 *
 * Each function adds some families in the order of the page, and in each the samples of all
 * models. These carry the label model="ID" first when there are several models, so that the page of
 * a server with one stays as every dashboard knows it.
 *
 * Thread: the loop's.
 * Memory: the text.
 */
#ifndef SERVER_METRICS_METRICS_IMPL_H
#define SERVER_METRICS_METRICS_IMPL_H

struct buf;
struct metrics_scene;

void metrics_models_add_infos(const struct metrics_scene *scene, struct buf *b);
/* What the engines say of themselves. */
void metrics_models_add_engines(const struct metrics_scene *scene, struct buf *b);
/* How requests ended, and why they were refused: by the models, and by the server before. */
void metrics_models_add_outcomes(const struct metrics_scene *scene, struct buf *b);
/* What was in the requests, and how long they took. */
void metrics_models_add_requests(const struct metrics_scene *scene, struct buf *b);

/* What has a name in vLLM's or llama-server's page too, where scene->names asks for it. */
void metrics_peers_add(const struct metrics_scene *scene, struct buf *b);

#endif
