"""Loops of tool calls in which the model's part is a script, in the words of each family of models: a program asks, runs the
tool that is called, sends its result, and so on until the last answer is a text.

One server has a model for each family, named after it: all are the demo model, which says what the script wants.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from case import main
from quire import TOOLS, Server
from scripted_proxy import Script, ScriptedProxy, history, thoughts

__all__ = ["CALLS", "LAST", "THOUGHT", "AgentCase", "Functions", "LoopCase", "main"]

FAMILIES = sorted((pathlib.Path(__file__).parents[3] / "server" / "api" / "chat" / "families").glob("*.family"))
# Of a long prompt, the head of each message; the demo model's context has 1,024 tokens.
TEMPLATE = """{%- for m in messages -%}
<|{{ m.role }}|>{{ (m.content or '')[:24] }}{% for c in m.tool_calls or [] %}[{{ c.function.name }}]{% endfor %}<|end|>
{%- endfor -%}<|assistant|>"""
THOUGHT = 'Is it "so"?'
LAST = "All five are done."
CALLS = [
    ("save", {"path": 'my "notes".md', "text": 'She said:\n\t"Überall \\n 😀"\n', "id": 1234567890123456789}),
    ("total", {"numbers": [1.5, -2, 1e-7], "note": None}),
    ("save", {"path": "a/b.json", "text": '{"a": [1, "</x>", \'b\'], "c": null}', "id": -1}),
    ("total", {"numbers": [], "note": "  two\n\nlines, and a blank "}),
    ("save", {"path": "", "text": "true", "id": 0}),
]


class Functions:
    """What the model of a script calls, where the program has no tools of its own; done: with what they were called."""

    def __init__(self):
        self.done = []

    def save(self, path: str, text: str, id: int) -> str:
        """Write a file."""
        self.done.append(("save", {"path": path, "text": text, "id": id}))
        return f"{id} is in {path}."

    def total(self, numbers: list[float], note: str | None) -> str:
        """Add numbers."""
        self.done.append(("total", {"numbers": numbers, "note": note}))
        return f"The total of {len(numbers)} is {sum(numbers)}."


class Family:
    """name; marks: what a thought stands between, or None: such models do not think. before: what a call and a text stand
    behind, where each part of an answer says to which channel it belongs."""

    def __init__(self, path):
        self.name, text = path.stem, path.read_text(encoding="utf-8")
        found = re.search(r'^thought ("(?:[^"\\]|\\.)*") ("(?:[^"\\]|\\.)*")$', text, re.M)
        self.marks = [json.loads(t) for t in found.groups()] if found else None
        self.before = {"call": "", "text": ""}
        if "\nchannels\n" in text:
            self.marks = ["<|channel|>analysis<|message|>", "<|end|><|start|>assistant"]
            self.before = {"call": "<|channel|>commentary ", "text": "<|channel|>final<|message|>"}

    def settings(self, template):
        thinks = [f"reasoning_parser = {self.name}"] if self.marks else []
        return "\n".join([f"[{self.name}]", "model =", f"chat_template = {template}", f"tool_call_parser = {self.name}", *thinks])


class Writer:
    """Calls in the words of a family: what its grammar allows where each argument's schema has one value. What else there is
    to choose (blanks, the ids that some models give to their calls) is another in each call."""

    def __init__(self):
        self.n_calls = 0
        self.child = subprocess.Popen([f"{TOOLS}/schema"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def call(self, family, name, arguments):
        schema = {"type": "object", "properties": {k: {"const": v} for k, v in arguments.items()}, "required": list(arguments),
                  "additionalProperties": False}
        calls = {"family": family.name, "max": 1, "is_terse": True, "tools": [{"name": name, "parameters": schema}]}
        job = {"calls": calls, "samples": 1, "seed": self.n_calls}
        self.n_calls += 1
        self.child.stdin.write(json.dumps(job, ensure_ascii=False) + "\n")
        self.child.stdin.flush()
        made = json.loads(self.child.stdout.readline())
        assert "error" not in made, made
        return made["samples"][0]

    def stop(self):
        self.child.stdin.close()
        assert self.child.wait(timeout=60) == 0


class LoopCase(unittest.TestCase):
    """self.proxy.url: where a program finds its models, each of which is called as its family is."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="quire-loops-")
        cls.families = [Family(path) for path in FAMILIES]
        template, config = (pathlib.Path(cls.folder.name, name) for name in ("template", "quire.conf"))
        template.write_text(TEMPLATE)
        config.write_text("\n".join(["kv_memory = 8m", "log_level = off", *(f.settings(template) for f in cls.families)]))
        cls.server = Server("--config", str(config), model="")
        cls.proxy, cls.writer = ScriptedProxy(cls.server.port), Writer()

    @classmethod
    def tearDownClass(cls):
        cls.proxy.stop()
        cls.writer.stop()
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def check_functions(self, run, keeps_thoughts=True):
        """run(family, functions) has an agent loop with these functions, and returns its last text and its thoughts."""
        results = [getattr(Functions(), name)(**arguments) for name, arguments in CALLS]
        for family in self.families:
            with self.subTest(family.name):
                functions, script = Functions(), self.script(family, CALLS)
                self.assertEqual(run(family, functions), (LAST, [THOUGHT] * script.n_thoughts))
                self.assertEqual(functions.done, CALLS)
                self.check_script(script, CALLS, results, keeps_thoughts)

    def script(self, family, calls):
        """Its turns: each a call, the first and the fourth behind a thought, and the last one a text."""
        thought = THOUGHT.join(family.marks) if family.marks else ""
        texts = [family.before["call"] + self.writer.call(family, name, arguments) for name, arguments in calls]
        # Kimi K2 numbers its calls through the conversation, and the number is part of a call's id.
        texts = [re.sub(r"(functions\.\w+):\d+", rf"\1:{n}", text) for n, text in enumerate(texts)]
        texts = [(thought if n in (0, 3) else "") + text for n, text in enumerate(texts)]
        self.proxy.statuses.clear()
        self.proxy.scripts[family.name] = script = Script([*texts, family.before["text"] + LAST], 2 if family.marks else 0)
        return script

    def check_script(self, script, calls, results, keeps_thoughts=True):
        """Each turn's request had all calls before it, with their arguments and results, and the last one all thoughts, if the
        program sends them back; none was refused."""
        self.assertEqual([s for s in self.proxy.statuses if s[1] != 200], [])
        self.assertEqual(len(script.turns), len(script.texts))
        for n, (path, body) in enumerate(script.turns):
            behind = history(path, body)
            self.assertEqual([(name, arguments) for name, arguments, _ in behind], calls[:n])
            for (_, _, result), wanted in zip(behind, results):
                self.assertIn(wanted, result)
        if keeps_thoughts:
            self.assertEqual(thoughts(path, body), [THOUGHT] * script.n_thoughts)


class AgentCase(LoopCase):
    """A program of npm's that runs tools by itself: a process for each family, in an empty folder."""

    def project(self, family):
        path = pathlib.Path(self.folder.name, family.name)
        path.mkdir(exist_ok=True)
        return path

    def start(self, program, *args, cwd=None, **env):
        """node_modules/PROGRAM, whose home is a folder of this test's."""
        command = [pathlib.Path(os.environ["QUIRE_NPM"], "node_modules", program), *args]
        env = {"PATH": os.environ["PATH"], "HOME": str(pathlib.Path(self.folder.name, "home")), **env}
        return subprocess.Popen(command, cwd=cwd or self.folder.name, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def agent(self, family, program, *args, **env):
        """Run a program in the family's folder; what it printed, lines of JSON."""
        run = self.start(program, *args, cwd=self.project(family), **env)
        try:
            printed, _ = run.communicate(timeout=100)
        finally:
            run.kill()
        self.assertEqual(run.returncode, 0, printed[-4000:])
        return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]

    def write_home(self, name, text):
        path = pathlib.Path(self.folder.name, "home", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path
