/* core/runtime/batch.h - plain data between the scheduler's loop and the runner.
 *
 * A batch is a flat list of token rows, cut into spans: a span is a run of consecutive positions of
 * one sequence. Decode is a span of one row; a prompt chunk is a longer one. There are no phases.
 * Outputs name the rows whose logits are wanted and what to do with them.
 *
 * Drafts. The last tokens of a span may be guesses: each such row has an output, and so has the row
 * before the first of them. Outputs of a span are in the order of their rows. An output that
 * chooses another token than the guess makes the span's later outputs void: they choose nothing. A
 * token depends only on the tokens before it, so the result is the same as without drafts.
 *
 * Thread: built by the engine loop, read by the runner and its workers, results written in place.
 * Memory: arrays of fixed capacity, taken at start by batch_create().
 */
#ifndef CORE_RUNTIME_BATCH_H
#define CORE_RUNTIME_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAMPLING_MAX_TOP 20   /* most alternatives reported for one token */
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
    float temperature; /* 0 or below: greedy, of equal logits the lowest id */
    float top_p;       /* 1 = off; 0 leaves only the best token */
    float min_p;       /* 0 = off */
    int32_t top_k;     /* 0 = off */
    float repetition_penalty; /* 1 = off: logit > 0 ? logit / p : logit * p */
    float frequency_penalty;  /* 0 = off: logit -= p * count among generated tokens */
    float presence_penalty;   /* 0 = off: logit -= p if generated before */
    float typical_p;          /* 0 and 1 = off */
    float xtc_probability, xtc_threshold; /* probability 0 = off */
    float mirostat_tau, mirostat_eta;     /* tau 0 = off; else top_k and all later cuts are off */
    float dry_multiplier, dry_base;       /* multiplier 0 = off */
    uint32_t dry_allowed_length, dry_last_n;
    const uint32_t *dry_breakers; /* bits by token id, lives as long as the request */
    uint32_t penalty_last_n;  /* 0: as each penalty says. Else all three count the last
                               * penalty_last_n tokens of prompt and answer; UINT32_MAX: all
                               * tokens */
    const uint32_t *allowed;  /* bits by token id, lives as long as the request; NULL: all */
    const int32_t *bad_words; /* banned runs of ids, each preceded by its length; a length of 0 ends
                               * the list; lives as long as the request; NULL: none */
    /* used only with a chain (n_chain > 0): */
    uint32_t n_chain;    /* 0: no chain, the sampler uses its own order */
    uint8_t chain[SAMPLING_MAX_CHAIN]; /* enum sampling_stage */
    float top_n_sigma;   /* drop tokens more than this many standard deviations below the largest
                          * logit */
    float dynatemp_range, dynatemp_exponent; /* range 0 = off */
    uint32_t min_keep;   /* top_p, min_p, typical_p and XTC leave at least so many tokens; 0 counts
                          * as 1 */
    bool wants_shares;   /* report each token's share after the chain instead of its
                          * log-probability */
    uint64_t seed;
    int32_t n_top;       /* number of alternatives to report with log-probabilities; -1: report
                          * none */
    const int32_t *top_ids; /* [n_top_ids] ids to report as alternatives instead of the likeliest;
                             * at most SAMPLING_MAX_TOP; live as long as the request */
    uint32_t n_top_ids;
    const int32_t *label_ids; /* [n_labels] ids whose log-probabilities decide; live as long as the
                               * request */
    float *label_logprobs;    /* [n_labels] filled when the first token is chosen; the server's */
    uint32_t n_labels;        /* 0: the request decides nothing */
    uint32_t n_bias;
    struct logit_bias *bias; /* [n_bias], lives as long as the request */
};

struct top_logprob {
    int32_t id;
    float logprob;
};

/* Counts of the tokens in a sequence: a hash table with open addressing, sized when the request
 * begins. */
struct token_count { /* one token that is in the prompt or in the answer */
    int32_t id;
    uint32_t n_prompt, n_generated;
};

struct batch_span {
    uint32_t row0, n_row; /* rows row0 .. row0 + n_row - 1 */
    uint32_t pos0;        /* position of row row0 */
    const uint32_t *table; /* block table: layer group i has position p in block
                            * table[i * group_stride + p / 16] */
    uint32_t group_stride;
    uint32_t state;     /* slot of the sequence's state (kvcache/state_store.h); 0: the model has no
                         * states. On entry the slot holds the state before pos0 (at pos0 0 the step
                         * clears it), on return the state after the last row. No two spans have the
                         * same slot */
    /* The runner keeps the hidden state for guesses from step to step (runner.h) under the slot and
     * `owner`, a number that no other sequence has. owner 0: no token of this sequence will be
     * guessed.
     */
    uint32_t slot;
    uint64_t owner;
    uint32_t second_at; /* encoders: position where the second text begins; 0: only one text */
    uint32_t question;  /* models with a head for decisions: the kind of question (model.h) */
    const struct adapter *adapter; /* LoRA adapter of the sequence, or NULL */
    float adapter_scale;
};

