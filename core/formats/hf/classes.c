/* core/formats/hf/classes.c - see classes.h.
 *
 * Almost all of the file is tables: first the names of tensors, in lists that families share, then
 * one row for each class. A new architecture that is computed already needs a row here and, for
 * settings of its own, a function in a config_*.c; names.c interprets the lists.
 */
#include "core/formats/hf/classes.h"

#include "core/formats/hf/config.h"
#include "core/formats/hf/hf_impl.h"

#include <string.h>

/* ---- names of tensors ---- */

#define EMBED                                                                                      \
    {                                                                                              \
        "embed_tokens", "token_embd", 0                                                            \
    }
#define OUTPUT                                                                                     \
    {"lm_head", "output", 0},                                                                      \
    {                                                                                              \
        ".self_attn.rotary_emb.inv_freq", NULL, 0                                                  \
    }
#define NORM                                                                                       \
    {                                                                                              \
        "norm", "output_norm", 0                                                                   \
    }
#define ENDS EMBED, NORM, OUTPUT
#define QKV                                                                                        \
    {".self_attn.q_proj", "attn_q", 0}, {".self_attn.k_proj", "attn_k", 0},                        \
    {                                                                                              \
        ".self_attn.v_proj", "attn_v", 0                                                           \
    }
#define ATTENTION                                                                                  \
    QKV,                                                                                           \
    {                                                                                              \
        ".self_attn.o_proj", "attn_output", 0                                                      \
    }
#define QK_NORMS                                                                                   \
    {".self_attn.q_norm", "attn_q_norm", 0},                                                       \
    {                                                                                              \
        ".self_attn.k_norm", "attn_k_norm", 0                                                      \
    }
#define PRE_NORMS                                                                                  \
    {".input_layernorm", "attn_norm", 0},                                                          \
    {                                                                                              \
        ".post_attention_layernorm", "ffn_norm", 0                                                 \
    }
#define GATED                                                                                      \
    {".mlp.gate_proj", "ffn_gate", 0}, {".mlp.up_proj", "ffn_up", 0},                              \
    {                                                                                              \
        ".mlp.down_proj", "ffn_down", 0                                                            \
    }
#define EXPERTS                                                                                    \
    {".mlp.gate", "ffn_gate_inp", 0}, {".mlp.experts.*.gate_proj", "ffn_gate_exps", 0},            \
        {".mlp.experts.*.up_proj", "ffn_up_exps", 0},                                              \
    {                                                                                              \
        ".mlp.experts.*.down_proj", "ffn_down_exps", 0                                             \
    }
#define SHARED(name)                                                                               \
    {".mlp." name ".gate_proj", "ffn_gate_shexp", 0},                                              \
        {".mlp." name ".up_proj", "ffn_up_shexp", 0},                                              \
    {                                                                                              \
        ".mlp." name ".down_proj", "ffn_down_shexp", 0                                             \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, 0                                                                              \
    }

static const struct hf_name llama[] = {ENDS, ATTENTION, QK_NORMS, PRE_NORMS, GATED, END};

static const struct hf_name mixtral[] = {ENDS,
                                         ATTENTION,
                                         PRE_NORMS,
                                         {".block_sparse_moe.gate", "ffn_gate_inp", 0},
                                         {".block_sparse_moe.experts.*.w1", "ffn_gate_exps", 0},
                                         {".block_sparse_moe.experts.*.w2", "ffn_down_exps", 0},
                                         {".block_sparse_moe.experts.*.w3", "ffn_up_exps", 0},
                                         END};

static const struct hf_name qwen_moe[] = {ENDS,
                                          ATTENTION,
                                          QK_NORMS,
                                          PRE_NORMS,
                                          EXPERTS,
                                          SHARED("shared_expert"),
                                          {".mlp.shared_expert_gate", "ffn_gate_inp_shexp", 0},
                                          END};

