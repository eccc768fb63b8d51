"""langchain-typesafe: TypeSafe's questions as a step of LangChain's chains."""
import asyncio

from case import MODEL, ClientCase, main
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_typesafe import Choice, Noul, Score, TypeSafeClassifier
from langchain_typesafe.client import TypeSafeBadRequestError, TypeSafeNotFoundError

QUESTIONS = {
    "refund": Noul(instructions="Is money to be paid back?", criteria={"true": "money back wanted"}),
    "team": Choice(instructions="Who handles it?", criteria={"billing": "payments", "sales": None}),
    "urgency": Score(instructions={"ask": "How urgent is it?"}, criteria=["can wait", {"when": "this week"}, "today"])}
STATES = ["I was charged twice.", {"message": "I was charged twice.", "days": [1, 2.5, None]},
          [HumanMessage("I was charged twice."), AIMessage("I look at it.")]]


class TypeSafeClassifierTest(ClientCase):
    def classifier(self, **more):
        return TypeSafeClassifier(**{"model": MODEL, "api_key": "none", "base_url": self.url, **more})

    def check_response(self, response):
        self.assertEqual(response.model, MODEL)
        self.assertTrue(0 <= response.nouls["refund"].noul <= 1)
        team, urgency = response.choices["team"], response.scores["urgency"]
        self.assertEqual(team.choice, max(team.probabilities, key=team.probabilities.get))
        self.assertEqual(len(urgency.probabilities), 3)
        self.assertTrue(0 <= urgency.score <= 2)

    def test_decisions(self):
        for state in STATES:
            self.check_response(self.classifier().invoke({"state": state, "questions": QUESTIONS}))

    def test_decisions_async(self):
        async def ask():
            return await self.classifier().abatch([{"state": s, "questions": QUESTIONS} for s in STATES])
        for state, response in zip(STATES, asyncio.run(ask())):
            self.check_response(response)
            alone = self.classifier().invoke({"state": state, "questions": QUESTIONS})
            self.assertEqual(response.answers, alone.answers)

    def test_decisions_chain(self):
        """A team is chosen between two steps of a chain."""
        chain = (RunnableLambda(lambda text: {"state": text, "questions": QUESTIONS}) | self.classifier()
                 | RunnableLambda(lambda response: response.choices["team"].choice))
        self.assertEqual(set(chain.batch(["I was charged twice."] * 3)) - {"billing", "sales"}, set())

    def test_decisions_errors(self):
        with self.assertRaises(TypeSafeBadRequestError) as caught:
            self.classifier().invoke({"state": "", "questions": QUESTIONS})
        self.assertEqual(caught.exception.body["error"]["param"], "state")
        with self.assertRaises(TypeSafeNotFoundError):
            self.classifier(model="other").invoke({"state": STATES[0], "questions": QUESTIONS})


if __name__ == "__main__":
    main()
