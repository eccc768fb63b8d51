"""llama-index over servers that are like OpenAI's: completions, chats, tools, structured answers, embeddings."""
import gc
import math

from case import MODEL, STORY, ClientCase, check_retry, clock, main
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel, Field

MESSAGES = [ChatMessage(role="system", content="Tell a story."), ChatMessage(role="user", content=STORY)]


class Person(BaseModel):
    """Who it is."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=120)


class Zone(BaseModel):
    """Where."""

    zone: int = Field(ge=-12, le=12)


class LlamaIndexTest(ClientCase):
    def llm(self, **more):
        return OpenAILike(**{"model": MODEL, "api_base": f"{self.url}/v1", "api_key": "none", "max_retries": 0, "temperature": 0,
                             "max_tokens": 10, "is_chat_model": True, "is_function_calling_model": True, **more})

    def test_completions(self):
        llm = self.llm(is_chat_model=False)
        whole = llm.complete(STORY).text
        self.assertTrue(whole)
        self.assertEqual("".join(piece.delta or "" for piece in llm.stream_complete(STORY)), whole)

    def test_chat(self):
        answer = self.llm().chat(MESSAGES)
        self.assertTrue(answer.message.content)
        self.assertEqual(answer.raw.usage.completion_tokens, 10)

    def test_streams(self):
        pieces = list(self.llm().stream_chat(MESSAGES))
        self.assertEqual("".join(p.delta or "" for p in pieces), self.llm().chat(MESSAGES).message.content)

    def test_tools_rounds(self):
        tool = FunctionTool.from_defaults(fn=clock, name="clock", description="The time.", fn_schema=Zone)
        llm, messages = self.llm(max_tokens=200), [ChatMessage(role="user", content="What time is it?")]
        for choice in ("required", "clock"):
            answer = llm.chat_with_tools([tool], chat_history=messages, tool_choice=choice, allow_parallel_tool_calls=False)
            [call] = llm.get_tool_calls_from_response(answer)
            result = tool.call(**call.tool_kwargs)
            messages += [answer.message, ChatMessage(role="tool", content=str(result.content),
                                                     additional_kwargs={"tool_call_id": call.tool_id})]
        last = llm.chat_with_tools([tool], chat_history=messages, tool_choice="none")
        self.assertEqual(llm.get_tool_calls_from_response(last, error_on_no_tool_call=False), [])
        self.assertTrue(last.message.content)

    def test_schemas(self):
        answer = self.llm(max_tokens=200).as_structured_llm(Person).complete("Who?")
        self.assertIsInstance(answer.raw, Person)

    def test_schemas_json(self):
        llm = self.llm(max_tokens=200, should_use_structured_outputs=True)
        self.assertIsInstance(llm.as_structured_llm(Person).chat(MESSAGES).raw, Person)

    def test_embeddings(self):
        model = OpenAILikeEmbedding(model_name=MODEL, api_base=f"{self.url}/v1", api_key="none", embed_batch_size=2)
        vectors = model.get_text_embedding_batch(["one text", "another", "a third"])
        self.assertEqual(len(vectors), 3)
        self.assertAlmostEqual(math.hypot(*model.get_query_embedding("one text")), 1, 4)

    def test_cancel(self):
        before = self.cancelled()
        stream = self.llm(max_tokens=900, additional_kwargs={"extra_body": {"ignore_eos": True}}).stream_chat(MESSAGES)
        next(stream)
        self.assertEqual(self.running(), 1)
        stream.close()
        del stream  # what it reads from is closed when nobody has it any more
        gc.collect()
        self.check_cancelled(before)

    def test_retry(self):
        def make_call(url, key):
            llm = self.llm(api_base=f"{url}/v1", api_key=key, max_retries=4, max_tokens=2)
            return lambda: llm.chat(MESSAGES)
        check_retry(self, make_call)


if __name__ == "__main__":
    main()