static const struct hf_name gpt_oss[] = {
    ENDS,
    ATTENTION,
    {".input_layernorm", "attn_norm", 0},
    {".post_attention_layernorm", "post_attention_norm", 0},
    {".self_attn.sinks", "attn_sinks.weight", 0},
    {".mlp.router", "ffn_gate_inp", 0},
    {".mlp.experts.gate_up_proj.weight", "ffn_gate_up_exps.weight", FIT_PAIRS},
    {".mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", FIT_TURNED_PAIRS}, /* only unquantised
                                                                                 * weights */
    {".mlp.experts.gate_up_proj_bias", "ffn_gate_up_exps.bias", FIT_PAIRS},
    {".mlp.experts.down_proj.weight", "ffn_down_exps.weight", 0},
    {".mlp.experts.down_proj", "ffn_down_exps.weight", FIT_TURNED},
    {".mlp.experts.down_proj_bias", "ffn_down_exps.bias", 0},
    END};

static const struct hf_name gemma[] = {EMBED,
                                       {"norm", "output_norm", FIT_PLUS_ONE},
                                       OUTPUT,
                                       ATTENTION,
                                       GATED,
                                       {".input_layernorm", "attn_norm", FIT_PLUS_ONE},
                                       {".post_attention_layernorm", "ffn_norm", FIT_PLUS_ONE},
                                       END};

static const struct hf_name gemma2[] = {
    EMBED,
    {"norm", "output_norm", FIT_PLUS_ONE},
    OUTPUT,
    ATTENTION,
    GATED,
    {".input_layernorm", "attn_norm", FIT_PLUS_ONE},
    {".post_attention_layernorm", "post_attention_norm", FIT_PLUS_ONE},
    {".pre_feedforward_layernorm", "ffn_norm", FIT_PLUS_ONE},
    {".post_feedforward_layernorm", "post_ffw_norm", FIT_PLUS_ONE},
    {".self_attn.q_norm", "attn_q_norm", FIT_PLUS_ONE}, /* Gemma 3 */
    {".self_attn.k_norm", "attn_k_norm", FIT_PLUS_ONE},
    END};

static const struct hf_name phi3[] = {
    ENDS,      {".self_attn.qkv_proj", "attn_qkv", 0}, {".self_attn.o_proj", "attn_output", 0},
    PRE_NORMS, {".mlp.gate_up_proj", "ffn_up", 0},     {".mlp.down_proj", "ffn_down", 0},
    END};

static const struct hf_name granite_moe[] = {
    ENDS,
    ATTENTION,
    PRE_NORMS,
    {".block_sparse_moe.router.layer", "ffn_gate_inp", 0},
    {".block_sparse_moe.input_linear", "ffn_gate_up_exps", 0},
    {".block_sparse_moe.output_linear", "ffn_down_exps", 0},
    END};

static const struct hf_name olmo2[] = {ENDS,
                                       ATTENTION,
                                       QK_NORMS,
                                       GATED,
                                       {".post_attention_layernorm", "post_attention_norm", 0},
                                       {".post_feedforward_layernorm", "post_ffw_norm", 0},
                                       END};

static const struct hf_name glm4[] = {
    ENDS,
    ATTENTION,
    {".input_layernorm", "attn_norm", 0},
    {".post_self_attn_layernorm", "post_attention_norm", 0},
    {".post_attention_layernorm", "ffn_norm", 0},
    {".post_mlp_layernorm", "post_ffw_norm", 0},
    {".mlp.gate_up_proj", "ffn_up", 0},
    {".mlp.down_proj", "ffn_down", 0},
    END};

static const struct hf_name seed_oss[] = {
    ENDS,  ATTENTION, {".input_layernorm", "attn_norm", 0},
    GATED, {".post_attention_layernorm", "post_attention_norm", 0},
    END};

static const struct hf_name cohere[] = {
    ENDS, ATTENTION, QK_NORMS, GATED, {".input_layernorm", "attn_norm", 0}, END};

static const struct hf_name internlm2[] = {{"tok_embeddings", "token_embd", 0},
                                           NORM,
                                           {"output", "output", 0},
                                           {".attention.wqkv", "attn_qkv", FIT_GROUP_QKV},
                                           {".attention.wo", "attn_output", 0},
                                           {".feed_forward.w1", "ffn_gate", 0},
                                           {".feed_forward.w2", "ffn_down", 0},
                                           {".feed_forward.w3", "ffn_up", 0},
                                           {".attention_norm", "attn_norm", 0},
                                           {".ffn_norm", "ffn_norm", 0},
                                           END};

