/* scheduler/drafts/mtp_drafter.c - see mtp_drafter.h.
 *
 * The runner keeps the layer's state beside the model's, so there are no slots here: guess()
 * collects the streams that want a guess of each depth and runs one runner_guess() for all of them.
 * n_behind() is 0 or DRAFT_FAR, as the layer's state for a stream is either that of its last step
 * or missing.
 */
#include "scheduler/drafts/mtp_drafter.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/runtime/batch.h"
#include "core/runtime/runner.h"
#include "scheduler/drafts/draft_stream.h"
#include "scheduler/request/plan_item.h"
#include "scheduler/request/request.h"

_Static_assert(DRAFT_MAX <= RUNNER_MAX_GUESSES, "the runner can guess as far");

struct mtp_drafter {
    struct mtp_drafter_options opt;
    struct draft_model_costs costs;
    /* ---- of the current call ---- */
    struct sampling sampling[DRAFT_ROWS]; /* by stream */
    struct runner_guess guesses[DRAFT_ROWS]; /* [n] streams that want another guess */
    uint32_t stream_of[DRAFT_ROWS];
    uint32_t n;
};

int mtp_drafter_create(struct mtp_drafter **out, const struct mtp_drafter_options *options)
{
    struct mtp_drafter *d = mem_calloc(1, sizeof(*d));

    *out = d;
    if (d == NULL)
        return ERR_NOMEM;
    d->opt = *options;
    d->costs.weight = options->weight;
    return 0;
}

void mtp_drafter_destroy(struct mtp_drafter **d)
{
    if (d == NULL)
        return;
    mem_free(*d);
    *d = NULL;
}

struct draft_model_costs *mtp_drafter_costs(struct mtp_drafter *d)
{
    return &d->costs;
}

static uint32_t n_behind(void *ud, const struct draft_stream *s)
{
    const struct mtp_drafter *d = ud;
    const struct plan_item *item = s->item;

    return runner_can_guess(d->opt.runner, item->slot, item->request->id, s->n_known - 1)
               ? 0
               : DRAFT_FAR;
}

/* Never called with work: a stream has nothing to take in, or the layer cannot guess for it. */
static bool take_in_guess(void *ud, const struct draft_stream *s, uint32_t n)
{
    (void)ud;
    (void)s;
    (void)n;
    return false;
}

static void add_mtp_row(struct mtp_drafter *d, const struct draft_stream *s, uint32_t i)
{
    const struct plan_item *item = s->item;
    const struct request *r = item->request;

    d->stream_of[d->n] = i;
    d->guesses[d->n++] = (struct runner_guess){
        .slot = item->slot,
        .owner = r->id,
        .table = item->table,
        .group_stride = item->group_stride,
        .ids = r->ids,
        .pos = s->n_known - 1,
        .n_made = s->draft.n,
        .sampling = &d->sampling[i],
        .counts = r->counts.list,
        .n_counts = r->counts.n,
        .n_discarded = item->n_discarded,
    };
}

/* Collect the streams that shall get guess number `depth`. */
static void collect_guesses(struct mtp_drafter *d, const struct draft_stream *streams, uint32_t n,
                            uint32_t depth)
{
    d->n = 0;
    for (uint32_t i = 0; i < n; i++)
        if (draft_stream_wants(&streams[i], depth))
            add_mtp_row(d, &streams[i], i);
}

static void guess(void *ud, struct draft_stream *streams, uint32_t n, uint32_t depth)
{
    struct mtp_drafter *d = ud;

    for (uint32_t i = 0; i < n; i++) {
        d->sampling[i] = draft_stream_sampling(streams[i].item->request);
        draft_stream_begin(&streams[i], DRAFT_MTP);
    }
    for (uint32_t k = 1; k <= depth; k++) {
        uint64_t from;

        collect_guesses(d, streams, n, k);
        if (d->n == 0)
            return;
        from = clock_us();
        runner_guess(d->opt.runner, d->guesses, d->n);
        draft_model_costs_guessed(&d->costs, d->n, clock_us() - from);
        for (uint32_t j = 0; j < d->n; j++)
            draft_stream_take(&streams[d->stream_of[j]], d->guesses[j].token,
                              d->guesses[j].logprob, d->opt.eog, d->opt.n_eog);
    }
}

struct draft_model mtp_drafter_get(struct mtp_drafter *d)
{
    return (struct draft_model){.ud = d,
                                .source = DRAFT_MTP,
                                .n_behind = n_behind,
                                .take_in = take_in_guess,
                                .guess = guess};
}
