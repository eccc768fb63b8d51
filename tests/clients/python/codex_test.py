"""Codex: in the words of each family it runs commands and applies patches, which are no JSON to it but a text."""
import json

from loop_case import LAST, AgentCase, main

CONFIG = """
model_provider = "quire"
model_catalog_json = "%s"
approval_policy = "never"
sandbox_mode = "danger-full-access"
web_search = "disabled"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.quire]
name = "Quire"
base_url = "%s/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
ADD = """*** Begin Patch
*** Add File: a "b".txt
+say "hé" \\n </parameter
+
+\ttwo
*** End Patch"""
UPDATE = """*** Begin Patch
*** Update File: a "b".txt
@@
 say "hé" \\n </parameter
-
+one 😀
 \ttwo
*** End Patch
"""
CALLS = [
    ("exec_command", {"cmd": "printf '%s' 1234567890123456789 > id; echo \"It's $(cat id)\""}),
    ("apply_patch", {"input": ADD}),
    ("exec_command", {"cmd": "cat <<'END'\n{\"lines\":\nEND\nwc -l < 'a \"b\".txt'", "max_output_tokens": 500}),
    ("apply_patch", {"input": UPDATE}),
    ("exec_command", {"cmd": "cat a*.txt", "yield_time_ms": 9000, "login": False}),
]
RESULTS = ["It's 1234567890123456789\n", "Success", '{"lines":\n3\n', "Success", 'say "hé" \\n </parameter\none 😀\n\ttwo\n']


def about(family):
    """What Codex wants to know of a model: that it knows the tool for patches, for one."""
    return {"slug": family.name, "display_name": family.name, "supported_reasoning_levels": [], "shell_type": "unified_exec",
            "visibility": "list", "supported_in_api": True, "priority": 1, "support_verbosity": False,
            "truncation_policy": {"mode": "tokens", "limit": 10000}, "experimental_supported_tools": [],
            "base_instructions": "Call tools.", "apply_patch_tool_type": "freeform"}


class CodexTest(AgentCase):
    def test_tools_families(self):
        models = self.write_home(".codex/models.json", json.dumps({"models": [about(f) for f in self.families]}))
        self.write_home(".codex/config.toml", CONFIG % (models, self.proxy.url))
        for family in self.families:
            with self.subTest(family.name):
                script = self.script(family, CALLS)
                events = self.agent(family, ".bin/codex", "exec", "--json", "--skip-git-repo-check", "-m", family.name, "Do the work.")
                items = [e["item"] for e in events if e["type"] == "item.completed"]
                self.assertEqual([i["text"] for i in items if i["type"] == "agent_message"], [LAST])
                self.assertEqual((self.project(family) / 'a "b".txt').read_text(), RESULTS[-1])
                self.check_script(script, CALLS, RESULTS)


if __name__ == "__main__":
    main()
