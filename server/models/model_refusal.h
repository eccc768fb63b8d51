/* server/models/model_refusal.h - the reasons for which a call does not get its model.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_MODELS_MODEL_REFUSAL_H
#define SERVER_MODELS_MODEL_REFUSAL_H

#include "server/api/refusal.h"
#include "server/models/served_model.h"

/* The model's file cannot be loaded; requests may not load the model; the model needs more memory
 * than there is. */
void model_refusal_failed(struct refusal *why, const struct served_model *h);
void model_refusal_not_loaded(struct refusal *why, const struct served_model *h);
void model_refusal_too_large(struct refusal *why, const struct served_model *h,
                             const struct model_memory *memory);
/* The process is shutting down. */
void model_refusal_stopping(struct refusal *why);
/* The queue for the model is full; the model may be loaded in wait_ms. */
void model_refusal_full(struct refusal *why, const struct served_model *h, uint32_t wait_ms);

#endif
