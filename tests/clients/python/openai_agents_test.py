"""OpenAI's Agents SDK: loops of five calls in the words of each family, over both of OpenAI's APIs."""
import asyncio

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from agents.models.openai_responses import OpenAIResponsesModel
from loop_case import LoopCase, main
from openai import AsyncOpenAI

set_tracing_disabled(True)  # it goes to OpenAI


class OpenAIAgentsTest(LoopCase):
    def check(self, model, stream, strict):
        async def loop(family, functions):
            async with AsyncOpenAI(base_url=f"{self.proxy.url}/v1", api_key="none", max_retries=0) as client:
                tools = [function_tool(f, strict_mode=strict) for f in (functions.save, functions.total)]
                agent = Agent("worker", instructions="Call tools.", tools=tools, model=model(family.name, client))
                if not stream:
                    run = await Runner.run(agent, "Do the work.")
                else:
                    run = Runner.run_streamed(agent, "Do the work.")
                    async for _ in run.stream_events():
                        pass
                return run.final_output, thoughts_of(run)
        # Over chats it sends thoughts back to few models, which it knows by their names.
        self.check_functions(lambda family, functions: asyncio.run(loop(family, functions)), model is OpenAIResponsesModel)

    def test_tools_chat(self):
        self.check(OpenAIChatCompletionsModel, stream=False, strict=True)

    def test_tools_chat_streamed(self):
        self.check(OpenAIChatCompletionsModel, stream=True, strict=False)

    def test_tools_responses(self):
        self.check(OpenAIResponsesModel, stream=False, strict=False)

    def test_tools_responses_streamed(self):
        self.check(OpenAIResponsesModel, stream=True, strict=True)


def thoughts_of(run):
    """They stand in an item's content (Responses) or its summary (chats)."""
    items = [item.raw_item for item in run.new_items if item.type == "reasoning_item"]
    return ["".join(part.text for part in item.content or item.summary) for item in items]


if __name__ == "__main__":
    main()
