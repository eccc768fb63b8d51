"""The fields that the documentation of each API has for each body, each with a value that the API takes and that would
change something where the field can change anything at all: OpenAI's, Anthropic's, llama-server's, vLLM's, and the
server's own. What of them is obeyed, ignored or refused is said by /openapi.json."""

CHAT = [{"role": "user", "content": "Once"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FUNCTION = {"name": "f", "description": "d", "parameters": SCHEMA}

OPENAI_SAMPLING = {"model": "quire-demo", "stream": True, "temperature": 0.5, "top_p": 0.5, "user": "u"}
OPENAI_TEXT = {**OPENAI_SAMPLING, "frequency_penalty": 1, "presence_penalty": 1, "logit_bias": {"5": 1}, "seed": 1,
               "stop": ["x"], "n": 2, "prompt": "Once", "best_of": 2, "echo": True, "logprobs": 1, "max_tokens": 2,
               "stream_options": {"include_usage": True}, "suffix": ""}
OPENAI_COMPLETIONS = OPENAI_TEXT
OPENAI_CHAT = {**OPENAI_SAMPLING, "frequency_penalty": 1, "presence_penalty": 1, "logit_bias": {"5": 1}, "seed": 1,
               "stop": ["x"], "n": 2, "messages": CHAT, "max_tokens": 2, "max_completion_tokens": 2, "logprobs": True,
               "top_logprobs": 1, "stream_options": {"include_usage": True}, "metadata": {"a": "b"},
               "audio": {"voice": "alloy", "format": "wav"}, "modalities": ["text"], "function_call": "auto",
               "functions": [FUNCTION], "parallel_tool_calls": False, "prediction": {"type": "content", "content": "x"},
               "prompt_cache_key": "k", "prompt_cache_options": {"mode": "implicit"}, "prompt_cache_retention": "24h",
               "moderation": {"model": "m"}, "reasoning_effort": "low", "response_format": {"type": "json_object"}, "safety_identifier": "u",
               "service_tier": "flex", "store": True, "tool_choice": "none",
               "tools": [{"type": "function", "function": FUNCTION}], "verbosity": "low", "web_search_options": {}}
OPENAI_EMBEDDINGS = {"model": "quire-demo", "input": "Once", "dimensions": 3, "encoding_format": "base64", "user": "u"}
OPENAI_RESPONSES = {**OPENAI_SAMPLING, "background": True, "access_programs": {"a": {}},
                    "background_options": {"completion_window": "2h"}, "image": {"detail": "low"},
                    "moderation": {"model": "m"}, "personality": "friendly", "context_management": [{"type": "compaction"}],
                    "conversation": "conv_1", "include": ["message.output_text.logprobs"], "input": "Once",
                    "instructions": "Be kind.", "max_output_tokens": 2, "max_tool_calls": 1, "metadata": {"a": "b"},
                    "parallel_tool_calls": False, "previous_response_id": "resp_1", "prompt": {"id": "p"},
                    "prompt_cache_key": "k", "prompt_cache_options": {"mode": "implicit"},
                    "prompt_cache_retention": "24h", "reasoning": {"effort": "max"}, "safety_identifier": "u",
                    "service_tier": "flex", "store": True, "stream_options": {"include_obfuscation": False}, "client_metadata": {"a": "b"},
                    "text": {"format": {"type": "json_object"}}, "tool_choice": "none",
                    "tools": [{"type": "function", **FUNCTION}], "top_logprobs": 1, "truncation": "auto"}
ANTHROPIC_COUNT = {"model": "quire-demo", "messages": CHAT, "cache_control": {"type": "ephemeral"},
                   "billing_policy": {"type": "billing_policy", "bill_to": "self"}, "compaction": {"type": "summarize"},
                   "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
                   "mcp_servers": [{"type": "url", "url": "http://a", "name": "a"}],
                   "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
                   "output_format": {"type": "json_schema", "schema": SCHEMA}, "system": "Be kind.",
                   "thinking": {"type": "disabled"}, "tool_choice": {"type": "none"}, "speed": "fast",
                   "tools": [{"name": "f", "input_schema": SCHEMA}]}
ANTHROPIC_MESSAGES = {**ANTHROPIC_COUNT, "container": "c", "diagnostics": {"previous_message_id": "msg_1"},
                      "fallback_credit_token": "t", "fallbacks": [{"model": "m"}], "inference_geo": "us", "max_tokens": 2, "thread": {"type": "create"},
                      "metadata": {"user_id": "u"}, "service_tier": "auto", "stop_sequences": ["x"], "stream": True,
                      "temperature": 0.5, "top_k": 5, "top_p": 0.5}

VLLM_ANY = {"request_id": "r", "session_id": "s", "priority": 1, "cache_salt": "s", "truncate_prompt_tokens": 3,
            "truncation_side": "right", "add_special_tokens": True, "mm_processor_kwargs": {"a": 1},
            "media_io_kwargs": {"image": {}}}
VLLM_SAMPLING = {
    **VLLM_ANY, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2, "frequency_penalty": 1, "presence_penalty": 1,
    "length_penalty": 2, "early_stopping": True, "use_beam_search": True, "stop": ["x"], "stop_token_ids": [5],
    "include_stop_str_in_output": True, "ignore_eos": True, "min_tokens": 1, "max_tokens": 2, "seed": 1,
    "logit_bias": {"5": 1}, "skip_special_tokens": False, "spaces_between_special_tokens": False,
    "allowed_token_ids": [5, 6], "bad_words": ["dog"], "prompt_logprobs": 1, "logprob_token_ids": [5],
    "logits_processors": ["a.b"], "return_token_ids": True, "return_token_offsets": True,
    "return_weight_versions": True, "routed_experts_prompt_start": 1, "watermarking": True, "return_mm_kwargs": True,
    "mm_payload": {"a": 1}, "kv_transfer_params": {"a": 1}, "ec_transfer_params": {"a": 1}, "vllm_xargs": {"a": 1},
    "repetition_detection": {"max_pattern_size": 4}, "stream_interval": 2,
    "structured_outputs": {"choice": ["a", "b"]}, "response_format": {"type": "json_object"},
    "guided_json": SCHEMA, "guided_regex": "a+", "guided_choice": ["a", "b"], "guided_grammar": 'root ::= "a"',
    "guided_decoding_backend": "xgrammar", "guided_whitespace_pattern": " "}
VLLM_TEXT = {"prompt_embeds": "AAAA", "thinking_token_budget": 5, "return_tokens_as_token_ids": True}
VLLM_CHATS = {"add_generation_prompt": False, "continue_final_message": False, "chat_template": "{{ messages }}",
              "chat_template_kwargs": {"a": 1}, "documents": [{"title": "a", "text": "b"}], "include_reasoning": False,
              "reasoning_effort": "low", "thinking_token_budget": 5, "parallel_tool_calls": False,
              "max_completion_tokens": 2}
VLLM_CHAT = {"echo": True, "return_prompt_text": True, "return_tokens_as_token_ids": True}
VLLM_RESPONSES = {"enable_response_messages": True, "previous_input_messages": [{"role": "user", "content": "a"}]}
VLLM_TURNS = {"messages": CHAT, "add_generation_prompt": False, "continue_final_message": False, "chat_template": "{{ messages }}",
              "chat_template_kwargs": {"a": 1}}
VLLM_EMBEDDINGS = {**VLLM_ANY, **VLLM_TURNS, "normalize": False, "use_activation": False, "padding": "max_length",
                   "embed_dtype": "float16", "endianness": "big", "late_chunking_params": {"chunk_size": 8}}

LLAMA_SAMPLING = {
    "temperature": 0.5, "top_p": 0.5, "dynatemp_range": 0.2, "dynatemp_exponent": 2, "top_k": 5, "min_p": 0.1,
    "top_n_sigma": 1, "typical_p": 0.5, "xtc_probability": 0.5, "xtc_threshold": 0.2, "repeat_penalty": 1.2,
    "repeat_last_n": 8, "presence_penalty": 1, "frequency_penalty": 1, "dry_multiplier": 0.8, "dry_base": 2,
    "dry_allowed_length": 3, "dry_penalty_last_n": 9, "dry_sequence_breakers": ["x"], "mirostat": 2, "mirostat_tau": 4,
    "mirostat_eta": 0.2, "samplers": ["top_k", "temperature"], "min_keep": 2, "adaptive_target": 0.5,
    "adaptive_decay": 0.5, "seed": 1, "ignore_eos": True, "logit_bias": [["dog", False]], "stop": ["x"],
    "grammar": 'root ::= "a"', "json_schema": SCHEMA, "grammar_lazy": True, "grammar_triggers": [{"type": 1, "value": "a"}],
    "preserved_tokens": ["<a>"], "n_predict": 2, "max_tokens": 2, "max_completion_tokens": 2, "n_keep": 5,
    "n_discard": 5, "n_cache_reuse": 5, "cache_prompt": False, "id_slot": 0, "lora": [],
    "sse_ping_interval": 1, "backend_sampling": True, "chat_format": 1, "chat_parser": "x", "parse_tool_calls": False,
    "generation_prompt": "x", "reasoning_control": True, "reasoning_budget_message": "x",
    "reasoning_budget_start_tag": "x", "reasoning_budget_end_tag": "x", "reasoning_budget_end_tags": ["x"],
    "reasoning_budget": 5, "reasoning_budget_tokens": 5, "thinking_budget_tokens": 5}
LLAMA_SHAPE = {"n_cmpl": 2, "n_probs": 1, "post_sampling_probs": True, "return_tokens": True,
               "timings_per_token": True, "return_progress": True, "response_fields": ["content"], "n_indent": 2,
               "t_max_predict_ms": 60000, "reasoning_format": "none"}
LLAMA_COMPLETION = {**LLAMA_SAMPLING, **LLAMA_SHAPE, "prompt": {"prompt_string": "Once"}, "stream": True, "n": 2,
                    "image_data": [{"data": "AAAA", "id": 1}], "response_format": {"type": "json_object"},
                    "model": "quire-demo", "thinking_token_budget": 5}
LLAMA_INFILL = {**{k: v for k, v in LLAMA_COMPLETION.items() if k != "prompt"}, "prompt": "a", "input_prefix": "a",
                "input_suffix": "b", "input_extra": [{"filename": "a", "text": "b"}]}
LLAMA_EMBEDDINGS = {"content": "a", "embd_normalize": -1}
LLAMA_TOKENIZE = {"content": "Once", "add_special": True, "parse_special": False, "with_pieces": True}

VLLM_POOLED = {**{k: v for k, v in VLLM_ANY.items()}, "use_activation": False, "padding": "max_length"}
VLLM_PAIRS = {**VLLM_POOLED, "activation": False, "max_tokens_per_query": 1, "max_tokens_per_doc": 1,
              "instruction": "Be kind.", "chat_template_kwargs": {"a": 1}, "truncation_side": "left"}
RERANK = {"query": "Once", "documents": ["Once", "upon"], "top_n": 1, "return_documents": False,
          "rank_fields": ["title"], "max_chunks_per_doc": 2, "texts": ["a", "b"], "return_text": False,
          "raw_scores": True}
SCORE = {**{k: ["Once"] for k in ("text_1", "data_1", "queries")},
         **{k: ["upon"] for k in ("text_2", "data_2", "items", "documents")}}

# Of the server's own, also those that bodies have of other APIs.
OWN = {"priority": "high", "deadline_ms": 60000, "max_queue_ms": 60000, "cache_salt": "s", "model": "default",
       "user": "u"}
OWN_TEXTS = {"speculation": False, "receipt": True}
OWN_COMPLETIONS = {**OWN_TEXTS, "prediction": {"type": "content", "content": "x"}}
OWN_RESUME = {"resumable": False, "resume_tokens": False, "resume": {"tokens": [5], "seed": 5}}
OWN_NATIVE = {k: VLLM_SAMPLING[k] for k in (
    "add_special_tokens", "truncate_prompt_tokens", "truncation_side", "request_id", "session_id", "media_io_kwargs",
    "mm_processor_kwargs", "repetition_penalty", "stop_token_ids", "include_stop_str_in_output", "min_tokens",
    "skip_special_tokens", "spaces_between_special_tokens", "allowed_token_ids", "bad_words", "structured_outputs",
    "guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_decoding_backend",
    "guided_whitespace_pattern")} | {"return_tokens_as_token_ids": True}
OWN_CHATS = {**VLLM_SAMPLING, **VLLM_CHATS, **LLAMA_SAMPLING, **OWN, **OWN_TEXTS, "timings": True, "stream": True,
             "logprobs": True, "top_logprobs": 1, "resumable": False}

OLLAMA_OPTIONS = {
    "num_ctx": 512, "num_batch": 512, "num_gpu": 1, "main_gpu": 0, "low_vram": True, "num_thread": 4, "numa": True,
    "use_mmap": False, "use_mlock": True, "logits_all": True, "f16_kv": False, "vocab_only": True,
    "embedding_only": True, "draft_num_predict": 4, "num_keep": 5, "seed": 42, "num_predict": 3, "top_k": 5, "top_p": 0.5,
    "min_p": 0.1, "tfs_z": 0.5, "typical_p": 0.5, "repeat_last_n": 33, "temperature": 0.5, "repeat_penalty": 1.2,
    "presence_penalty": 1.5, "frequency_penalty": 1.0, "mirostat": 2, "mirostat_tau": 0.8, "mirostat_eta": 0.6,
    "penalize_newline": False, "stop": ["x"],
    # llama-server's, which Ollama does not have
    "dynatemp_range": 0.5, "dynatemp_exponent": 2, "top_n_sigma": 1, "min_keep": 2, "xtc_probability": 0.5,
    "xtc_threshold": 0.1, "dry_multiplier": 1, "dry_base": 2, "dry_allowed_length": 3, "dry_penalty_last_n": 5,
    "dry_sequence_breakers": ["x"]}
OLLAMA = {**OWN, **VLLM_ANY, "model": "quire-demo", "keep_alive": "5m", "options": {"num_predict": 1}, "user": "u"}
OLLAMA_TEXTS = {**OLLAMA, **OWN_TEXTS, "stream": True, "resumable": False, "format": "json", "images": ["aGk="], "shift": True, "truncate": True,
                "think": False, "logprobs": True, "top_logprobs": 1, "_debug_render_only": True}
OLLAMA_GENERATE = {**OLLAMA_TEXTS, "prompt": "Once", "suffix": "", "system": "Be kind.", "template": "{{ .Prompt }}",
                   "context": [5], "raw": True, "width": 64, "height": 64, "steps": 2}
OLLAMA_CHAT = {**OLLAMA_TEXTS, "messages": CHAT, "tools": [{"type": "function", "function": FUNCTION}],
               "tool_choice": "none"}

# OpenAI's and TypeSafe's decisions, with vLLM's additions
DECISIONS = {**VLLM_ANY, **OWN, "chat_template_kwargs": {"mood": "gay"}, "prompt_cache_key": "k", "safety_identifier": "s",
             "joint": True, "stream": True, "receipt": True, "messages": CHAT, "permutations": 2, "add_special_tokens": False}

FIELDS = {  # by the names of the bodies in /openapi.json
    "CompletionRequest": {**LLAMA_SAMPLING, **LLAMA_SHAPE, **VLLM_SAMPLING, **VLLM_TEXT, **OPENAI_COMPLETIONS, **OWN, **OWN_RESUME,
                          **OWN_COMPLETIONS,
                          "timings": True, "image_data": LLAMA_COMPLETION["image_data"]},
    "ChatCompletionRequest": {**OWN_CHATS, **OWN_RESUME, **LLAMA_SHAPE, **VLLM_CHAT, **OPENAI_CHAT,
                              "thinking": {"type": "disabled"}, "enable_thinking": False},  # DeepSeek's and GLM's, Qwen's
    "EmbeddingRequest": {**LLAMA_EMBEDDINGS, **VLLM_EMBEDDINGS, **OPENAI_EMBEDDINGS, **OWN},
    "ClassifyRequest": {**VLLM_ANY, **VLLM_POOLED, "activation": False, "input": "Once", **VLLM_TURNS, **OWN},
    "PoolingRequest": {**VLLM_ANY, **VLLM_EMBEDDINGS, **OPENAI_EMBEDDINGS, "embd_normalize": -1, "task": "token_embed",
                       **OWN},
    "RerankRequest": {**VLLM_PAIRS, **RERANK, **OWN},
    "ScoreRequest": {**VLLM_PAIRS, **SCORE, **OWN},
    "CohereEmbedRequest": {**VLLM_ANY, **OWN, "texts": ["Once"], "images": ["aGk="], "input_type": "search_query",
                           "inputs": [{"content": [{"type": "text", "text": "Once"}]}], "embedding_types": ["int8"],
                           "output_dimension": 8, "truncate": "START", "max_tokens": 2, "priority": 1},
    "ScoringRequest": {**VLLM_ANY, **OWN, "query": "Once", "items": [" upon", [5, 6]], "label_token_ids": [5, 6],
                       "apply_softmax": False, "item_first": True},
    "DecisionRequest": {**DECISIONS, "input": "Once", "questions": [{"type": "predicate", "instructions": "It ends."}],
                        "prompt_cache_options": {"mode": "implicit"}, "instructions": "Be brief.", "state": "Once"},
    "SystemOneRequest": {**DECISIONS, "keep_alive": "5m", "state": {"text": "Once"}, "input": "Once",
                         "questions": {"a": {"type": "noul", "instructions": "It ends."}},
                         "instructions": "Be brief.", "images": ["aGk="], "audio": ["aGk="], "videos": ["aGk="],
                         "assets": {"a": {"type": "image"}}},
    "ResponsesRequest": {**OWN_CHATS, **VLLM_RESPONSES, **OPENAI_RESPONSES, "n": 2},
    "MessagesRequest": {**OWN_CHATS, **ANTHROPIC_MESSAGES, "n": 2, "stream_options": {"include_usage": True}},
    "CountTokensRequest": {**OWN_CHATS, **ANTHROPIC_MESSAGES, "n": 2, "stream_options": {"include_usage": True}},
    "NativeCompletionRequest": {**OWN_NATIVE, **LLAMA_COMPLETION, **OWN, **OWN_RESUME, **OWN_COMPLETIONS},
    "InfillRequest": {**OWN_NATIVE, **LLAMA_INFILL, **OWN, **OWN_RESUME, **OWN_COMPLETIONS},
    "OllamaGenerateRequest": OLLAMA_GENERATE, "OllamaChatRequest": OLLAMA_CHAT, "OllamaOptions": OLLAMA_OPTIONS,
    "OllamaEmbedRequest": {**OLLAMA, "input": ["Once"], "truncate": False, "dimensions": 3},
    "OllamaEmbeddingsRequest": {**OLLAMA, "prompt": "Once"},
    "TokenizeRequest": {**LLAMA_TOKENIZE, "model": "quire-demo", "prompt": "Once", "messages": CHAT,
                        "add_special_tokens": False, "return_token_strs": True},
    "DetokenizeRequest": {"tokens": [5], "model": "quire-demo"},
}