static const struct hf_name exaone[] = {{"wte", "token_embd", 0},
                                        {"ln_f", "output_norm", 0},
                                        OUTPUT,
                                        {"rotary.inv_freq", NULL, 0},
                                        {".attn.attention.q_proj", "attn_q", 0},
                                        {".attn.attention.k_proj", "attn_k", 0},
                                        {".attn.attention.v_proj", "attn_v", 0},
                                        {".attn.attention.out_proj", "attn_output", 0},
                                        {".attn.attention.rotary.inv_freq", NULL, 0},
                                        {".ln_1", "attn_norm", 0},
                                        {".ln_2", "ffn_norm", 0},
                                        {".mlp.c_fc_0", "ffn_gate", 0},
                                        {".mlp.c_fc_1", "ffn_up", 0},
                                        {".mlp.c_proj", "ffn_down", 0},
                                        END};

static const struct hf_name stablelm[] = {
    ENDS,
    ATTENTION,
    PRE_NORMS,
    GATED,
    {".self_attn.q_layernorm.norms.*.weight", "attn_q_norm.weight", 0},
    {".self_attn.k_layernorm.norms.*.weight", "attn_k_norm.weight", 0},
    END};

static const struct hf_name starcoder2[] = {
    ENDS, ATTENTION, PRE_NORMS, {".mlp.c_fc", "ffn_up", 0}, {".mlp.c_proj", "ffn_down", 0}, END};

static const struct hf_name phi[] = {EMBED,
                                     OUTPUT,
                                     {"final_layernorm", "output_norm", 0},
                                     QKV,
                                     {".self_attn.dense", "attn_output", 0},
                                     {".input_layernorm", "attn_norm", 0},
                                     {".mlp.fc1", "ffn_up", 0},
                                     {".mlp.fc2", "ffn_down", 0},
                                     END};

static const struct hf_name gpt_neox[] = {{"embed_in", "token_embd", 0},
                                          {"embed_out", "output", 0},
                                          {"final_layer_norm", "output_norm", 0},
                                          {".attention.query_key_value", "attn_qkv", FIT_HEAD_QKV},
                                          {".attention.dense", "attn_output", 0},
                                          {".attention.bias", NULL, 0},
                                          {".attention.masked_bias", NULL, 0},
                                          {".attention.rotary_emb.inv_freq", NULL, 0},
                                          PRE_NORMS,
                                          {".mlp.dense_h_to_4h", "ffn_up", 0},
                                          {".mlp.dense_4h_to_h", "ffn_down", 0},
                                          END};

static const struct hf_name lfm2[] = {EMBED,
                                      {"embedding_norm", "token_embd_norm", 0},
                                      OUTPUT,
                                      QKV,
                                      {".self_attn.out_proj", "attn_output", 0},
                                      {".self_attn.q_layernorm", "attn_q_norm", 0},
                                      {".self_attn.k_layernorm", "attn_k_norm", 0},
                                      {".operator_norm", "attn_norm", 0},
                                      {".ffn_norm", "ffn_norm", 0},
                                      {".conv.in_proj.weight", "shortconv.in_proj.weight", 0},
                                      {".conv.conv.weight", "shortconv.conv.weight", 0},
                                      {".conv.out_proj.weight", "shortconv.out_proj.weight", 0},
                                      {".feed_forward.w1", "ffn_gate", 0},
                                      {".feed_forward.w2", "ffn_down", 0},
                                      {".feed_forward.w3", "ffn_up", 0},
                                      {".feed_forward.gate", "ffn_gate_inp", 0}, /* the experts'
                                                                                  * router */
                                      {".feed_forward.expert_bias", "exp_probs_b.bias", 0},
                                      {".feed_forward.experts.*.w1", "ffn_gate_exps", 0},
                                      {".feed_forward.experts.*.w2", "ffn_down_exps", 0},
                                      {".feed_forward.experts.*.w3", "ffn_up_exps", 0},
                                      END};

