"""The openai package; the same tests for the newest release and for the last one of 1.x, which has no decisions."""
import asyncio
import json
import math
import tempfile
import threading
import time

import openai
from case import FLAGS, MODEL, PERSON, STORY, ZONE, ClientCase, check_retry, clock, main
from pydantic import BaseModel, Field
from quire import Server

CHAT = [{"role": "user", "content": STORY}]
CLOCK = {"type": "function", "function": {"name": "clock", "description": "The time.", "strict": True,
                                          "parameters": ZONE}}
TEAM = {"type": "choice", "name": "team", "instructions": "Who handles it?", "choices": [
    {"value": "billing", "description": "payments"}, {"value": "true"}, {"value": True}]}
QUESTIONS = [{"type": "predicate", "name": "refund", "instructions": "The customer wants money back."}, TEAM,
             {"type": "score", "instructions": [{"type": "input_text", "text": "How urgent is it?"},
                                                {"type": "input_json", "data": {"scale": "days"}}],
              "levels": [{"label": "can wait"}, {"label": "this week"}, {"label": "today", "description": "now"}]}]


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=120)


class OpenAITest(ClientCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    def tearDown(self):
        self.client.close()

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], [MODEL])
        self.assertEqual(self.client.models.retrieve(MODEL).object, "model")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")

    def test_completions(self):
        answer = self.client.completions.create(model=MODEL, prompt=[STORY, "One day"], max_tokens=12, temperature=0,
                                                logprobs=2, echo=True, n=2, seed=1)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2, 3])
        self.assertTrue(answer.choices[2].text.startswith("One day"))
        for choice in answer.choices:
            self.assertEqual(choice.finish_reason, "length")
            self.assertTrue("".join(choice.logprobs.tokens).endswith(choice.text))  # before it what begins a prompt
        self.assertEqual(answer.usage.completion_tokens, 48)

    def test_completions_streams(self):
        params = {"model": MODEL, "prompt": STORY, "max_tokens": 12, "temperature": 0}
        whole = self.client.completions.create(**params)
        chunks = list(self.client.completions.create(**params, stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].text for c in chunks[:-1]), whole.choices[0].text)
        self.assertEqual(chunks[-1].usage.total_tokens, whole.usage.total_tokens)

    def test_chat(self):
        answer = self.client.chat.completions.create(model=MODEL, messages=CHAT, max_completion_tokens=10,
                                                     temperature=0, logprobs=True, top_logprobs=2, n=2, seed=3,
                                                     stop=["zebra"], user="someone")
        for choice in answer.choices:
            self.assertEqual(choice.message.role, "assistant")
            self.assertEqual(b"".join(bytes(t.bytes) for t in choice.logprobs.content).decode(), choice.message.content)
            self.assertTrue(all(len(t.top_logprobs) == 2 for t in choice.logprobs.content))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_streams(self):
        params = {"model": MODEL, "messages": CHAT, "max_tokens": 10, "temperature": 0}
        whole = self.client.chat.completions.create(**params)
        stream = self.client.chat.completions.create(**params, stream=True, stream_options={"include_usage": True})
        chunks = list(stream)
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks[:-1]), whole.choices[0].message.content)
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(chunks[-2].choices[0].finish_reason, whole.choices[0].finish_reason)

    def test_tools_rounds(self):
        messages = [{"role": "user", "content": "What time is it?"}]
        for choice in ("required", {"type": "function", "function": {"name": "clock"}}):
            answer = self.client.chat.completions.create(model=MODEL, messages=messages, tools=[CLOCK], seed=4,
                                                         tool_choice=choice, parallel_tool_calls=False).choices[0]
            self.assertIn(answer.finish_reason, ("tool_calls", "stop"))
            [call] = answer.message.tool_calls
            self.assertEqual(call.function.name, "clock")
            result = clock(**json.loads(call.function.arguments))
            messages += [answer.message, {"role": "tool", "tool_call_id": call.id, "content": result}]
        last = self.client.chat.completions.create(model=MODEL, messages=messages, tools=[CLOCK], tool_choice="none",
                                                   max_tokens=6)
        self.assertIsNone(last.choices[0].message.tool_calls)
        self.assertTrue(last.choices[0].message.content)

    def test_tools_streamed(self):
        params = {"model": MODEL, "messages": CHAT, "tools": [CLOCK], "tool_choice": "required", "seed": 4,
                  "parallel_tool_calls": False}
        whole = self.client.chat.completions.create(**params).choices[0].message.tool_calls[0]
        name, arguments, ids = "", "", set()
        for chunk in self.client.chat.completions.create(**params, stream=True):
            for call in chunk.choices[0].delta.tool_calls or []:
                self.assertEqual(call.index, 0)
                name += call.function.name or ""
                arguments += call.function.arguments or ""
                ids |= {call.id} - {None}
        self.assertEqual((name, arguments), (whole.function.name, whole.function.arguments))
        self.assertEqual(len(ids), 1)

    def test_schemas(self):
        parse = getattr(self.client.chat.completions, "parse", None) or self.client.beta.chat.completions.parse
        answer = parse(model=MODEL, messages=CHAT, response_format=Person).choices[0]
        self.assertEqual(answer.finish_reason, "stop")
        self.assertIsInstance(answer.message.parsed, Person)

    def test_schemas_streamed(self):
        form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
        stream = self.client.chat.completions.create(model=MODEL, messages=CHAT, response_format=form, stream=True)
        self.check_person(json.loads("".join(c.choices[0].delta.content or "" for c in stream)))

    def test_embeddings(self):
        answer = self.client.embeddings.create(model=MODEL, input=["one text", "another"])
        for item in answer.data:
            self.assertAlmostEqual(math.hypot(*item.embedding), 1, 4)
        plain = self.client.embeddings.create(model=MODEL, input="one text", encoding_format="float").data[0].embedding
        self.assertTrue(all(abs(a - b) < 1e-6 for a, b in zip(plain, answer.data[0].embedding)))

    def test_responses(self):
        params = {"model": MODEL, "input": STORY, "instructions": "Tell a story.", "max_output_tokens": 16, "temperature": 0}
        whole = self.client.responses.create(**params)
        self.assertEqual(whole.status, "incomplete")
        events = list(self.client.responses.create(**params, stream=True))
        text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        self.assertEqual(text, whole.output_text)
        self.assertEqual(events[-1].type, "response.incomplete")

    def test_responses_tools(self):
        tool = {"type": "function", "name": "clock", "description": "The time.", "parameters": ZONE, "strict": True}
        items = [{"role": "user", "content": "What time is it?"}]
        for _ in range(2):
            answer = self.client.responses.create(model=MODEL, input=items, tools=[tool], tool_choice="required",
                                                  parallel_tool_calls=False, store=False)
            [call] = [item for item in answer.output if item.type == "function_call"]
            result = clock(**json.loads(call.arguments))
            items += [*answer.output, {"type": "function_call_output", "call_id": call.call_id, "output": result}]
        last = self.client.responses.create(model=MODEL, input=items, tools=[tool], tool_choice="none", max_output_tokens=16)
        self.assertTrue(last.output_text)

    def test_responses_schemas(self):
        answer = self.client.responses.parse(model=MODEL, input=STORY, text_format=Person)
        self.assertIsInstance(answer.output_parsed, Person)

    def test_cancel(self):
        before = self.cancelled()
        stream = self.client.chat.completions.create(model=MODEL, messages=CHAT, max_tokens=900, stream=True,
                                                     extra_body={"ignore_eos": True})
        next(iter(stream))
        self.assertEqual(self.running(), 1)
        stream.close()
        self.check_cancelled(before)

    def test_cancel_timeout(self):
        """Who gives up an answer that is not streamed frees its place too."""
        before = self.cancelled()
        client = self.client.with_options(timeout=openai.Timeout(0.3, connect=30))
        with self.assertRaises(openai.APITimeoutError):
            client.completions.create(model=MODEL, prompt=STORY, max_tokens=900, n=16, extra_body={"ignore_eos": True})
        self.check_cancelled(before)

    def test_retry(self):
        def make_call(url, key):
            client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=4)
            return lambda: client.chat.completions.create(model=MODEL, messages=CHAT, max_tokens=2)
        check_retry(self, make_call)

    def test_retry_exhausted(self):
        """Without retries the refusal is the package's own class, with the wait in its headers."""
        def make_call(url, key):
            client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)

            def call():
                try:
                    client.models.list()
                    client.completions.create(model=MODEL, prompt=STORY, max_tokens=2)
                except openai.RateLimitError as e:
                    self.assertGreaterEqual(int(e.response.headers["retry-after"]), 1)
                    self.assertEqual(e.code, "rate_limit_exceeded")
            return call
        check_retry(self, make_call)

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model=MODEL, messages=CHAT, temperature=9)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="other", messages=CHAT)
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_batches(self):
        """A file of requests, its batch, and the answers; pages, errors, and what is deleted."""
        with tempfile.TemporaryDirectory(prefix="quire-batches-") as folder:
            server = Server(*FLAGS, "--batch-dir", folder, model="")
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
            lines = [{"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions",
                      "body": {"model": MODEL, "messages": CHAT, "max_tokens": 5, "seed": i}} for i in range(5)]
            data = "".join(json.dumps(line) + "\n" for line in lines).encode()
            file = client.files.create(file=("in.jsonl", data), purpose="batch")
            self.assertEqual((file.bytes, file.filename, file.purpose), (len(data), "in.jsonl", "batch"))
            self.assertEqual(client.files.content(file.id).read(), data)
            batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h",
                                          metadata={"who": "me"})
            begin = time.monotonic()
            while batch.status not in ("completed", "failed", "expired", "cancelled") and time.monotonic() - begin < 60:
                time.sleep(0.05)
                batch = client.batches.retrieve(batch.id)
            self.assertEqual((batch.status, batch.errors, batch.error_file_id), ("completed", None, None))
            self.assertEqual((batch.request_counts.total, batch.request_counts.completed), (5, 5))
            self.assertEqual(batch.metadata, {"who": "me"})
            answers = {a["custom_id"]: a["response"]["body"] for a in
                       map(json.loads, client.files.content(batch.output_file_id).text.splitlines())}
            for line in lines:
                one = client.chat.completions.create(**line["body"])
                self.assertEqual(answers[line["custom_id"]]["choices"][0]["message"]["content"], one.choices[0].message.content)
            self.assertEqual([b.id for b in client.batches.list(limit=1)], [batch.id])
            self.assertEqual({f.id for f in client.files.list()}, {file.id, batch.output_file_id})
            self.assertTrue(client.files.delete(file.id).deleted)
            with self.assertRaises(openai.NotFoundError):
                client.files.retrieve(file.id)
            with self.assertRaises(openai.ConflictError):
                client.batches.cancel(batch.id)
            client.close()
            self.assertEqual(server.stop(), 0)

    def test_threads(self):
        """One client in many threads, as web programs have it: its connections are kept."""
        texts, begin = [], time.monotonic()

        def ask(i):
            answer = self.client.completions.create(model=MODEL, prompt=STORY, max_tokens=4, seed=i, timeout=60)
            texts.append(answer.choices[0].text)
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(texts), 12, f"after {time.monotonic() - begin:.1f} s")


