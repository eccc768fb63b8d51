"""pydantic-ai: agents that call tools and answer in types, over OpenAI's and Anthropic's APIs."""
import asyncio
import math

import anthropic
import openai
from case import MODEL, STORY, ZONE, ClientCase, check_retry, clock, main
from loop_case import LoopCase
from pydantic import BaseModel, Field
from pydantic_ai import Agent, Embedder, NativeOutput, ToolOutput
from pydantic_ai.direct import model_request_sync
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.messages import ModelRequest, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition


class Person(BaseModel):
    """Who it is."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=120)


def models(url, key="none", max_retries=0, model=MODEL):
    """Its ways to reach a server; a connection belongs to the loop that it was made in."""
    yield "chat", OpenAIChatModel(model, provider=OpenAIProvider(
        openai_client=openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=max_retries)))
    yield "responses", OpenAIResponsesModel(model, provider=OpenAIProvider(
        openai_client=openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=max_retries)))
    yield "messages", AnthropicModel(model, provider=AnthropicProvider(
        anthropic_client=anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=max_retries)))


class PydanticAITest(ClientCase):
    def each(self, *names):
        for name, model in models(self.url):
            if not names or name in names:
                with self.subTest(name):
                    yield model

    def test_chat(self):
        for model in self.each():
            answer = Agent(model, system_prompt="Tell a story.").run_sync(STORY, model_settings={"max_tokens": 16})
            self.assertTrue(answer.output)
            self.assertEqual(answer.usage.output_tokens, 16)

    def test_streams(self):
        async def stream(model):
            async with Agent(model).run_stream(STORY, model_settings={"max_tokens": 16}) as run:
                pieces = [piece async for piece in run.stream_text(delta=True)]
                return pieces, await run.get_output()
        for model in self.each():
            pieces, whole = asyncio.run(stream(model))
            self.assertEqual("".join(pieces), whole)

    def test_tools_rounds(self):
        """Two calls that the model is made to make, with their results, then a last answer in words."""
        tool = ToolDefinition(name="clock", description="The time.", parameters_json_schema=ZONE)
        for model in self.each():
            history = [ModelRequest.user_text_prompt("What time is it?")]
            for choice in ("required", ["clock"]):
                answer = request(model, history, tool, {"max_tokens": 200, "tool_choice": choice, "parallel_tool_calls": False})
                [call] = answer.tool_calls
                history += [answer, ModelRequest(parts=[ToolReturnPart(
                    tool_name="clock", content=clock(**call.args_as_dict()), tool_call_id=call.tool_call_id)])]
            last = request(model, history, tool, {"max_tokens": 16, "tool_choice": "none"})
            self.assertEqual(last.tool_calls, [])
            self.assertTrue(last.text)

    def test_tools_agent(self):
        """An agent whose answer is what a tool would take."""
        for model in self.each():
            agent = Agent(model, output_type=ToolOutput(Person, name="done"))
            answer = agent.run_sync("Who?", model_settings={"max_tokens": 200, "tool_choice": ["done"]})
            self.assertIsInstance(answer.output, Person)

    def test_schemas(self):
        # Of Anthropic's models it knows by their names which have this.
        for model in self.each("chat", "responses"):
            agent = Agent(model, output_type=NativeOutput(Person))
            self.assertIsInstance(agent.run_sync("Who?", model_settings={"max_tokens": 200}).output, Person)

    def test_embeddings(self):
        embedder = Embedder(OpenAIEmbeddingModel(MODEL, provider=OpenAIProvider(base_url=f"{self.url}/v1", api_key="none")))
        answer = asyncio.run(embedder.embed_documents(["one text", "another"]))
        for vector in answer.embeddings:
            self.assertAlmostEqual(math.hypot(*vector), 1, 4)

    def test_cancel(self):
        """A task that is cancelled in the middle of its stream."""
        async def begin_and_cancel(model):
            started = asyncio.Event()

            async def stream():
                async with Agent(model).run_stream(STORY, model_settings={
                        "max_tokens": 900, "extra_body": {"ignore_eos": True}}) as run:
                    async for _ in run.stream_text(delta=True):
                        started.set()
            task = asyncio.create_task(stream())
            await started.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for model in self.each():
            before = self.cancelled()
            asyncio.run(begin_and_cancel(model))
            self.check_cancelled(before)

    def test_retry(self):
        for name in ("chat", "messages"):
            def make_call(url, key):
                def call():
                    model = dict(models(url, key, max_retries=4))[name]
                    Agent(model).run_sync(STORY, model_settings={"max_tokens": 2})
                return call
            with self.subTest(name):
                check_retry(self, make_call)


class PydanticAILoops(LoopCase):
    """Loops of five calls in the words of each family."""

    def check(self, api, at):
        """Each family has answers that are streamed and others that are not, but not over each API."""
        async def loop(family, functions):
            model = dict(models(self.proxy.url, model=family.name))[api]
            agent = Agent(model, tools=[functions.save, functions.total])
            if (self.families.index(family) + at) % 2 == 0:
                run = await agent.run("Do the work.")
                return run.output, thoughts_of(run)
            async with agent.run_stream("Do the work.") as run:
                return await run.get_output(), thoughts_of(run)
        self.check_functions(lambda family, functions: asyncio.run(loop(family, functions)))

    def test_tools_loop_chat(self):
        self.check("chat", 0)

    def test_tools_loop_responses(self):
        self.check("responses", 1)

    def test_tools_loop_messages(self):
        self.check("messages", 2)


def thoughts_of(run):
    """Of Responses, what is no summary is a detail."""
    parts = [part for message in run.all_messages() for part in message.parts if part.part_kind == "thinking"]
    return [part.content or "".join(part.provider_details["raw_content"]) for part in parts]


def request(model, history, tool, settings):
    """One call, without an agent's loop."""
    return model_request_sync(model, history, model_settings=settings,
                              model_request_parameters=ModelRequestParameters(function_tools=[tool], allow_text_output=True))


if __name__ == "__main__":
    main()
