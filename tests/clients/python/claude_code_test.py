"""Claude Code: in the words of each family it writes, reads and edits files, and runs commands."""
from loop_case import LAST, AgentCase, main

TEXT = 'say "hé" \\n </parameter\n\n\ttwo 😀\n'


def calls_in(project):
    file = str(project / 'a "b".txt')
    return [
        ("Write", {"file_path": file, "content": TEXT}),
        ("Bash", {"command": "printf '%s' 1234567890123456789 > id; echo \"It's $(cat id)\"", "description": "Write an id"}),
        ("Read", {"file_path": file, "offset": 1, "limit": 2}),
        ("Edit", {"file_path": file, "old_string": '"hé" \\n', "new_string": "{'a': [1]}\n", "replace_all": True}),
        ("Bash", {"command": "cat <<'END'\n{\"lines\":\nEND\ncat a*.txt", "timeout": 9000}),
    ]


EDITED = TEXT.replace('"hé" \\n', "{'a': [1]}\n")
RESULTS = ["success", "It's 1234567890123456789", 'say "hé" \\n </parameter', "updated", '{"lines":\n' + EDITED.rstrip()]


class ClaudeCodeTest(AgentCase):
    def test_tools_families(self):
        for family in self.families:
            with self.subTest(family.name):
                calls = calls_in(self.project(family))
                script = self.script(family, calls)
                [result] = self.agent(family, ".bin/claude", "-p", "Do the work.", "--output-format", "json", "--model", family.name,
                                      "--allowedTools", "Bash", "Edit", "Read", "Write", ANTHROPIC_BASE_URL=self.proxy.url,
                                      ANTHROPIC_AUTH_TOKEN="none", ANTHROPIC_DEFAULT_HAIKU_MODEL=family.name,
                                      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1")
                self.assertEqual((result["subtype"], result["result"]), ("success", LAST))
                self.assertEqual((self.project(family) / 'a "b".txt').read_text(), EDITED)
                self.check_script(script, calls, RESULTS)


if __name__ == "__main__":
    main()