struct constraint_state; /* core/grammar/constraint.h */
struct thought;          /* core/runtime/thought.h */

enum batch_want {
    BATCH_SAMPLE = 0, /* choose the next token from the row's logits */
    BATCH_SCORE = 1,  /* compute the log-probability of the known `token` (echo) */
};

struct batch_output {
    /* filled by the loop */
    uint32_t row;
    enum batch_want want;
    const struct sampling *sampling;
    uint32_t pos; /* position of the token chosen or scored: the row's position + 1 */
    const struct token_count *counts; /* [n_counts], each id once; NULL when no penalty is on */
    uint32_t n_counts;
    const int32_t *history; /* [pos] the tokens before position `pos` */
    uint32_t n_discarded;   /* tokens that context shifts removed: the random number is that of
                             * position n_discarded + pos */
    float *mirostat_mu;     /* mirostat's state of the request; each choice updates it */
    bool is_draft; /* the row's token is a guess: this output is void unless the output before it
                    * chose that token and the text may continue */
    uint32_t n_uncounted; /* drafts: so many last tokens of `history` are not in `counts` yet */
    bool ban_eog;  /* min_tokens is not reached: end-of-generation tokens may not be chosen */
    struct constraint_state *constraint; /* says which tokens are allowed; NULL: all. The chosen
                                          * token advances it */
    struct thought *thought; /* the thought before the answer, or NULL. The chosen token advances
                              * it */
    uint32_t seq; /* index of the sequence in the step plan, for the engine loop */
    /* token to score (SCORE), or the chosen token (SAMPLE) */
    int32_t token;
    bool is_void; /* out: an earlier guess of the span was wrong; no other field is filled in */
    /* out, with a constraint */
    bool is_complete; /* the text is complete with this token: nothing may follow */
    bool is_broken;   /* no token was allowed: a bug, for the loop to report */
    /* out, when sampling->n_top >= 0: log-softmax of the raw logits, before any
     * temperature, penalty or filter */
    float logprob; /* of `token`; with wants_shares its share after the chain */
    uint32_t rank; /* SCORE: rank of `token` in the row; 1 is the likeliest; of equal ones the lower
                    * id ranks first */
    uint32_t n_top;
    struct top_logprob top[SAMPLING_MAX_TOP]; /* best first */
};

/* Rows of one span whose last hidden states, normed as for the output matrix, the step adds to
 * `sum` in ascending order, so that the sum does not depend on how a prompt was cut into
 * batches. */
struct batch_pool {
    uint32_t row0, n_row; /* n_row >= 1 */
    float *sum;           /* [n_embd]; NULL: n_row is 1, and only the labels are wanted */
    size_t next;          /* 0: all rows are added to one sum. Else each row has a vector of its
                           * own, `next` floats after that of the row before it */
    uint8_t token_head;   /* enum token_head (core/model/model.h); not 0: the outputs of that head
                           * for each row are added to its vector instead of the state; `next` is
                           * not 0, and there are no labels */
    float *labels;        /* out: [n_labels] scores of the classifier for `scale` times the sum;
                           * NULL: not wanted, or rows of the prompt are still missing */
    float scale;
};

struct batch {
    uint32_t max_rows, max_spans, max_outputs;
    uint32_t n_rows, n_spans, n_outputs;
    uint32_t n_pools; /* pools do not overlap */
    bool has_labels;  /* at least one pool has labels */
    bool has_token_heads; /* at least one pool has a token head */
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

/* Append a span of n rows; ids are copied. Asserts that rows and spans stay within the capacities.
 * Returns the row index of the first token. */
uint32_t batch_add_span(struct batch *b, const int32_t *ids, uint32_t n, uint32_t pos0,
                        const uint32_t *table, uint32_t group_stride);
/* Append an output for a row. All other fields are zero; the caller fills them. */
struct batch_output *batch_add_output(struct batch *b, uint32_t row);
/* Append a pool for rows row0 .. row0 + n_row - 1. The caller fills its other fields. */
struct batch_pool *batch_add_pool(struct batch *b, uint32_t row0, uint32_t n_row, float *sum);

#endif
