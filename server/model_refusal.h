/* server/model_refusal.h - why a call does not get its model.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_MODEL_REFUSAL_H
#define SERVER_MODEL_REFUSAL_H

#include "server/api/refusal.h"
#include "server/served_model.h"

/* Its file cannot be loaded; it is not loaded by requests; it takes more memory than there is. */
void model_refusal_failed(struct refusal *why, const struct served_model *h);
void model_refusal_not_loaded(struct refusal *why, const struct served_model *h);
void model_refusal_too_large(struct refusal *why, const struct served_model *h,
                             const struct model_memory *memory);
/* The process comes to its end. */
void model_refusal_stopping(struct refusal *why);
/* As many wait as may, and the model may be there in wait_ms. */
void model_refusal_full(struct refusal *why, const struct served_model *h, uint32_t wait_ms);

#endif
