/* config/words.h - the words that settings of type ENUM may have: as text, and as an enum each.
 *
 * WORDS_x(W) lists the words of enum config_x in the order in which --help shows them; a row of
 * options.inc names the list. config_x is what struct config holds.
 *
 * Thread: any. Memory: none.
 */
#ifndef CONFIG_WORDS_H
#define CONFIG_WORDS_H

#define WORDS_switch(W) W(ON, "on") W(OFF, "off")
#define WORDS_load_type(W)                                                                         \
    W(LOAD_AS_IS, "as-is") W(LOAD_Q8_0, "q8_0") W(LOAD_Q6_K, "q6_k") W(LOAD_Q4_0, "q4_0")
#define WORDS_load(W)                                                                              \
    W(LOAD_AUTO, "auto") W(LOAD_START, "start") W(LOAD_DEMAND, "demand") W(LOAD_NEVER, "never")
#define WORDS_pooling(W)                                                                           \
    W(POOLING_AUTO, "auto") W(POOLING_MEAN, "mean") W(POOLING_FIRST, "first")                      \
    W(POOLING_LAST, "last") W(POOLING_NONE, "none")
#define WORDS_reasoning(W)                                                                         \
    W(REASONING_AUTO, "auto") W(REASONING_ON, "on") W(REASONING_OFF, "off")
#define WORDS_kv_events(W) W(KV_EVENTS_OFF, "off") W(KV_EVENTS_ON, "on") W(KV_EVENTS_FULL, "full")
#define WORDS_pin(W) W(PIN_NONE, "none") W(PIN_CORES, "cores")
#define WORDS_numa(W)                                                                              \
    W(NUMA_AUTO, "auto") W(NUMA_LOCAL, "local") W(NUMA_INTERLEAVE, "interleave")                 \
    W(NUMA_OFF, "off")
#define WORDS_isa(W)                                                                               \
    W(ISA_AUTO, "auto") W(ISA_SCALAR, "scalar") W(ISA_AVX2, "avx2") W(ISA_AVXVNNI, "avxvnni")      \
    W(ISA_AVX512, "avx512") W(ISA_AMX, "amx") W(ISA_NEON, "neon") W(ISA_DOTPROD, "dotprod")       \
    W(ISA_I8MM, "i8mm")
#define WORDS_kv_type(W)                                                                           \
    W(KV_F16, "f16") W(KV_BF16, "bf16") W(KV_Q8_0, "q8_0") W(KV_Q4_0, "q4_0") W(KV_F32, "f32")
#define WORDS_placement(W)                                                                         \
    W(PLACEMENT_FIRST_FIT, "first_fit") W(PLACEMENT_BEST_FIT, "best_fit")                          \
    W(PLACEMENT_ROUND_ROBIN, "round_robin")
#define WORDS_policy(W)                                                                            \
    W(POLICY_FCFS, "fcfs") W(POLICY_SJF, "sjf") W(POLICY_PRIORITY, "priority")                     \
    W(POLICY_ADAPTIVE, "adaptive")
#define WORDS_preemption(W)                                                                        \
    W(PREEMPTION_AUTO, "auto") W(PREEMPTION_RECOMPUTE, "recompute") W(PREEMPTION_SWAP, "swap")
#define WORDS_speculation(W) W(SPECULATION_AUTO, "auto") W(SPECULATION_OFF, "off")
#define WORDS_log_level(W)                                                                         \
    W(LOG_DEBUG, "debug") W(LOG_INFO, "info") W(LOG_WARN, "warn") W(LOG_ERROR, "error")            \
    W(LOG_OFF, "off")
#define WORDS_log_format(W) W(LOG_PLAIN, "plain") W(LOG_JSON, "json")
#define WORDS_sandbox(W)                                                                           \
    W(SANDBOX_AUTO, "auto") W(SANDBOX_STRICT, "strict") W(SANDBOX_OFF, "off")

#define CONFIG_WORD_ID(id, text) CONFIG_##id,
#define CONFIG_WORD_TEXT(id, text) "|" text

/* CONFIG_ON, CONFIG_POLICY_FCFS, … */
enum config_switch { WORDS_switch(CONFIG_WORD_ID) };
enum config_load_type { WORDS_load_type(CONFIG_WORD_ID) };
enum config_load { WORDS_load(CONFIG_WORD_ID) };
enum config_pooling { WORDS_pooling(CONFIG_WORD_ID) };
enum config_reasoning { WORDS_reasoning(CONFIG_WORD_ID) };
enum config_pin { WORDS_pin(CONFIG_WORD_ID) };
enum config_numa { WORDS_numa(CONFIG_WORD_ID) };
enum config_isa { WORDS_isa(CONFIG_WORD_ID) };
enum config_kv_type { WORDS_kv_type(CONFIG_WORD_ID) };
enum config_placement { WORDS_placement(CONFIG_WORD_ID) };
enum config_policy { WORDS_policy(CONFIG_WORD_ID) };
enum config_preemption { WORDS_preemption(CONFIG_WORD_ID) };
enum config_speculation { WORDS_speculation(CONFIG_WORD_ID) };
enum config_log_level { WORDS_log_level(CONFIG_WORD_ID) };
enum config_log_format { WORDS_log_format(CONFIG_WORD_ID) };
enum config_kv_events { WORDS_kv_events(CONFIG_WORD_ID) };
enum config_sandbox { WORDS_sandbox(CONFIG_WORD_ID) };

/* "a|b|c" */
#define CONFIG_WORDS(list) (&WORDS_##list(CONFIG_WORD_TEXT)[1])

/* Return the index of a word in the list "a|b|c"; -1: it is not in the list. */
int config_word_find(const char *words, const char *word);

#endif
