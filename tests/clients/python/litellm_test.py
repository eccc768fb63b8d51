"""litellm: the same calls through its OpenAI, hosted vLLM and Anthropic providers; decisions through the first two."""
import asyncio
import json
import math
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a list of prices

import litellm  # noqa: E402
from case import MODEL, PERSON, STORY, ZONE, ClientCase, check_retry, clock, main  # noqa: E402

litellm.telemetry = False
litellm.suppress_debug_info = True
CHAT = [{"role": "user", "content": STORY}]
CLOCK = {"type": "function", "function": {"name": "clock", "description": "The time.", "parameters": ZONE}}
NAMED = {"refund": {"type": "noul", "instructions": "Is money to be paid back?"},
         "team": {"type": "choice", "criteria": {"billing": "payments", "sales": None}},
         "urgency": {"type": "score", "instructions": "How urgent is it?", "criteria": ["can wait", "today"]}}
LISTED = [{"type": "predicate", "name": "refund", "instructions": "The customer wants money back."},
          {"type": "choice", "name": "team", "instructions": "Who?", "choices": [{"value": "billing"}, {"value": True}]},
          {"type": "score", "name": "urgency", "instructions": "How urgent is it?",
           "levels": [{"label": "can wait"}, {"label": "today", "description": "now"}]}]


