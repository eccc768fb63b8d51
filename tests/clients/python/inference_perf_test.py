"""inference-perf: one short run of streamed completions, with made prompts at a steady rate."""
import json

from load_case import MODEL, LoadCase, main


class InferencePerfTest(LoadCase):
    def run_kind(self, kind, data):
        config = {
            "data": data,
            "load": {"type": "constant", "stages": [{"rate": 4, "duration": 2}], "num_workers": 1, "worker_max_concurrency": 8},
            "api": {"type": kind, "streaming": True},
            "server": {"type": "vllm", "model_name": MODEL, "base_url": self.url, "ignore_eos": True},
            "tokenizer": {"pretrained_model_name_or_path": str(self.tokenizer)},
            "report": {"request_lifecycle": {"summary": True, "per_stage": False, "per_request": False}},
            "storage": {"local_storage": {"path": str(self.folder)}},
        }
        path = self.folder / "config.yml"
        path.write_text(json.dumps(config))
        self.tool("inference-perf", "-c", path)
        [summary] = self.folder.rglob("*summary_lifecycle_metrics.json")
        totals = json.loads(summary.read_text())
        n = totals["successes"]["count"]  # its timer may leave out the last
        self.assertGreaterEqual(n, 4, totals)
        self.assertEqual((totals["load_summary"]["count"], totals["failures"]["count"]), (n, 0), totals)
        self.check_served(n)

    def test_load_completions(self):
        spread = {"min": 8, "max": 24, "mean": 16, "std_dev": 4, "total_count": 8}
        self.run_kind("completion", {"type": "random", "input_distribution": spread, "output_distribution": spread})

    def test_load_chat(self):
        self.run_kind("chat", {"type": "shared_prefix", "shared_prefix": {
            "num_groups": 2, "num_prompts_per_group": 4, "system_prompt_len": 32, "question_len": 16, "output_len": 12}})


if __name__ == "__main__":
    main()