static const struct hf_name qwen_next[] = {
    EMBED,
    {"norm", "output_norm", FIT_PLUS_ONE},
    OUTPUT,
    ATTENTION,
    {".self_attn.q_norm", "attn_q_norm", FIT_PLUS_ONE},
    {".self_attn.k_norm", "attn_k_norm", FIT_PLUS_ONE},
    {".input_layernorm", "attn_norm", FIT_PLUS_ONE},
    {".post_attention_layernorm", "post_attention_norm", FIT_PLUS_ONE},
    {".linear_attn.in_proj_qkvz", "ssm_in", 0}, /* Qwen3-Next */
    {".linear_attn.in_proj_ba", "ssm_ba", 0},
    {".linear_attn.in_proj_qkv", "attn_qkv", 0}, /* Qwen3.5 */
    {".linear_attn.in_proj_z", "attn_gate", 0},
    {".linear_attn.in_proj_b", "ssm_beta", 0},
    {".linear_attn.in_proj_a", "ssm_alpha", 0},
    {".linear_attn.conv1d", "ssm_conv1d", 0},
    {".linear_attn.dt_bias", "ssm_dt.bias", 0},
    {".linear_attn.A_log", "ssm_a", FIT_MINUS_EXP},
    {".linear_attn.norm", "ssm_norm", 0},
    {".linear_attn.out_proj", "ssm_out", 0},
    GATED,
    EXPERTS,
    {".mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", 0}, /* Qwen3.5 */
    {".mlp.experts.down_proj", "ffn_down_exps.weight", 0},
    SHARED("shared_expert"),
    {".mlp.shared_expert_gate", "ffn_gate_inp_shexp", 0},
    END};

#define GPT_ENDS                                                                                   \
    {"wte", "token_embd", 0}, {"wpe", "position_embd", 0}, {"ln_f", "output_norm", 0}, OUTPUT,     \
        {".ln_1", "attn_norm", 0}, {".ln_2", "ffn_norm", 0}, {".attn.bias", NULL, 0},              \
    {                                                                                              \
        ".attn.masked_bias", NULL, 0                                                               \
    }

static const struct hf_name gpt2[] = {GPT_ENDS,
                                      {".attn.c_attn", "attn_qkv", FIT_TURNED},
                                      {".attn.c_proj", "attn_output", FIT_TURNED},
                                      {".mlp.c_fc", "ffn_up", FIT_TURNED},
                                      {".mlp.c_proj", "ffn_down", FIT_TURNED},
                                      END};

static const struct hf_name gpt_bigcode[] = {GPT_ENDS,
                                             {".attn.c_attn", "attn_qkv", 0},
                                             {".attn.c_proj", "attn_output", 0},
                                             {".mlp.c_fc", "ffn_up", 0},
                                             {".mlp.c_proj", "ffn_down", 0},
                                             END};

static const struct hf_name falcon[] = {
    {"word_embeddings", "token_embd", 0},
    {"ln_f", "output_norm", 0},
    OUTPUT,
    {".self_attention.query_key_value", "attn_qkv", FIT_GROUP_QKV},
    {".self_attention.dense", "attn_output", 0},
    {".self_attention.rotary_emb.inv_freq", NULL, 0},
    {".input_layernorm", "attn_norm", 0},
    {".ln_mlp", "attn_norm", 0},
    {".ln_attn", "attn_norm_2", 0},
    {".mlp.dense_h_to_4h", "ffn_up", 0},
    {".mlp.dense_4h_to_h", "ffn_down", 0},
    END};

static const struct hf_name deepseek[] = {
    ENDS,
    PRE_NORMS,
    GATED,
    EXPERTS,
    SHARED("shared_experts"),
    {".mlp.gate.e_score_correction_bias", "exp_probs_b.bias", 0},
    {".self_attn.q_proj", "attn_q", 0},
    {".self_attn.q_a_proj", "attn_q_a", 0},
    {".self_attn.q_a_layernorm", "attn_q_a_norm", 0},
    {".self_attn.q_b_proj", "attn_q_b", 0},
    {".self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", 0},
    {".self_attn.kv_a_layernorm", "attn_kv_a_norm", 0},
    {".self_attn.kv_b_proj", "attn_kv_b", 0},
    {".self_attn.o_proj", "attn_output", 0},
    END};