class LiteLLMTest(ClientCase):
    def ways(self, **more):
        """Its providers that reach a server of one's own, as arguments of each call."""
        for provider in ("openai", "hosted_vllm", "anthropic"):
            base = self.url if provider == "anthropic" else f"{self.url}/v1"
            yield provider, {"model": f"{provider}/{MODEL}", "api_base": base, "api_key": "none", "num_retries": 0,
                             "max_tokens": 10, **more}

    def test_completions(self):
        answer = litellm.text_completion(model=f"text-completion-openai/{MODEL}", prompt=STORY, max_tokens=8,
                                         api_base=f"{self.url}/v1", api_key="none")
        self.assertTrue(answer.choices[0].text)
        self.assertEqual(answer.usage.completion_tokens, 8)

    def test_chat(self):
        for provider, way in self.ways():
            with self.subTest(provider):
                answer = litellm.completion(messages=CHAT, temperature=0, **way)
                self.assertTrue(answer.choices[0].message.content)
                self.assertEqual(answer.choices[0].finish_reason, "length")
                self.assertEqual(answer.usage.completion_tokens, 10)

    def test_streams(self):
        for provider, way in self.ways(temperature=0):
            with self.subTest(provider):
                whole = litellm.completion(messages=CHAT, **way).choices[0].message.content
                chunks = list(litellm.completion(messages=CHAT, stream=True, stream_options={"include_usage": True}, **way))
                self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole)
                self.assertEqual(chunks[-1].usage.completion_tokens, 10)

    def test_tools_rounds(self):
        for provider, way in self.ways(max_tokens=200, tools=[CLOCK]):
            with self.subTest(provider):
                messages = [{"role": "user", "content": "What time is it?"}]
                for choice in ("required", {"type": "function", "function": {"name": "clock"}}):
                    message = litellm.completion(messages=messages, tool_choice=choice, parallel_tool_calls=False,
                                                 **way).choices[0].message
                    [call] = message.tool_calls
                    result = clock(**json.loads(call.function.arguments))
                    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": result}]
                last = litellm.completion(messages=messages, tool_choice="none", **way)
                self.assertTrue(last.choices[0].message.content)

    def test_tools_streamed(self):
        for provider, way in self.ways(max_tokens=200, tools=[CLOCK], tool_choice="required"):
            with self.subTest(provider):
                chunks = list(litellm.completion(messages=CHAT, stream=True, **way))
                message = litellm.stream_chunk_builder(chunks, messages=CHAT).choices[0].message
                self.assertIn(json.loads(message.tool_calls[0].function.arguments)["zone"], range(-12, 13))

    def test_schemas(self):
        form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
        for provider, way in self.ways(max_tokens=200, response_format=form):
            with self.subTest(provider):
                answer = litellm.completion(messages=CHAT, **way)
                self.check_person(json.loads(answer.choices[0].message.content))

    def test_embeddings(self):
        answer = litellm.embedding(model=f"openai/{MODEL}", input=["one text", "another"], api_base=f"{self.url}/v1",
                                   api_key="none")
        for item in answer.data:
            self.assertAlmostEqual(math.hypot(*item["embedding"]), 1, 4)

    def test_responses(self):
        answer = litellm.responses(model=f"openai/{MODEL}", input=STORY, max_output_tokens=16, api_base=f"{self.url}/v1",
                                   api_key="none")
        self.assertEqual(answer.status, "incomplete")
        self.assertTrue(answer.output[0].content[0].text)

    def test_messages(self):
        """Its own /v1/messages calls, which agents of Anthropic's make through it."""
        way = dict(next(w for p, w in self.ways() if p == "anthropic"))
        answer = asyncio.run(litellm.anthropic.messages.acreate(messages=CHAT, **way))
        self.assertTrue(answer["content"][0]["text"])

    def check_answers(self, answers):
        self.assertTrue(0 <= answers["refund"].noul <= 1)
        team, urgency = answers["team"], answers["urgency"]
        self.assertEqual(team.choice, max(team.probabilities, key=team.probabilities.get))
        self.assertEqual(urgency.legend, {"0": "can wait", "1": "today"})
        self.assertTrue(0 <= urgency.score <= 1)

    def test_decisions(self):
        """TypeSafe's questions, to /v1/systemone and, in OpenAI's words, to /v1/decisions."""
        for provider, base, route in (("hosted_vllm", self.url, "/v1/systemone"), ("hosted_vllm", f"{self.url}/v1", "/v1/systemone"),
                                      ("openai", f"{self.url}/v1", "/v1/decisions")):
            with self.subTest(provider, base=base):
                before = self.count_of(route)
                way = {"model": f"{provider}/{MODEL}", "api_base": base, "api_key": "none", "questions": NAMED}
                answer = litellm.systemone(state={"message": "I was charged twice."}, **way)
                self.check_answers(answer.answers)
                again = asyncio.run(litellm.asystemone(state={"message": "I was charged twice."}, **way))
                self.assertEqual(again.answers, answer.answers)
                self.assertEqual(self.count_of(route), before + 2)

    def test_decisions_in_order(self):
        """OpenAI's questions, which come back in their order."""
        for provider in ("hosted_vllm", "openai"):
            with self.subTest(provider):
                way = {"model": f"{provider}/{MODEL}", "api_base": f"{self.url}/v1", "api_key": "none", "questions": LISTED}
                answer = litellm.decisions(input="I was charged twice.", **way)
                self.assertEqual([a.type for a in answer.answers], ["predicate", "choice", "score"])
                team, urgency = answer.answers[1:]
                self.assertEqual([p.value for p in team.probabilities], ["billing", True])
                self.assertEqual([p.label for p in urgency.probabilities], ["can wait", "today"])
                again = asyncio.run(litellm.adecisions(input="I was charged twice.", **way))
                self.assertEqual(again.answers, answer.answers)

    def test_decisions_errors(self):
        for provider in ("hosted_vllm", "openai"):
            with self.subTest(provider), self.assertRaises(litellm.BadRequestError):
                litellm.systemone(model=f"{provider}/{MODEL}", api_base=f"{self.url}/v1", api_key="none", state="", questions=NAMED)

    def test_cancel(self):
        before = self.cancelled()
        way = next(w for p, w in self.ways(max_tokens=900) if p == "openai")
        stream = litellm.completion(messages=CHAT, stream=True, extra_body={"ignore_eos": True}, **way)
        next(iter(stream))
        self.assertEqual(self.running(), 1)
        stream.completion_stream.close()
        self.check_cancelled(before)

    def test_retry(self):
        def make_call(url, key):
            return lambda: litellm.completion(model=f"openai/{MODEL}", messages=CHAT, max_tokens=2, api_base=f"{url}/v1",
                                              api_key=key, num_retries=4)
        check_retry(self, make_call)

    def test_errors(self):
        for provider, way in self.ways(temperature=9):
            with self.subTest(provider), self.assertRaises(litellm.BadRequestError):
                litellm.completion(messages=CHAT, **way)


if __name__ == "__main__":
    main()
