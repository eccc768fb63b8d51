"""The anthropic package, and through it the calls that coding agents of Anthropic's make."""
import json

import anthropic
from case import MODEL, PERSON, STORY, ZONE, ClientCase, check_retry, clock, main

CHAT = [{"role": "user", "content": STORY}]
GREEDY = {"extra_body": {"temperature": 0}}  # the newest release has no argument for it any more
CLOCK = {"name": "clock", "description": "The time.", "input_schema": ZONE}
# What a coding agent sends with every request, beside its messages.
AGENT = {
    "system": [{"type": "text", "text": "You are an agent."},
               {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "tools": [{**CLOCK, "type": "custom", "input_schema": {"$schema": "http://json-schema.org/draft-07/schema#", **ZONE}},
              {**CLOCK, "name": "look", "input_schema": {"type": "object", "properties": {}}, "cache_control": {"type": "ephemeral"}}],
    "metadata": {"user_id": "user_0_account__session_1"},
}
BETAS = ["claude-code-20250219", "interleaved-thinking-2025-05-14", "fine-grained-tool-streaming-2025-05-14",
         "context-management-2025-06-27"]


def agent_turns():
    """A conversation in the middle: thoughts, calls, results as blocks and as an error, a reminder."""
    mark = {"cache_control": {"type": "ephemeral"}}
    return [
        {"role": "user", "content": [{"type": "text", "text": "<system-reminder>Now.</system-reminder>"},
                                     {"type": "text", "text": "What time is it?", **mark}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "A clock helps.", "signature": "c2ln"},
                                          {"type": "text", "text": "I look."},
                                          {"type": "tool_use", "id": "toolu_1", "name": "clock", "input": {"zone": 1}},
                                          {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "Noon."}]},
                                     {"type": "tool_result", "tool_use_id": "toolu_2", "content": "No.", "is_error": True, **mark}]},
    ]