if int(openai.__version__.split(".")[0]) > 1:
    class OpenAICacheTest(ClientCase):
        """Breakpoints, as the newest release types them."""
        flags = ("--prefix-pin-memory", "16m")
        text = "The bear went to the river with the owl. " * 8

        def setUp(self):
            self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

        def tearDown(self):
            self.client.close()

        def test_chats(self):
            part = {"type": "text", "text": self.text, "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
            ask = lambda last: self.client.chat.completions.create(
                model=MODEL, max_tokens=2, prompt_cache_options={"mode": "explicit", "ttl": "30m"},
                messages=[{"role": "system", "content": [part]}, {"role": "user", "content": last}]).usage
            first, second = ask("And then?"), ask("What else?")
            details = first.prompt_tokens_details
            self.assertEqual(details.cached_tokens + details.cache_write_tokens, first.prompt_tokens)
            self.assertTrue(60 < details.pinned_tokens < first.prompt_tokens)
            self.assertGreaterEqual(second.prompt_tokens_details.cached_tokens, details.pinned_tokens)

        def test_responses(self):
            part = {"type": "input_text", "text": "So " + self.text, "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
            usage = self.client.responses.create(model=MODEL, max_output_tokens=2, input=[
                {"role": "user", "content": [part, {"type": "input_text", "text": "And then, when the moon came up?"}]}]).usage
            details = usage.input_tokens_details
            self.assertGreater(details.cache_write_tokens_details.ttl_12h_tokens, 60)
            self.assertEqual(details.cache_write_tokens_details.ttl_30m_tokens, 0)
            self.assertEqual(details.cached_tokens + details.cache_write_tokens, usage.input_tokens)

        def test_refused(self):
            part = {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "1h"}}
            with self.assertRaises(openai.BadRequestError) as caught:
                self.client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": [part]}])
            self.assertEqual(caught.exception.param, "messages[0].content[0].prompt_cache_breakpoint.ttl")

    class OpenAIDecisionsTest(ClientCase):
        def setUp(self):
            self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

        def tearDown(self):
            self.client.close()

        def check_answers(self, decision):
            refund, team, urgency = decision.answers
            self.assertEqual([(a.type, a.name) for a in decision.answers],
                             [("predicate", "refund"), ("choice", "team"), ("score", None)])
            self.assertTrue(0 <= refund.probability <= 1)
            self.assertEqual([p.value for p in team.probabilities], ["billing", "true", True])
            self.assertEqual([type(p.value) for p in team.probabilities], [str, str, bool])
            best = max(team.probabilities, key=lambda p: p.probability)
            self.assertEqual((type(team.choice), team.choice), (type(best.value), best.value))
            self.assertEqual([(p.value, p.label) for p in urgency.probabilities],
                             [(0, "can wait"), (1, "this week"), (2, "today")])
            self.assertAlmostEqual(urgency.score, sum(p.value * p.probability for p in urgency.probabilities), 4)
            for answer in (team, urgency):
                self.assertAlmostEqual(sum(p.probability for p in answer.probabilities), 1, 4)
                self.assertTrue(0 <= answer.confidence <= 1)
            self.assertEqual(decision.model, MODEL)

        def test_decisions(self):
            decision = self.client.decisions.create(model=MODEL, input="I was charged twice.", questions=QUESTIONS)
            self.check_answers(decision)
            self.assertEqual(decision.usage.total_tokens, decision.usage.input_tokens + decision.usage.output_tokens)
            self.assertEqual(decision.usage.output_tokens_details.reasoning_tokens, 0)

        def test_decisions_booleans(self):
            """A boolean that is chosen comes back as one, and its own text as a text."""
            for value, other in ((True, "true"), ("true", True), (False, "false"), ("false", False)):
                choices = [{"value": value}, {"value": other, "description": "never"}]
                decision = self.client.decisions.create(model=MODEL, input="It is so.", questions=[{**TEAM, "choices": choices}])
                [answer] = decision.answers
                self.assertEqual([type(p.value) for p in answer.probabilities], [type(value), type(other)])
                likely = answer.probabilities[0].probability > answer.probabilities[1].probability
                self.assertIs(type(answer.choice), type(value if likely else other))

        def messages(self):
            """What may stand in an input: messages of all roles, JSON, breakpoints of the cache, and a tool's result."""
            stop = {"mode": "explicit"}
            return [{"type": "message", "role": "developer", "content": "Tickets of a shop."},
                    {"role": "user", "content": [
                        {"type": "input_text", "text": "I was charged twice.", "prompt_cache_breakpoint": stop},
                        {"type": "input_json", "data": {"plan": "pro", "days": [3, 4.5, None]}}]},
                    {"role": "assistant", "content": [{"type": "output_text", "text": "I look at it."}]},
                    {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c1", "output": "two payments"}]

        def ask_messages(self):
            return self.client.decisions.create(
                model=MODEL, input=self.messages(), questions=QUESTIONS, prompt_cache_key="shop",
                prompt_cache_options={"mode": "explicit", "ttl": "30m"}, safety_identifier="someone")

        def test_decisions_messages(self):
            decision = self.ask_messages()
            self.check_answers(decision)
            details = decision.usage.input_tokens_details
            self.assertLessEqual(details.cached_tokens + details.cache_write_tokens, decision.usage.input_tokens)
            self.assertEqual(self.ask_messages().answers, decision.answers)

        def test_decisions_async(self):
            async def ask():
                async with openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0) as client:
                    return await asyncio.gather(*(client.decisions.create(
                        model=MODEL, input=f"I was charged {i} times.", questions=QUESTIONS) for i in range(4)))
            for i, decision in enumerate(asyncio.run(ask())):
                self.check_answers(decision)
                alone = self.client.decisions.create(model=MODEL, input=f"I was charged {i} times.", questions=QUESTIONS)
                self.assertEqual(decision.answers, alone.answers)

        def test_decisions_errors(self):
            for params, param in (({"questions": []}, "questions"), ({"questions": QUESTIONS, "input": ""}, "input"),
                                  ({"questions": [TEAM, TEAM]}, "questions[1].name")):
                with self.assertRaises(openai.BadRequestError) as caught:
                    self.client.decisions.create(**{"model": MODEL, "input": "It is so.", **params})
                self.assertEqual(caught.exception.param, param)
            with self.assertRaises(openai.NotFoundError):
                self.client.decisions.create(model="other", input="It is so.", questions=QUESTIONS)

        def test_decisions_retry(self):
            def make_call(url, key):
                client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=4)
                return lambda: client.decisions.create(model=MODEL, input="It is so.", questions=QUESTIONS[:1])
            check_retry(self, make_call)


if __name__ == "__main__":
    main()
