"""opencode: in the words of each family it writes, reads and edits files, runs commands and keeps a list."""
import http.client
import json

from loop_case import LAST, AgentCase, main

TEXT = 'say "hé" \\n </parameter\n\n\ttwo 😀\n'
EDITED = TEXT.replace('"hé" \\n', "{'a': [1]}\n")
TODOS = [{"content": 'say "so"', "status": "pending", "priority": "high"}, {"content": "", "status": "completed", "priority": "low"}]


def calls_in(project):
    file = str(project / 'a "b".txt')
    return [
        ("write", {"content": TEXT, "filePath": file}),
        ("bash", {"command": "printf '%s' 1234567890123456789 > id; echo \"It's $(cat id)\"", "timeout": 90000}),
        ("read", {"filePath": file, "offset": 1, "limit": 2}),
        ("edit", {"filePath": file, "oldString": '"hé" \\n', "newString": "{'a': [1]}\n", "replaceAll": True}),
        ("todowrite", {"todos": TODOS}),
    ]


RESULTS = ["success", "It's 1234567890123456789", 'say "hé" \\n </parameter', "success", 'say \\"so\\"']


class OpencodeTest(AgentCase):
    """Its server, which a terminal's window or an editor asks; a session for each family."""

    def setUp(self):
        self.write_home(".config/opencode/opencode.json", json.dumps({
            "autoupdate": False, "share": "disabled", "enabled_providers": ["quire"], "permission": "allow",
            "provider": {"quire": {"npm": "@ai-sdk/openai-compatible", "models": {f.name: {} for f in self.families},
                                   "options": {"baseURL": f"{self.proxy.url}/v1", "apiKey": "none"}}}}))
        self.process = self.start("opencode-linux-x64-baseline/bin/opencode", "serve", "--port", "0", OPENCODE_DISABLE_MODELS_FETCH="1",
                                  OPENCODE_DISABLE_LSP_DOWNLOAD="1", OPENCODE_DISABLE_DEFAULT_PLUGINS="1", npm_config_offline="true")
        self.addCleanup(self.process.communicate, timeout=60)
        self.addCleanup(self.process.terminate)  # the last cleanup is the first to run
        line = next(text for text in self.process.stdout if "listening on" in text)
        self.port = int(line.strip().rsplit(":", 1)[1])

    def ask(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        self.assertEqual(answer.status, 200, text)
        return json.loads(text)

    def test_tools_families(self):
        for family in self.families:
            with self.subTest(family.name):
                calls = calls_in(self.project(family))
                script = self.script(family, calls)
                session = self.ask("/session", {"title": "Work"})
                last = self.ask(f"/session/{session['id']}/message", {"model": {"providerID": "quire", "modelID": family.name},
                                                                      "parts": [{"type": "text", "text": "Do the work."}]})
                self.assertEqual([part["text"] for part in last["parts"] if part["type"] == "text"], [LAST])
                self.assertEqual((self.project(family) / 'a "b".txt').read_text(), EDITED)
                self.check_script(script, calls, RESULTS)


if __name__ == "__main__":
    main()
