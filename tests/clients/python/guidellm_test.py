"""guidellm: one short run with streams, made prompts and a few requests at a time."""
import json

from load_case import MODEL, LoadCase, main


class GuideLLMTest(LoadCase):
    def run_kind(self, request_format):
        report = self.folder / "report.json"
        self.tool("guidellm", "run", "--disable-console-interactive",
                  "--backend", f"kind=openai_http,target={self.url},model={MODEL},request_format={request_format}",
                  "--tokenizer", f"kind=huggingface_auto,model={self.tokenizer}",
                  "--data", "kind=synthetic_text,prompt_tokens=24,output_tokens=12",
                  "--profile", "kind=concurrent,streams=2",
                  "--constraint", "kind=max_requests,count=8",
                  "--output", f"kind=json,path={report}")
        [benchmark] = json.loads(report.read_text())["benchmarks"]
        totals = benchmark["metrics"]["request_totals"]
        self.assertEqual((totals["successful"], totals["errored"], totals["incomplete"]), (8, 0, 0), totals)
        self.check_served(8)

    def test_load_chat(self):
        self.run_kind("/v1/chat/completions")

    def test_load_completions(self):
        self.run_kind("/v1/completions")


if __name__ == "__main__":
    main()