class AnthropicTest(ClientCase):
    flags = ("--alias", "claude-*", "--prefix-pin-memory", "16m")

    def setUp(self):
        self.client = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0)
        self.create = self.client.messages.create

    def tearDown(self):
        self.client.close()

    def test_chat(self):
        answer = self.create(model=MODEL, max_tokens=12, system="Tell a story.", messages=CHAT, **GREEDY)
        self.assertEqual((answer.type, answer.role, answer.content[0].type), ("message", "assistant", "text"))
        self.assertEqual(answer.stop_reason, "max_tokens")
        self.assertEqual(answer.usage.output_tokens, 12)

    def test_streams(self):
        params = {"model": MODEL, "max_tokens": 12, "messages": CHAT, **GREEDY}
        whole = self.create(**params)
        with self.client.messages.stream(**params) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.content[0].text, text)
        self.assertEqual((final.stop_reason, final.usage.output_tokens), (whole.stop_reason, 12))

    def test_stop_sequence(self):
        params = {"model": MODEL, "max_tokens": 40, "messages": CHAT, **GREEDY}
        word = self.create(**params).content[0].text.split()[3]
        whole = self.create(**params, stop_sequences=["zebra", word])
        self.assertEqual((whole.stop_reason, whole.stop_sequence), ("stop_sequence", word))
        with self.client.messages.stream(**params, stop_sequences=[word]) as stream:
            final = stream.get_final_message()
        self.assertEqual((final.stop_reason, final.stop_sequence), ("stop_sequence", word))
        self.assertEqual(final.content[0].text, whole.content[0].text)

    def test_tools_rounds(self):
        messages = [{"role": "user", "content": "What time is it?"}]
        for choice in ({"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "clock"}):
            answer = self.create(model=MODEL, max_tokens=200, messages=messages, tools=[CLOCK], tool_choice=choice)
            self.assertEqual(answer.stop_reason, "tool_use")
            [use] = [block for block in answer.content if block.type == "tool_use"]
            messages += [{"role": "assistant", "content": answer.content},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": clock(**use.input)}]}]
        last = self.create(model=MODEL, max_tokens=6, messages=messages, tools=[CLOCK], tool_choice={"type": "none"})
        self.assertEqual([block.type for block in last.content], ["text"])

    def test_tools_streamed(self):
        params = {"model": MODEL, "max_tokens": 200, "messages": CHAT, "tools": [CLOCK], "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
                  **GREEDY}
        whole = self.create(**params)
        with self.client.messages.stream(**params) as stream:
            pieces = [e.partial_json for e in stream if e.type == "input_json"]
            final = stream.get_final_message()
        self.assertEqual(final.stop_reason, "tool_use")
        self.assertEqual(final.content[0].input, whole.content[0].input)
        self.assertEqual(json.loads("".join(pieces)), whole.content[0].input)

    def test_tools_runner(self):
        """The package's own loop: it asks for a thread, learns that there are none, and sends the whole each time."""
        zones = []

        @anthropic.beta_tool
        def look(zone: int) -> str:
            """The time.

            Args:
                zone: where
            """
            zones.append(zone)
            return "noon"
        runner = self.client.beta.messages.tool_runner(model=MODEL, max_tokens=200, messages=CHAT, tools=[look],
                                                       tool_choice={"type": "tool", "name": "look"}, max_iterations=3)
        answers = list(runner)
        self.assertEqual(len(answers), 3)
        self.assertGreaterEqual(len(zones), 2)

    def test_schemas(self):
        answer = self.create(model=MODEL, max_tokens=200, messages=CHAT,
                             output_config={"format": {"type": "json_schema", "schema": PERSON}})
        self.check_person(json.loads(answer.content[0].text))

    def test_schemas_beta(self):
        answer = self.client.beta.messages.create(model=MODEL, max_tokens=200, messages=CHAT,
                                                  betas=["structured-outputs-2025-11-13"],
                                                  extra_body={"output_format": {"type": "json_schema", "schema": PERSON}})
        self.check_person(json.loads(answer.content[0].text))

    def test_agent(self):
        """A turn of a coding agent, streamed: all that it sends is taken."""
        with self.client.beta.messages.stream(model=MODEL, max_tokens=16, messages=agent_turns(), betas=BETAS, **AGENT,
                                              extra_body={"temperature": 1}) as stream:
            final = stream.get_final_message()
        self.assertEqual(final.stop_reason, "max_tokens")
        self.assertEqual(final.usage.output_tokens, 16)

    def test_agent_thinks(self):
        for thinking in ({"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}, {"type": "adaptive"}):
            answer = self.client.beta.messages.create(model=MODEL, max_tokens=300, messages=agent_turns(), betas=BETAS,
                                                      thinking=thinking, stop_sequences=["."], **AGENT) \
                if thinking["type"] != "enabled" else \
                self.client.beta.messages.create(model=MODEL, max_tokens=1100, messages=CHAT, betas=BETAS,
                                                 thinking=thinking, stop_sequences=["."])
            self.assertIn(answer.stop_reason, ("stop_sequence", "end_turn"))

    def test_agent_manages_context(self):
        edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
        answer = self.client.beta.messages.create(model=MODEL, max_tokens=4, messages=CHAT, betas=BETAS,
                                                  context_management=edits, output_config={"effort": "medium"})
        self.assertEqual(answer.usage.output_tokens, 4)

    def test_agent_calls_a_tool(self):
        answer = self.client.beta.messages.create(model=MODEL, max_tokens=300, messages=agent_turns(), betas=BETAS, **AGENT,
                                                  tool_choice={"type": "tool", "name": "clock"})
        self.assertEqual(answer.stop_reason, "tool_use")
        self.assertIn(answer.content[0].input["zone"], range(-12, 13))

    def test_agent_names_its_models(self):
        for model in ("claude-sonnet-latest", "claude-haiku-4-5"):
            answer = self.create(model=model, max_tokens=2, messages=CHAT)
            self.assertEqual(answer.usage.output_tokens, 2)
            self.assertGreater(self.client.messages.count_tokens(model=model, messages=CHAT).input_tokens, 0)

    def test_count(self):
        body = {"model": MODEL, "messages": agent_turns(), **{k: AGENT[k] for k in ("system", "tools")}}
        count = self.client.messages.count_tokens(**body)
        usage = self.create(**body, max_tokens=1).usage
        self.assertEqual(count.input_tokens,
                         usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens)
        beta = self.client.beta.messages.count_tokens(**body, betas=BETAS, thinking={"type": "disabled"})
        self.assertEqual(beta.input_tokens, count.input_tokens)

    def test_cached(self):
        """What was computed before is counted as read from the cache, as agents show it."""
        body = {"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": "a bear and a fox " * 20}]}
        first, second = self.create(**body).usage, self.create(**body).usage
        self.assertGreater(second.cache_read_input_tokens, first.cache_read_input_tokens)
        self.assertEqual(second.input_tokens + second.cache_read_input_tokens, first.input_tokens + first.cache_read_input_tokens)

    def test_cache_control(self):
        """What a breakpoint keeps is told by its time, and read from the cache by the next request."""
        system = [{"type": "text", "text": "an owl and a hare " * 20, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
        body = {"model": MODEL, "max_tokens": 1, "system": system, "messages": CHAT, "cache_control": {"type": "ephemeral"}}
        first, second = self.create(**body).usage, self.create(**body).usage
        self.assertGreater(first.cache_creation.ephemeral_1h_input_tokens, 60)
        self.assertEqual(first.cache_creation_input_tokens, first.cache_creation.ephemeral_1h_input_tokens +
                         first.cache_creation.ephemeral_5m_input_tokens)
        self.assertEqual(second.cache_creation.ephemeral_1h_input_tokens, 0)
        self.assertGreaterEqual(second.cache_read_input_tokens, first.cache_creation_input_tokens)
        with self.assertRaises(anthropic.BadRequestError):
            self.create(**{**body, "cache_control": {"type": "ephemeral", "ttl": "2h"}})

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], [MODEL])
        self.assertEqual(self.client.models.retrieve(MODEL).id, MODEL)

    def test_cancel(self):
        before = self.cancelled()
        stream = self.create(model=MODEL, max_tokens=900, messages=CHAT, stream=True, extra_body={"ignore_eos": True})
        for event in stream:
            if event.type == "content_block_delta":
                break
        self.assertEqual(self.running(), 1)
        stream.close()
        self.check_cancelled(before)

    def test_retry(self):
        def make_call(url, key):
            client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=4)
            return lambda: client.messages.create(model=MODEL, max_tokens=2, messages=CHAT)
        check_retry(self, make_call)

    def test_errors(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.create(model=MODEL, max_tokens=1, messages=CHAT, extra_body={"temperature": 9})
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")
        with self.assertRaises(anthropic.NotFoundError):
            self.create(model="other", max_tokens=1, messages=CHAT)


if __name__ == "__main__":
    main()
