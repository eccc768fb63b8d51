"""instructor: pydantic models out of answers, in each of the ways that it asks for them."""
import anthropic
import instructor
import openai
from case import MODEL, STORY, ClientCase, check_retry, main
from pydantic import BaseModel, Field, field_validator

CHAT = [{"role": "user", "content": STORY}]


class Person(BaseModel):
    """Who it is."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=120)


class InstructorTest(ClientCase):
    def client(self, mode, url=None, key="none", max_retries=0):
        api = openai.OpenAI(base_url=f"{url or self.url}/v1", api_key=key, max_retries=max_retries)
        return instructor.from_openai(api, mode=mode)

    def create(self, client, **more):
        return client.chat.completions.create(model=MODEL, messages=CHAT, response_model=Person, max_tokens=300,
                                              **{"max_retries": 0, **more})

    def test_tools(self):
        self.assertIsInstance(self.create(self.client(instructor.Mode.TOOLS)), Person)

    def test_tools_anthropic(self):
        client = instructor.from_anthropic(anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0),
                                           mode=instructor.Mode.ANTHROPIC_TOOLS)
        self.assertIsInstance(self.create(client), Person)

    def test_schemas(self):
        self.assertIsInstance(self.create(self.client(instructor.Mode.JSON_SCHEMA)), Person)

    def test_streams(self):
        last = None
        for last in self.client(instructor.Mode.JSON_SCHEMA).chat.completions.create_partial(
                model=MODEL, messages=CHAT, response_model=Person, max_tokens=300, max_retries=0):
            pass
        self.assertIn(last.age, range(121))

    def test_chat(self):
        answer = self.client(instructor.Mode.TOOLS).chat.completions.create(
            model=MODEL, messages=CHAT, response_model=None, max_tokens=8)
        self.assertEqual(answer.usage.completion_tokens, 8)

    def test_rounds(self):
        """An answer that its own check refuses goes back with the reason, and is asked for again."""
        tries = []

        class Picky(Person):
            @field_validator("age")
            @classmethod
            def check(cls, age):
                tries.append(age)
                if len(tries) < 3:
                    raise ValueError("not that one")
                return age
        client = self.client(instructor.Mode.TOOLS)
        answer = client.chat.completions.create(model=MODEL, messages=CHAT, response_model=Picky, max_tokens=300,
                                                max_retries=4)
        self.assertEqual(len(tries), 3)
        self.assertEqual(answer.age, tries[-1])

    def test_cancel(self):
        before = self.cancelled()
        stream = self.client(instructor.Mode.TOOLS).chat.completions.create(
            model=MODEL, messages=CHAT, response_model=None, max_tokens=900, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        self.assertEqual(self.running(), 1)
        stream.close()
        self.check_cancelled(before)

    def test_retry(self):
        def make_call(url, key):
            client = self.client(instructor.Mode.JSON_SCHEMA, url, key, max_retries=4)
            return lambda: self.create(client)
        check_retry(self, make_call)


if __name__ == "__main__":
    main()