#define BERT                                                                                       \
    {"embeddings.word_embeddings", "token_embd", 0},                                               \
        {"embeddings.token_type_embeddings", "token_types", 0},                                    \
        {"embeddings.LayerNorm", "token_embd_norm", 0}, {"embeddings.position_ids", NULL, 0},      \
        {".attention.self.query", "attn_q", 0}, {".attention.self.key", "attn_k", 0},              \
        {".attention.self.value", "attn_v", 0}, {".attention.output.dense", "attn_output", 0},     \
        {".attention.output.LayerNorm", "attn_output_norm", 0},                                    \
        {".intermediate.dense", "ffn_up", 0}, {".output.dense", "ffn_down", 0},                    \
    {                                                                                              \
        ".output.LayerNorm", "layer_output_norm", 0                                                \
    }
#define POSITIONS(fit)                                                                             \
    {                                                                                              \
        "embeddings.position_embeddings", "position_embd", fit                                     \
    }

static const struct hf_name bert[] = {BERT, POSITIONS(0), {"pooler.dense", NULL, 0}, END};
static const struct hf_name bert_labels[] = {BERT,
                                             POSITIONS(0),
                                             {"pooler.dense", "cls", 0},
                                             {"classifier.weight", "cls.output.weight", 0},
                                             {"classifier.bias", "cls.output.bias", 0},
                                             END};
static const struct hf_name colbert[] = {BERT,
                                         POSITIONS(0),
                                         {"pooler.dense", NULL, 0},
                                         {"linear.weight", "dense_2.weight", 0},
                                         END};
static const struct hf_name xlm_roberta[] = {
    BERT, POSITIONS(FIT_BEHIND_PAD), {"pooler.dense", NULL, 0}, END};
static const struct hf_name xlm_roberta_labels[] = {
    BERT,
    POSITIONS(FIT_BEHIND_PAD),
    {"classifier.dense", "cls", 0},
    {"classifier.out_proj.weight", "cls.output.weight", 0},
    {"classifier.out_proj.bias", "cls.output.bias", 0},
    END};

#define TOKEN_LABELS                                                                               \
    {"classifier.weight", "cls.output.weight", 0}, {"classifier.bias", "cls.output.bias", 0}

static const struct hf_name bert_tokens[] = {
    BERT, POSITIONS(0), {"pooler.dense", NULL, 0}, TOKEN_LABELS, END};
static const struct hf_name roberta_tokens[] = {
    BERT, POSITIONS(FIT_BEHIND_PAD), {"pooler.dense", NULL, 0}, TOKEN_LABELS, END};

static const struct hf_name nomic[] = {{"embeddings.word_embeddings", "token_embd", 0},
                                       {"embeddings.token_type_embeddings", "token_types", 0},
                                       {"emb_ln", "token_embd_norm", 0},
                                       {".attn.Wqkv", "attn_qkv", 0},
                                       {".attn.out_proj", "attn_output", 0},
                                       {".norm1", "attn_output_norm", 0},
                                       {".norm2", "layer_output_norm", 0},
                                       {".mlp.fc11", "ffn_up", 0},
                                       {".mlp.fc12", "ffn_gate", 0},
                                       {".mlp.fc2", "ffn_down", 0},
                                       END};

#define MODERN_BERT                                                                                \
    {"embeddings.tok_embeddings", "token_embd", 0}, {"embeddings.norm", "token_embd_norm", 0},     \
        {"final_norm", "output_norm", 0}, {".attn_norm", "attn_norm", 0},                          \
        {".attn.Wqkv", "attn_qkv", 0}, {".attn.Wo", "attn_output", 0},                             \
        {".mlp_norm", "ffn_norm", 0}, {".mlp.Wi", "ffn_up", 0},                                    \
    {                                                                                              \
        ".mlp.Wo", "ffn_down", 0                                                                   \
    }

