/* core/runtime/batch.h - plain data between the scheduler's loop and the runner.
 *
 * A batch is a flat list of token rows, cut into spans: a span is a run of consecutive positions of
 * one sequence. Decode is a span of one row; a prompt chunk is a longer one. There are no phases.
 * Outputs name the rows whose logits are wanted and what to do with them.
 *
 * Drafts. The last tokens of a span may be guesses: each such row has an output, and so has the row
 * before the first of them. Outputs of a span are in the order of their rows. An output that
 * chooses another token than the guess makes the outputs behind it void: they choose nothing. A
 * token depends on the tokens before it alone, so the result is the same as without drafts.
 *
 * Thread: built by the engine loop, read by the runner and its workers, results written in place.
 * Memory: arrays of fixed capacity, taken at start by batch_create().
 */
#ifndef CORE_RUNTIME_BATCH_H
#define CORE_RUNTIME_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAMPLING_MAX_TOP 20   /* most alternatives reported beside a token */
#define SAMPLING_MAX_BIAS 300 /* most logit_bias entries */

struct adapter; /* core/model/adapter.h */

struct logit_bias {
    int32_t id;
    float bias; /* added to the logit; -inf bans */
};

/* The stages of a sampler chain; each works on the tokens that the stage before it left. */
enum sampling_stage {
    STAGE_NONE = 0,
    STAGE_TOP_N_SIGMA,
    STAGE_TOP_K,
    STAGE_TYPICAL,
    STAGE_TOP_P,
    STAGE_MIN_P,
    STAGE_XTC,
    STAGE_TEMPERATURE,
};
#define SAMPLING_MAX_CHAIN 16

/* A request's sampling parameters. Filled by the server, immutable afterwards. */
struct sampling {
    float temperature; /* 0 = greedy, ties to the lowest id; below 0 the same */
    float top_p;       /* 1 = off; 0 leaves the best */
    float min_p;       /* 0 = off */
    int32_t top_k;     /* 0 = off */
    float repetition_penalty; /* 1 = off: logit > 0 ? logit / p : logit * p */
    float frequency_penalty;  /* 0 = off: logit -= p * count among generated tokens */
    float presence_penalty;   /* 0 = off: logit -= p if generated before */
    float typical_p;          /* 0 and 1 = off */
    float xtc_probability, xtc_threshold; /* probability 0 = off */
    float mirostat_tau, mirostat_eta;     /* tau 0 = off, else top_k and the cuts behind it are */
    float dry_multiplier, dry_base;       /* multiplier 0 = off */
    uint32_t dry_allowed_length, dry_last_n;
    const uint32_t *dry_breakers; /* bits by token id, lives as long as the request */
    uint32_t penalty_last_n;  /* 0: penalties as said above. Else all three count so many last
                               * tokens of prompt and answer; UINT32_MAX: all of them */
    const uint32_t *allowed;  /* bits by token id, lives as long as the request; NULL: all */
    const int32_t *bad_words; /* runs of ids that must not appear, each behind its length; a length
                               * of 0 ends them; lives as long as the request; NULL: none */
    /* only for a chain: */
    uint32_t n_chain;    /* 0: no chain, the sampler uses its own order */
    uint8_t chain[SAMPLING_MAX_CHAIN]; /* enum sampling_stage */
    float top_n_sigma;   /* cut below this many standard deviations under the largest logit */
    float dynatemp_range, dynatemp_exponent; /* range 0 = off */
    uint32_t min_keep;   /* top_p, min_p, typical_p and XTC leave at least so many tokens; 0 counts
                          * as 1 */
    bool wants_shares;   /* report the shares after the chain in place of log-probabilities */
    uint64_t seed;
    int32_t n_top;       /* alternatives wanted with log-probabilities; -1 = no log-probs */
    const int32_t *top_ids; /* [n_top_ids] alternatives of a chosen token to report in place of the
                             * likeliest; at most SAMPLING_MAX_TOP; live as long as the request */
    uint32_t n_top_ids;
    uint32_t n_bias;
    struct logit_bias *bias; /* [n_bias], lives as long as the request */
};

struct top_logprob {
    int32_t id;
    float logprob;
};

/* Counts of the tokens in a sequence: a hash table with open addressing, sized when the request
 * begins. */
struct token_count { /* of a token that is in the prompt or in the answer */
    int32_t id;
    uint32_t n_prompt, n_generated;
};

