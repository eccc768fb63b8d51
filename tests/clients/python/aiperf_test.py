"""aiperf: one short run for each kind of endpoint, with made prompts and a few requests at a time."""
import json

from load_case import MODEL, LoadCase, main


class AIPerfTest(LoadCase):
    offline = {}  # told to be so it looks for a folder's name among the files of the hub

    def run_kind(self, endpoint, *flags):
        self.tool("aiperf", "profile", "--model", MODEL, "--url", self.url, "--endpoint-type", endpoint,
                  "--tokenizer", self.tokenizer, "--request-count", 8, "--concurrency", 2, "--ui", "none",
                  "--synthetic-input-tokens-mean", 24, "--workers-max", 1, "--output-artifact-dir", self.folder, *flags)
        [summary] = self.folder.rglob("profile_export_aiperf.json")
        totals = json.loads(summary.read_text())
        self.assertEqual(totals["request_count"]["avg"], 8, totals)
        self.assertFalse(totals.get("error_summary"), totals)
        self.assertFalse((totals.get("error_request_count") or {}).get("avg"), totals)
        self.check_served(8)

    def test_load_chat(self):
        self.run_kind("chat", "--streaming", "--output-tokens-mean", 12)

    def test_load_embeddings(self):
        self.run_kind("embeddings")


if __name__ == "__main__":
    main()
