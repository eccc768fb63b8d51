/* server/api/text_endpoints.h - calls that are answered from their text alone, without the engine:
 *
 * POST /tokenize, in llama-server's and vLLM's shapes: {"content":…} -> {"tokens":[…]};
 *   {"prompt":…} -> {"count":…,"max_model_len":…,"tokens":[…]}; {"messages":…} -> the same, of the
 *   prompt that such a chat has.
 * POST /detokenize: {"tokens":[…]} -> {"content":…}, or {"prompt":…} when the body names a model,
 *   as vLLM's do.
 * POST /apply-template: a chat's body -> {"prompt":…}.
 * POST /v1/completions/render, /v1/chat/completions/render: such a body -> the tokens of its
 *   prompts, in vLLM's shape, for routers that look for cached ones: [{"token_ids":[…],
 *   "sampling_params":{…}},…], and one such object of a chat; with return_token_offsets
 *   "token_offsets", for each token the characters of the text that it stands for, or null where
 *   the text was changed before it was cut (rendered_prompts.c). A body that a completion would
 *   refuse is refused.
 * POST /v1/messages/count_tokens: a body of Anthropic's -> {"input_tokens":…}.
 * POST /v1/responses/input_tokens, /v1/chat/completions/input_tokens: the same of OpenAI's bodies
 *      -> {"object":"response.input_tokens","input_tokens":…}.
 *
 * Chats are parsed and checked as those of a completion. The thread that parses a body
 * (completion_parse.c) writes its answer too.
 *
 * Thread: the loop's.
 * Memory: as for an API call.
 */
#ifndef SERVER_API_TEXT_ENDPOINTS_H
#define SERVER_API_TEXT_ENDPOINTS_H

struct wire_format;

extern const struct wire_format wire_tokenize, wire_detokenize, wire_apply_template,
    wire_count_tokens, wire_input_tokens, wire_chat_input_tokens, wire_render, wire_chat_render;

#endif