struct batch_span {
    uint32_t row0, n_row; /* rows row0 .. row0 + n_row - 1 */
    uint32_t pos0;        /* position of the first one */
    const uint32_t *table; /* block table: in group i of layers position p is in block
                            * table[i * group_stride + p / 16] */
    uint32_t group_stride;
    uint32_t state;     /* slot of the sequence's state (kvcache/state_store.h). On entry it holds
                         * the state after the row before pos0; with pos0 == 0 it is cleared first;
                         * on return the state after the last row. No two spans have the same slot;
                         * 0: the model has no states */
    /* The hidden state for guesses is kept from step to step (runner.h) under the slot of the
     * running sequence and a number that no other sequence has; 0: no token of it will be guessed.
     */
    uint32_t slot;
    uint64_t owner;
    uint32_t second_at; /* position where an encoder's second text begins; 0: there is none */
    const struct adapter *adapter; /* adapter of the sequence, or NULL; its scale: */
    float adapter_scale;
};

struct constraint_state; /* core/grammar/constraint.h */
struct thought;          /* core/runtime/thought.h */

enum batch_want {
    BATCH_SAMPLE = 0, /* choose the next token */
    BATCH_SCORE = 1,  /* log-probability of `token`, which is known (echo) */
};

struct batch_output {
    /* filled by the loop */
    uint32_t row;
    enum batch_want want;
    const struct sampling *sampling;
    uint32_t pos; /* position of the token chosen or scored: the row's position + 1 */
    const struct token_count *counts; /* [n_counts], each id once; NULL when no penalty is on */
    uint32_t n_counts;
    const int32_t *history; /* [pos] tokens before it */
    uint32_t n_discarded;   /* tokens that stood before these once: random numbers are drawn for
                             * the position n_discarded + pos */
    float *mirostat_mu;     /* state of the request; each choice updates it */
    bool is_draft; /* the row's token is a guess: this output is void unless the output before it
                    * chose that token and the text may continue */
    uint32_t n_uncounted; /* drafts: the last generated tokens of history that counts lacks */
    bool ban_eog;  /* min_tokens is not reached: end-of-generation tokens may not be chosen */
    struct constraint_state *constraint; /* what may follow, or NULL; advanced by the chosen
                                          * token */
    struct thought *thought; /* the thought before the answer, or NULL; advanced by the chosen
                              * token */
    uint32_t seq; /* the loop's own mark: index into the plan */
    /* in for SCORE, out for SAMPLE */
    int32_t token;
    bool is_void; /* out: a guess before it was wrong; no other field is filled in */
    /* out, with a constraint */
    bool is_complete; /* the text is complete with this token: nothing may follow */
    bool is_broken;   /* no token was allowed: a bug, for the loop to report */
    /* out, when sampling->n_top >= 0: log-softmax of the raw logits, before any
     * temperature, penalty or filter */
    float logprob; /* with wants_shares a chosen token's share, as in top */
    uint32_t rank; /* SCORE: rank of `token` in that row; 1 is the likeliest, of equals the lower id
                    * is first */
    uint32_t n_top;
    struct top_logprob top[SAMPLING_MAX_TOP]; /* best first */
};

/* Rows of one span whose last hidden states, normed as for the output matrix, are added to `sum`
 * in ascending order: so a sum does not depend on how its rows were cut into batches. */
struct batch_pool {
    uint32_t row0, n_row; /* n_row >= 1 */
    float *sum;           /* [n_embd] */
    size_t next;          /* floats from one row's vector to the next, where each row is kept for
                           * itself; 0: all rows are added to one sum */
    float *labels;        /* [n_labels] scores of the classifier, which takes `scale` times the sum;
                           * NULL: not wanted, or not yet */
    float scale;
};

struct batch {
    uint32_t max_rows, max_spans, max_outputs;
    uint32_t n_rows, n_spans, n_outputs;
    uint32_t n_pools; /* at most one for each span */
    bool has_labels;  /* at least one pool has labels */
    bool has_adapters; /* some span has an adapter; spans with the same adapter are neighbours */
    int32_t *ids;        /* [n_rows] */
    uint32_t *pos;       /* [n_rows] */
    uint32_t *span_of;   /* [n_rows] index of the row's span */
    struct batch_span *spans;
    struct batch_output *outputs;
    struct batch_pool *pools;
};

int batch_create(struct batch **out, uint32_t max_rows, uint32_t max_spans, uint32_t max_outputs);
void batch_destroy(struct batch **b);
void batch_clear(struct batch *b);

/* Append a span; ids are copied. The caller keeps within the capacities (asserted). Returns the row
 * index of the first token. */
uint32_t batch_add_span(struct batch *b, const int32_t *ids, uint32_t n, uint32_t pos0,
                        const uint32_t *table, uint32_t group_stride);
/* Append an output for a row. The other fields are zeroed here, for the caller to fill. */
struct batch_output *batch_add_output(struct batch *b, uint32_t row);
/* Append a pool: rows that become one sum. The caller fills its other fields. */
struct batch_pool *batch_add_pool(struct batch *b, uint32_t row0, uint32_t n_row, float *sum);

#endif
