/* server/models/model_choice.h - decides which model is loaded or unloaded next.
 *
 * Models are loaded in the order in which requests began to wait for them, without exception: a
 * later one that would fit now still waits. When memory has a limit, the least recently used model
 * without requests is unloaded. When all have requests, the one that was loaded first accepts no
 * new ones (it is "held") and is unloaded when its requests have been answered. A model stays for
 * at least MODEL_MIN_STAY_US and for as long as its load took, so that loads never take the larger
 * part of the time. Only one model is loaded or unloaded at a time.
 *
 * Pure: no clock, no files, no threads.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_MODELS_MODEL_CHOICE_H
#define SERVER_MODELS_MODEL_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

enum model_state {
    MODEL_UNLOADED = 0,
    MODEL_LOADING,
    MODEL_READY,
    MODEL_UNLOADING, /* its engine is ending */
    MODEL_FAILED,    /* it could not be loaded, and its file has not changed since */
};

#define MODEL_MIN_STAY_US 1000000u

struct model_view { /* one model's state at this moment */
    enum model_state state;
    bool is_busy;         /* it has requests */
    bool is_pinned;       /* it is unloaded only at an operator's request or when the settings drop
                           * it */
    bool wants_unload;    /* it is to be unloaded when it has no requests */
    bool is_known;        /* `bytes` is current for its file, and its last load did not fail */
    bool is_looked_at;    /* a thread is looking at its file */
    uint64_t bytes;       /* bytes that the model takes in memory */
    uint64_t wanted_us;   /* time since which a request waits for it; 0: none does */
    uint64_t used_us;     /* time at which its last request ended */
    uint64_t ready_us;    /* time at which its last load ended */
    uint64_t load_us;     /* duration of its last load */
    uint64_t idle_us;     /* idle time after which it is unloaded; UINT64_MAX: never */
};

enum model_step {
    MODEL_STEP_NONE = 0,
    MODEL_STEP_LOOK,   /* read the size of its file, or check whether a file that failed has
                        * changed */
    MODEL_STEP_LOAD,
    MODEL_STEP_UNLOAD,
    MODEL_STEP_HOLD,   /* it accepts no new requests until the next choice */
    MODEL_STEP_REFUSE, /* it needs more memory than the models that stay leave */
};

struct model_choice {
    enum model_step step;
    uint32_t i; /* index of the model */
};

struct model_memory {
    uint64_t limit; /* bytes for all models; 0: no limit */
    uint64_t base;  /* bytes that the process takes without any model */
};

struct model_choice model_choose(const struct model_view *v, uint32_t n,
                                 const struct model_memory *m, uint64_t now_us);

/* Return the time at which the choice may change without an event: the next end of an idle time or
 * of a minimum stay; UINT64_MAX: never. */
uint64_t model_choice_next_us(const struct model_view *v, uint32_t n, uint64_t now_us);

#endif
