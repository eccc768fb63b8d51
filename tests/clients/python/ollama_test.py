"""ollama: the package of Ollama's own, against /api."""
import ollama
from case import MODEL, PERSON, STORY, ClientCase, clock, main

CHAT = [{"role": "user", "content": STORY}]
GREEDY = {"temperature": 0, "num_predict": 8}
TOOL = {"type": "function", "function": {"name": "clock", "description": "The time.", "parameters": {
    "type": "object", "properties": {"zone": {"type": "integer"}}, "required": ["zone"]}}}


class OllamaTest(ClientCase):
    def setUp(self):
        self.client = ollama.Client(host=self.url)

    def test_chat(self):
        answer = self.client.chat(MODEL, CHAT, options=GREEDY)
        self.assertEqual(answer.eval_count, 8)
        self.assertEqual(answer.done_reason, "length")
        self.assertEqual(answer.message.role, "assistant")

    def test_streams(self):
        whole = self.client.chat(MODEL, CHAT, options=GREEDY)
        parts = list(self.client.chat(MODEL, CHAT, options=GREEDY, stream=True))
        self.assertEqual("".join(p.message.content for p in parts), whole.message.content)
        self.assertEqual([p.done for p in parts], [False] * (len(parts) - 1) + [True])
        pieces = [p.response for p in self.client.generate(MODEL, STORY, options=GREEDY, stream=True)]
        self.assertEqual("".join(pieces), self.client.generate(MODEL, STORY, options=GREEDY).response)

    def test_rounds(self):
        """The context of an answer is the next one's."""
        first = self.client.generate(MODEL, STORY, options=GREEDY)
        second = self.client.generate(MODEL, "And then?", context=first.context, options=GREEDY)
        self.assertEqual(second.context[:len(first.context)], first.context)

    def test_tools(self):
        """A function of Python's is a tool; a call and its result go back as they are."""
        self.client.chat(MODEL, CHAT, tools=[clock, TOOL], options=GREEDY)
        call = ollama.Message.ToolCall(function={"name": "clock", "arguments": {"zone": 2}})
        turns = [*CHAT, ollama.Message(role="assistant", tool_calls=[call]),
                 ollama.Message(role="tool", content=clock(2), tool_name="clock")]
        self.assertEqual(self.client.chat(MODEL, turns, tools=[TOOL], options=GREEDY).eval_count, 8)

    def test_schemas(self):
        import json
        answer = self.client.chat(MODEL, CHAT, format=PERSON, options={"num_predict": 300})
        self.check_person(json.loads(answer.message.content))
        text = "".join(p.message.content for p in self.client.chat(MODEL, CHAT, format=PERSON, stream=True,
                                                                   options={"num_predict": 300}))
        self.check_person(json.loads(text))

    def test_logprobs(self):
        answer = self.client.chat(MODEL, CHAT, logprobs=True, top_logprobs=2, options=GREEDY)
        self.assertEqual([len(e.top_logprobs) for e in answer.logprobs], [2] * 8)

    def test_embeddings(self):
        both = self.client.embed(MODEL, ["a bear", "an owl"], dimensions=4)
        self.assertEqual([len(e) for e in both.embeddings], [4, 4])
        self.assertGreater(len(self.client.embeddings(MODEL, "a bear").embedding), 4)

    def test_models(self):
        names = [m.model for m in self.client.list().models]
        self.assertEqual(names, [f"{MODEL}:latest"])
        self.assertEqual([m.model for m in self.client.ps().models], names)
        self.assertIn("completion", self.client.show(names[0]).capabilities)
        self.assertEqual(self.client.chat(names[0], CHAT, options=GREEDY, keep_alive="5m").eval_count, 8)

    def test_errors(self):
        for status, call in (
                (404, lambda: self.client.chat("nobody", CHAT)), (400, lambda: self.client.pull("x")),
                (400, lambda: list(self.client.push("x", stream=True))), (400, lambda: self.client.delete("x")),
                (400, lambda: self.client.create("x", from_=MODEL)), (400, lambda: self.client.copy("a", "b")),
                (400, lambda: self.client.generate(MODEL, STORY, images=[b"x"])),
                (400, lambda: self.client.chat(MODEL, CHAT, think=True))):
            with self.assertRaises(ollama.ResponseError) as caught:
                call()
            self.assertEqual(caught.exception.status_code, status)
            self.assertTrue(caught.exception.error)

    def test_cancel(self):
        before = self.cancelled()
        stream = self.client.chat(MODEL, CHAT, options={"num_predict": 900}, stream=True,
                                  format={"type": "array", "minItems": 900})
        next(iter(stream))
        self.assertEqual(self.running(), 1)
        stream.close()
        self.check_cancelled(before)


if __name__ == "__main__":
    main()
