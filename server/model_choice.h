/* server/model_choice.h - what is done next so that models come and go: which one is loaded, and
 * which one leaves for it.
 *
 * Those that are waited for come in the order in which somebody began to wait, and strictly: a
 * younger one that would fit goes no earlier. Where memory has a limit, the model that was used
 * longest ago leaves, of those without requests. Where all have some, the one that has been there
 * longest takes no new ones for the moment (it is held), and leaves when those are answered; it may
 * stay for MODEL_MIN_STAY_US and for as long as its load took, so that loads never take the larger
 * part of the time. One is loaded or unloaded at a time.
 *
 * Pure: no clock, no files, no threads.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_MODEL_CHOICE_H
#define SERVER_MODEL_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

enum model_state {
    MODEL_UNLOADED = 0,
    MODEL_LOADING,
    MODEL_READY,
    MODEL_UNLOADING, /* its engine is being ended */
    MODEL_FAILED,    /* it could not be loaded, and its file is as it was then */
};

#define MODEL_MIN_STAY_US 1000000u

struct model_view { /* of one model, as it is now */
    enum model_state state;
    bool is_busy;         /* it has requests */
    bool is_pinned;       /* it stays, unless it is told to leave */
    bool wants_unload;    /* it was told to */
    bool is_known;        /* `bytes` is of its file as it is, and it was not found to fail */
    bool is_looked_at;    /* that is being found out */
    uint64_t bytes;       /* that it takes in memory */
    uint64_t wanted_us;   /* since when it is waited for; 0: it is not */
    uint64_t used_us;     /* when its last request ended */
    uint64_t ready_us;    /* since when it is there */
    uint64_t load_us;     /* that its load took */
    uint64_t idle_us;     /* after which it leaves; UINT64_MAX: never */
};

enum model_step {
    MODEL_STEP_NONE = 0,
    MODEL_STEP_LOOK,   /* find out what its file takes, or whether a file that failed has changed */
    MODEL_STEP_LOAD,
    MODEL_STEP_UNLOAD,
    MODEL_STEP_HOLD,   /* it takes no new requests until the next choice says otherwise */
    MODEL_STEP_REFUSE, /* it takes more than there is beside those that stay */
};

struct model_choice {
    enum model_step step;
    uint32_t i; /* which */
};

struct model_memory {
    uint64_t limit; /* for all; 0: there is none */
    uint64_t base;  /* that the process takes without any */
};

struct model_choice model_choose(const struct model_view *v, uint32_t n,
                                 const struct model_memory *m, uint64_t now_us);

/* When there may be another choice than the present one without anything happening: the next idle
 * time, or end of a stay, that will be over; UINT64_MAX: never. */
uint64_t model_choice_next_us(const struct model_view *v, uint32_t n, uint64_t now_us);

#endif
