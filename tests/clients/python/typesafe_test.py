"""typesafe-sdk: TypeSafe's own package, which asks questions by name. With its extra zstd it packs bodies of more than 1,024
bytes."""
import asyncio
import datetime

from case import MODEL, ClientCase, check_retry, main
from typesafe_sdk import (AsyncTypeSafeClient, Choice, Noul, RetryPolicy, Score, SystemOneResponse, NoulAnswer,
                          TypeSafeBadRequestError, TypeSafeClient, TypeSafeNotFoundError, TypeSafeRateLimitError)

STATE = {"message": "I was charged twice. Please help!", "plan": "pro", "payments": [{"euros": 9.5, "open": False}, None]}
NEVER = RetryPolicy(max_retries=0)
QUESTIONS = {
    "refund": Noul(instructions="Is money to be paid back?", criteria={"true": "money back wanted", "false": {"wish": "other"}}),
    "team": Choice(instructions={"ask": "Who handles it?"}, criteria={"billing": "payments", "sales": None, "other": ["the", "rest"]}),
    "urgency": Score(instructions="How urgent is it?", criteria=["can wait", {"when": "this week"}, ["today", "now"]])}


class TypeSafeTest(ClientCase):
    def setUp(self):
        self.client = TypeSafeClient(api_key="none", base_url=self.url, model=MODEL, retry=NEVER)
        self.addCleanup(self.client.close)

    def check_answers(self, answer):
        self.assertEqual(answer.model, MODEL)
        self.assertEqual(list(answer.answers), list(QUESTIONS))
        self.assertTrue(0 <= answer.nouls["refund"].noul <= 1)
        team, urgency = answer.choices["team"], answer.scores["urgency"]
        self.assertEqual(list(team.probabilities), ["billing", "sales", "other"])
        self.assertEqual(team.choice, max(team.probabilities, key=team.probabilities.get))
        self.assertEqual(urgency.legend, {0: "can wait", 1: {"when": "this week"}, 2: ["today", "now"]})
        self.assertAlmostEqual(urgency.score, sum(i * p for i, p in urgency.probabilities.items()), 4)
        for one in (team, urgency):
            self.assertAlmostEqual(sum(one.probabilities.values()), 1, 4)
            self.assertTrue(0 <= one.confidence <= 1)
        self.assertGreater(answer.usage.input_tokens, 0)

    def test_decisions(self):
        answer = self.client.system_one(state=STATE, questions=QUESTIONS)
        self.check_answers(answer)
        self.assertEqual(self.client.system_one(state=STATE, questions=QUESTIONS).answers, answer.answers)

    def test_decisions_long(self):
        """A body of more than 1,024 bytes, which the package packs."""
        self.check_answers(self.client.system_one(state={**STATE, "more": "again and " * 200}, questions=QUESTIONS))

    def test_decisions_dictionaries(self):
        plain = {name: question.model_dump() for name, question in QUESTIONS.items()}
        self.assertEqual(self.client.system_one(state=STATE, questions=plain).answers,
                         self.client.system_one(state=STATE, questions=QUESTIONS).answers)

    def test_decisions_fields(self):
        """A response with a member for each question."""
        class Ticket(SystemOneResponse):
            refund: NoulAnswer

        ticket = self.client.system_one(state="I was charged twice.", questions={"refund": QUESTIONS["refund"]},
                                        response_model=Ticket)
        self.assertEqual(ticket.refund, ticket.answers["refund"])

    def test_decisions_async(self):
        async def ask():
            async with AsyncTypeSafeClient(api_key="none", base_url=self.url, model=MODEL, retry=NEVER) as client:
                return await asyncio.gather(*(client.system_one(state=STATE, questions=QUESTIONS) for _ in range(4)))
        alone = self.client.system_one(state=STATE, questions=QUESTIONS)
        for answer in asyncio.run(ask()):
            self.check_answers(answer)
            self.assertEqual(answer.answers, alone.answers)

    def test_decisions_errors(self):
        """A score has at most 255 levels; the message is the server's."""
        many = {"how": Score(instructions="How much?", criteria=[f"level {i}" for i in range(300)])}
        with self.assertRaises(TypeSafeBadRequestError) as caught:
            self.client.system_one(state=STATE, questions=many)
        self.assertIn("'questions.how.criteria' must have 1 to 255 options; it has 300", str(caught.exception))
        with self.assertRaises(TypeSafeBadRequestError) as caught:
            self.client.system_one(state=STATE, questions=QUESTIONS, extra_body={"questions": {}})
        self.assertIn("1 to 400 questions", str(caught.exception))
        with self.assertRaises(TypeSafeNotFoundError) as caught:
            self.client.system_one(state=STATE, questions=QUESTIONS, model="other")
        self.assertIn("other", str(caught.exception))

    def test_decisions_retry(self):
        def make_call(url, key):
            client = TypeSafeClient(api_key=key, base_url=url, model=MODEL, retry=RetryPolicy(max_retries=4))
            self.addCleanup(client.close)
            return lambda: client.system_one(state="It is so.", questions={"so": Noul(instructions="Is it?")})
        check_retry(self, make_call)

    def test_decisions_retry_exhausted(self):
        def make_call(url, key):
            client = TypeSafeClient(api_key=key, base_url=url, model=MODEL, retry=NEVER)
            self.addCleanup(client.close)

            def call():
                try:
                    client.system_one(state="It is so.", questions={"so": Noul(instructions="Is it?")})
                except TypeSafeRateLimitError as e:
                    self.assertGreaterEqual(e.retry_after_ms, 1000)
            return call
        check_retry(self, make_call)

    def test_models(self):
        [model] = self.client.models.list().models
        self.assertEqual(model.name, MODEL)
        self.assertIn("parameters", model.description)
        self.assertGreater(datetime.date.fromisoformat(model.release_date), datetime.date(1971, 1, 1))


if __name__ == "__main__":
    main()
