"""langchain-openai and langchain-anthropic: chats, tools, decisions and chains as LangChain programs make them."""
import asyncio
import math
from typing import Literal

from case import MODEL, STORY, ClientCase, check_retry, clock, main
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from langchain_openai.decisions import Choice, Level, OpenAIDecisions, Predicate, Score
from openai import BadRequestError
from pydantic import BaseModel, Field

MESSAGES = [SystemMessage("Tell a story."), HumanMessage(STORY)]


class Person(BaseModel):
    """Who it is."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=120)


class Animal(BaseModel):
    """Which animal: lengths and ranges the Anthropic package takes out of the schemas that it sends."""

    kind: Literal["bear", "fox"]
    tame: bool


class Zone(BaseModel):
    """The time."""

    zone: int = Field(ge=-12, le=12)


@tool("clock", args_schema=Zone)
def clock_tool(zone: int) -> str:
    """The time."""
    return clock(zone)


class OpenAIModels(ClientCase):
    def options(self, **more):
        return {"model": MODEL, "base_url": f"{self.url}/v1", "api_key": "none", "temperature": 0, "max_tokens": 10,
                "max_retries": 0, **more}

    def chat(self, **more):
        return ChatOpenAI(**self.options(**more))

    def test_completions(self):
        llm = OpenAI(**self.options())
        whole = llm.invoke(STORY)
        self.assertEqual("".join(llm.stream(STORY)), whole)
        self.assertEqual(len(llm.batch([STORY, "One day"])), 2)

    def test_chat(self):
        answer = self.chat().invoke(MESSAGES)
        self.assertTrue(answer.content)
        self.assertEqual(answer.usage_metadata["output_tokens"], 10)
        self.assertEqual(answer.response_metadata["finish_reason"], "length")

    def test_streams(self):
        total = None
        for chunk in self.chat(stream_usage=True).stream(MESSAGES):
            total = chunk if total is None else total + chunk
        self.assertEqual(total.content, self.chat().invoke(MESSAGES).content)
        self.assertEqual(total.usage_metadata["output_tokens"], 10)

    def test_tools_rounds(self):
        chat = self.chat(max_tokens=200)
        check_rounds(self, chat, [("any", {"parallel_tool_calls": False}), ("clock", {})])

    def test_tools_streamed(self):
        bound = self.chat(max_tokens=200).bind_tools([clock_tool], tool_choice="any", parallel_tool_calls=False)
        total = None
        for chunk in bound.stream("Noon?"):
            total = chunk if total is None else total + chunk
        self.assertIn(total.tool_calls[0]["args"]["zone"], range(-12, 13))

    def test_schemas(self):
        for method in ("json_schema", "function_calling"):
            person = self.chat(max_tokens=200).with_structured_output(Person, method=method).invoke("Who?")
            self.assertIsInstance(person, Person)

    def test_embeddings(self):
        # Without check_embedding_ctx_length it would send the token ids of another vocabulary.
        embeddings = OpenAIEmbeddings(model=MODEL, base_url=f"{self.url}/v1", api_key="none",
                                      check_embedding_ctx_length=False)
        vectors = embeddings.embed_documents(["one text", "another"])
        self.assertEqual(len(vectors), 2)
        self.assertAlmostEqual(math.hypot(*embeddings.embed_query("one text")), 1, 4)

    def test_responses(self):
        answer = self.chat(use_responses_api=True, max_tokens=16).invoke(MESSAGES)
        self.assertTrue(answer.text)
        text = "".join(c.text for c in self.chat(use_responses_api=True, max_tokens=16).stream(MESSAGES))
        self.assertEqual(text, answer.text)

    def test_cancel(self):
        check_cancel(self, self.chat(max_tokens=900, extra_body={"ignore_eos": True}))

    def test_retry(self):
        def make_call(url, key):
            chat = self.chat(base_url=f"{url}/v1", api_key=key, max_retries=4, max_tokens=2)
            return lambda: chat.invoke(MESSAGES)
        check_retry(self, make_call)


class OpenAIDecisionModels(ClientCase):
    questions = {
        "refund": Predicate(instructions="The customer wants money back."),
        "team": Choice(instructions="Who handles it?", choices={"billing": "payments", True: None, "true": None}),
        "urgency": Score(instructions="How urgent is it?", levels=["can wait", Level(label="today", description="now")])}
    inputs = ["I was charged twice.", [HumanMessage("I was charged twice."), HumanMessage("Please help!")],
              [HumanMessage("I was charged twice."), AIMessage("I look at it.")], {"plan": "pro", "days": [1, 2.5, None]}]

    def decisions(self, **more):
        return OpenAIDecisions(**{"model": MODEL, "base_url": f"{self.url}/v1", "api_key": "none", "max_retries": 0, **more})

    def request(self, text):
        return {"input": text, "questions": self.questions}

    def check_response(self, response):
        self.assertEqual(set(response.answers), set(self.questions))
        self.assertTrue(0 <= response.predicates["refund"].probability <= 1)
        team, urgency = response.choices["team"], response.scores["urgency"]
        self.assertEqual([type(value) for value in team.probabilities], [str, bool, str])
        self.assertEqual(team.probabilities[team.choice], max(team.probabilities.values()))
        self.assertEqual(urgency.legend, {0: "can wait", 1: "today"})
        self.assertTrue(0 <= urgency.score <= 1)
        self.assertGreater(response.usage.input_tokens, 0)
        self.assertTrue(response.request_id)

    def test_decisions(self):
        for text in self.inputs:
            self.check_response(self.decisions().invoke(self.request(text)))

    def test_decisions_async(self):
        async def ask():
            return await self.decisions().abatch([self.request(text) for text in self.inputs])
        for text, response in zip(self.inputs, asyncio.run(ask())):
            self.check_response(response)
            self.assertEqual(response.answers, self.decisions().invoke(self.request(text)).answers)

    def test_decisions_errors(self):
        with self.assertRaises(BadRequestError) as caught:
            self.decisions().invoke({"input": "It is so.", "questions": {}})
        self.assertEqual(caught.exception.param, "questions")


class AnthropicModels(ClientCase):
    def chat(self, **more):
        return ChatAnthropic(**{"model": MODEL, "base_url": self.url, "api_key": "none", "max_tokens": 10,
                                "max_retries": 0, "temperature": 0, **more})

    def test_chat(self):
        answer = self.chat().invoke(MESSAGES)
        self.assertTrue(answer.text)
        self.assertEqual(answer.usage_metadata["output_tokens"], 10)

    def test_streams(self):
        total = None
        for chunk in self.chat().stream(MESSAGES):
            total = chunk if total is None else total + chunk
        self.assertEqual(total.text, self.chat().invoke(MESSAGES).text)
        self.assertEqual(total.usage_metadata["output_tokens"], 10)

    def test_tools_rounds(self):
        check_rounds(self, self.chat(max_tokens=200), [("any", {"parallel_tool_calls": False}), ("clock", {})],
                     {"type": "none"})

    def test_schemas(self):
        for method in ("function_calling", "json_schema"):
            animal = self.chat(max_tokens=200).with_structured_output(Animal, method=method).invoke("Who?")
            self.assertIsInstance(animal, Animal)

    def test_cancel(self):
        check_cancel(self, self.chat(max_tokens=900, model_kwargs={"extra_body": {"ignore_eos": True}}))

    def test_retry(self):
        def make_call(url, key):
            chat = self.chat(base_url=url, api_key=key, max_retries=4, max_tokens=2)
            return lambda: chat.invoke(MESSAGES)
        check_retry(self, make_call)


def check_rounds(case, chat, choices, nothing="none"):
    """Two forced calls, each with its result, and a last answer in words."""
    messages = [HumanMessage("What time is it?")]
    for choice, more in choices:
        answer = chat.bind_tools([clock_tool], tool_choice=choice, **more).invoke(messages)
        [call] = answer.tool_calls
        messages += [answer, clock_tool.invoke(call)]
    last = chat.bind_tools([clock_tool], tool_choice=nothing).invoke(messages)
    case.assertEqual(last.tool_calls, [])
    case.assertTrue(last.text)


def check_cancel(case, chat):
    before = case.cancelled()
    stream = chat.stream(MESSAGES)
    for chunk in stream:
        if chunk.text:
            break
    case.assertEqual(case.running(), 1)
    stream.close()
    case.check_cancelled(before)


if __name__ == "__main__":
    main()
