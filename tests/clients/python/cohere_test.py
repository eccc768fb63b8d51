"""cohere: Cohere's own package, whose embeddings have several forms, and its ranking."""
import asyncio

import cohere
from case import MODEL, ClientCase, check_retry, main
from cohere.errors import BadRequestError, NotFoundError

TEXTS = ["Once upon a time", "The bear went home."]
FORMS = ["float", "int8", "uint8", "binary", "ubinary"]


class CohereTest(ClientCase):
    def setUp(self):
        self.client = cohere.ClientV2(api_key="none", base_url=self.url)

    def embed(self, **fields):
        return self.client.embed(model=MODEL, **{"texts": TEXTS, "input_type": "search_document", **fields})

    def test_embeddings(self):
        answer = self.embed(embedding_types=FORMS)
        self.assertEqual(answer.texts, TEXTS)
        self.assertEqual(answer.response_type, "embeddings_by_type")
        self.assertGreater(answer.meta.billed_units.input_tokens, 0)
        forms = answer.embeddings
        for of_text, ints, unsigned, signed, bits in zip(forms.float_, forms.int8, forms.uint8, forms.binary, forms.ubinary, strict=True):
            self.assertAlmostEqual(sum(x * x for x in of_text), 1, 5)
            self.assertEqual(len(of_text), len(ints))
            self.assertEqual(unsigned, [x + 128 for x in ints])
            self.assertEqual(len(of_text), 8 * len(bits))
            self.assertEqual(signed, [x - 128 for x in bits])
        self.assertIsNone(forms.base64)

    def test_embeddings_fields(self):
        answer = self.embed(output_dimension=8, truncate="NONE", max_tokens=40, priority=3)
        self.assertEqual([len(x) for x in answer.embeddings.float_], [8, 8])
        parts = [{"content": [{"type": "text", "text": TEXTS[0]}]}, {"content": [{"type": "text", "text": TEXTS[1]}]}]
        again = self.client.embed(model=MODEL, input_type="search_query", inputs=parts, output_dimension=8)
        self.assertEqual(again.embeddings.float_, answer.embeddings.float_)

    def test_embeddings_batched(self):
        """200 texts: the package sends them in calls of 96."""
        texts = [f"The bear has {i} hats." for i in range(200)]
        old = cohere.Client(api_key="none", base_url=self.url)
        with self.assertRaises(NotFoundError):  # its older API is not built
            old.embed(model=MODEL, texts=texts, input_type="search_document", embedding_types=["float"])
        self.assertEqual(len(self.embed(texts=texts).embeddings.float_), 200)

    def test_embeddings_async(self):
        async def ask():
            client = cohere.AsyncClientV2(api_key="none", base_url=self.url)
            calls = (client.embed(model=MODEL, texts=TEXTS, input_type="search_document") for _ in range(4))
            return [a.embeddings.float_ for a in await asyncio.gather(*calls)]
        self.assertEqual(asyncio.run(ask()), [self.embed().embeddings.float_] * 4)

    def test_embeddings_errors(self):
        with self.assertRaises(BadRequestError) as caught:
            self.embed(embedding_types=["int4"])
        self.assertIn("'embedding_types' must hold", caught.exception.body["message"])
        with self.assertRaises(BadRequestError) as caught:
            self.embed(truncate="NONE", max_tokens=1)
        self.assertIn("'truncate' is NONE", caught.exception.body["message"])

    def test_embeddings_ranked(self):
        """Documents are ranked by the cosine of the same vectors."""
        query, *documents = self.embed(texts=["Who slept?", "The sun is red.", "The bear slept."]).embeddings.float_
        answer = self.client.rerank(model=MODEL, query="Who slept?", documents=["The sun is red.", "The bear slept."], top_n=2)
        for result in answer.results:
            cosine = sum(x * y for x, y in zip(query, documents[result.index], strict=True))
            self.assertAlmostEqual(result.relevance_score, cosine, 4)
        self.assertEqual(answer.meta.billed_units.search_units, 1)

    def test_embeddings_retry(self):
        def make_call(url, key):
            client = cohere.ClientV2(api_key=key, base_url=url)
            return lambda: client.embed(model=MODEL, texts=["a"], input_type="search_query")
        check_retry(self, make_call)


if __name__ == "__main__":
    main()