static const struct hf_name modern_bert[] = {MODERN_BERT, END};
static const struct hf_name modern_bert_tokens[] = {
    MODERN_BERT,
    {"head.dense", "cls", 0},
    {"head.norm.weight", "cls.norm.weight", 0},
    {"head.norm.bias", "cls.norm.bias", 0},
    TOKEN_LABELS,
    END};

/* ---- classes ---- */

#define MODEL .root = "model.", .layers = "layers."
#define TEXT .root = "model.language_model.", .layers = "layers."
#define GPT .root = "transformer.", .layers = "h."
#define SILU .acts = "silu,swish"
#define TANH .acts = "gelu_pytorch_tanh,gelu_new"

static const struct hf_class classes[] = {
    {"LlamaForCausalLM", "llama", MODEL, .names = llama, SILU, .flags = HF_HALVES},
    {"MistralForCausalLM", "llama", MODEL, .names = llama, SILU, .window = 4096,
     .flags = HF_HALVES | HF_WINDOW},
    {"MixtralForCausalLM", "llama", MODEL, .names = mixtral, SILU, .eps = 1e-5, .rope_base = 1e6,
     .flags = HF_HALVES | HF_WINDOW, .more = hf_mixtral_add},
    {"Qwen2ForCausalLM", "qwen2", MODEL, .names = llama, SILU, .flags = HF_HALVES},
    {"Qwen3ForCausalLM", "qwen3", MODEL, .names = llama, SILU, .head_dim = 128, .flags = HF_HALVES},
    {"Qwen2MoeForCausalLM", "qwen2moe", MODEL, .names = qwen_moe, SILU, .flags = HF_HALVES,
     .more = hf_qwen_moe_add},
    {"Qwen3MoeForCausalLM", "qwen3moe", MODEL, .names = qwen_moe, SILU, .head_dim = 0,
     .flags = HF_HALVES | HF_EXPERTS, .more = hf_qwen_moe_add},
    {"GptOssForCausalLM", "gpt-oss", MODEL, .names = gpt_oss, SILU, .head_dim = 64, .eps = 1e-5,
     .rope_base = 150000, .window = 128, .flags = HF_HALVES | HF_WINDOW, .more = hf_gpt_oss_add},
    {"GemmaForCausalLM", "gemma", MODEL, .names = gemma, .acts = "gelu_pytorch_tanh,gelu",
     .head_dim = 256, .flags = HF_HALVES | HF_TIED, .more = hf_gemma_add},
    {"Gemma2ForCausalLM", "gemma2", MODEL, .names = gemma2, TANH, .head_dim = 256, .window = 4096,
     .flags = HF_HALVES | HF_TIED | HF_WINDOW, .more = hf_gemma2_add},
    {"Gemma3ForCausalLM", "gemma3", MODEL, .names = gemma2, TANH, .head_dim = 256, .n_ctx = 131072,
     .rope_base = 1e6, .window = 4096, .flags = HF_HALVES | HF_TIED | HF_WINDOW,
     .more = hf_gemma3_add},
    {"Phi3ForCausalLM", "phi3", MODEL, .names = phi3, SILU, .eps = 1e-5,
     .flags = HF_HALVES | HF_WINDOW},
    {"SmolLM3ForCausalLM", "smollm3", MODEL, .names = llama, SILU, .rope_base = 2e6,
     .flags = HF_HALVES | HF_TIED, .more = hf_smollm3_add},
    {"GraniteForCausalLM", "granite", MODEL, .names = llama, SILU, .flags = HF_HALVES,
     .more = hf_granite_add},
    {"GraniteMoeForCausalLM", "granitemoe", MODEL, .names = granite_moe, SILU, .flags = HF_HALVES,
     .more = hf_granite_moe_add},
    {"CohereForCausalLM", "command-r", MODEL, .names = cohere, SILU, .eps = 1e-5,
     .flags = HF_LAYER_NORM | HF_TIED, .more = hf_cohere_add},
    {"Cohere2ForCausalLM", "cohere2", MODEL, .names = cohere, SILU, .eps = 1e-5, .window = 4096,
     .flags = HF_LAYER_NORM | HF_TIED | HF_WINDOW, .more = hf_cohere_add},
    {"Olmo2ForCausalLM", "olmo2", MODEL, .names = olmo2, SILU, .eps = 1e-5, .flags = HF_HALVES},
    {"Olmo3ForCausalLM", "olmo2", MODEL, .names = olmo2, SILU, .eps = 1e-5, .window = 4096,
     .flags = HF_HALVES | HF_WINDOW},
    {"Glm4ForCausalLM", "glm4", MODEL, .names = glm4, SILU, .head_dim = 128, .eps = 1.5625e-7,
     .rotated = 0.5},
    {"SeedOssForCausalLM", "seed_oss", MODEL, .names = seed_oss, SILU, .head_dim = 128,
     .flags = HF_HALVES},
    {"Exaone4ForCausalLM", "exaone4", MODEL, .names = olmo2, SILU, .eps = 1e-5, .window = 4096,
     .flags = HF_HALVES | HF_WINDOW},
    {"Ernie4_5ForCausalLM", "ernie4_5", MODEL, .names = llama, SILU, .head_dim = 128, .eps = 1e-5,
     .rope_base = 5e5, .flags = HF_TIED},
    {"Lfm2ForCausalLM", "lfm2", MODEL, .names = lfm2, SILU, .n_ctx = 128000, .eps = 1e-5,
     .rope_base = 1e6, .flags = HF_HALVES | HF_TIED | HF_RECURRENT, .adjust = hf_lfm2_adjust,
     .more = hf_lfm2_add},
    {"Lfm2MoeForCausalLM", "lfm2moe", MODEL, .names = lfm2, SILU, .n_ctx = 128000, .eps = 1e-5,
     .rope_base = 1e6, .flags = HF_HALVES | HF_TIED | HF_RECURRENT | HF_EXPERTS,
     .adjust = hf_lfm2_adjust, .more = hf_lfm2_moe_add},
    {"Qwen3NextForCausalLM", "qwen3next", MODEL, .names = qwen_next, SILU, .head_dim = 256,
     .rotated = 0.25, .flags = HF_HALVES | HF_RECURRENT | HF_EXPERTS | HF_MTP,
     .more = hf_qwen_next_add},
    {"Qwen3_5ForCausalLM", "qwen35", MODEL, .names = qwen_next, SILU, .head_dim = 256,
     .rotated = 0.25, .flags = HF_HALVES | HF_RECURRENT | HF_MTP, .more = hf_qwen_next_add},
    {"Qwen3_5ForConditionalGeneration", "qwen35", TEXT, .names = qwen_next, SILU, .head_dim = 256,
     .rotated = 0.25, .flags = HF_HALVES | HF_RECURRENT | HF_MTP | HF_TEXT_PART,
     .more = hf_qwen_next_add},
    {"Qwen3_5MoeForConditionalGeneration", "qwen35moe", TEXT, .names = qwen_next, SILU,
     .head_dim = 256, .rotated = 0.25,
     .flags = HF_HALVES | HF_RECURRENT | HF_EXPERTS | HF_MTP | HF_TEXT_PART,
     .more = hf_qwen_next_add},
    {"InternLM2ForCausalLM", "internlm2", MODEL, .names = internlm2, SILU, .flags = HF_HALVES},
    {"ExaoneForCausalLM", "exaone", GPT, .names = exaone, SILU, .eps = 1e-5, .flags = HF_HALVES},
    {"StableLmForCausalLM", "stablelm", MODEL, .names = stablelm, SILU, .eps = 1e-5,
     .rotated = 0.25, .flags = HF_HALVES | HF_LAYER_NORM, .more = hf_stablelm_add},
    {"Starcoder2ForCausalLM", "starcoder2", MODEL, .names = starcoder2, TANH, .eps = 1e-5,
     .flags = HF_HALVES | HF_LAYER_NORM | HF_TIED | HF_WINDOW},
    {"PhiForCausalLM", "phi2", MODEL, .names = phi, TANH, .eps = 1e-5, .rotated = 0.5,
     .flags = HF_HALVES | HF_LAYER_NORM, .more = hf_phi_add},
    {"GPTNeoXForCausalLM", "gptneox", .root = "gpt_neox.", .layers = "layers.", .names = gpt_neox,
     .acts = "gelu", .eps = 1e-5, .rotated = 0.25, .flags = HF_HALVES | HF_LAYER_NORM,
     .more = hf_gpt_neox_add},
    {"GPT2LMHeadModel", "gpt2", GPT, .names = gpt2, TANH, .eps = 1e-5,
     .flags = HF_NO_ROPE | HF_LAYER_NORM | HF_TIED | HF_WIDE_FF, .more = hf_gpt2_add},
    {"GPTBigCodeForCausalLM", "starcoder", GPT, .names = gpt_bigcode, TANH, .eps = 1e-5,
     .flags = HF_NO_ROPE | HF_LAYER_NORM | HF_TIED | HF_WIDE_FF, .more = hf_gpt2_add},
    {"FalconForCausalLM", "falcon", GPT, .names = falcon, .acts = "gelu", .n_ctx = 2048,
     .eps = 1e-5, .flags = HF_HALVES | HF_LAYER_NORM | HF_TIED | HF_WIDE_FF, .more = hf_falcon_add},
    {"DeepseekV2ForCausalLM", "deepseek2", MODEL, .names = deepseek, SILU, .more = hf_deepseek_add},
    {"DeepseekV3ForCausalLM", "deepseek2", MODEL, .names = deepseek, SILU, .flags = HF_MORE_LAYERS,
     .more = hf_deepseek_add},
    {"BertModel", "bert", .root = "bert.", .layers = "encoder.layer.", .names = bert,
     .flags = HF_ENCODER, .config = hf_bert_add},
    {"BertForSequenceClassification", "bert", .root = "bert.", .layers = "encoder.layer.",
     .names = bert_labels, .flags = HF_ENCODER | HF_LABELS, .config = hf_bert_add},
    {"XLMRobertaModel", "bert", .root = "roberta.", .layers = "encoder.layer.",
     .names = xlm_roberta, .flags = HF_ENCODER, .config = hf_bert_add},
    {"XLMRobertaForSequenceClassification", "bert", .root = "roberta.", .layers = "encoder.layer.",
     .names = xlm_roberta_labels, .flags = HF_ENCODER | HF_LABELS, .config = hf_bert_add},
    {"HF_ColBERT", "bert", .root = "bert.", .layers = "encoder.layer.", .names = colbert,
     .flags = HF_ENCODER, .config = hf_bert_add},
    {"BertForTokenClassification", "bert", .root = "bert.", .layers = "encoder.layer.",
     .names = bert_tokens, .flags = HF_ENCODER | HF_TOKEN_LABELS, .config = hf_bert_add},
    {"RobertaForTokenClassification", "bert", .root = "roberta.", .layers = "encoder.layer.",
     .names = roberta_tokens, .flags = HF_ENCODER | HF_TOKEN_LABELS, .config = hf_bert_add},
    {"XLMRobertaForTokenClassification", "bert", .root = "roberta.", .layers = "encoder.layer.",
     .names = roberta_tokens, .flags = HF_ENCODER | HF_TOKEN_LABELS, .config = hf_bert_add},
    {"NomicBertModel", "nomic-bert", .root = "bert.", .layers = "encoder.layers.", .names = nomic,
     .flags = HF_ENCODER, .config = hf_nomic_add},
    {"ModernBertModel", "modern-bert", MODEL, .names = modern_bert, .flags = HF_ENCODER,
     .config = hf_modern_bert_add},
    {"ModernBertForTokenClassification", "modern-bert", MODEL, .names = modern_bert_tokens,
     .flags = HF_ENCODER | HF_TOKEN_LABELS, .config = hf_modern_bert_add},
};

const struct hf_class *hf_class_at(size_t i)
{
    return i < sizeof(classes) / sizeof(classes[0]) ? &classes[i] : NULL;
}

const struct hf_class *hf_class_find(const char *name)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (strcmp(name, classes[i].name) == 0)
            return &classes[i];
    return NULL;
}
