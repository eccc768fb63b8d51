"""Python's jinja2 with the settings that Hugging Face's tokenizers use, and our renderer beside it."""
import datetime
import functools
import json
import os
import pathlib
import subprocess
import types

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = 1700000000  # what both take for the present


class Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """As Hugging Face's, but that lists can grow and shrink: published templates need it."""

    def is_safe_attribute(self, obj, attr, value):
        return isinstance(obj, list) and attr in ("append", "pop") or super().is_safe_attribute(obj, attr, value)


class Generation(jinja2.ext.Extension):
    """{% generation %}: here it only groups, as a call block does."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    @staticmethod
    def _run(caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    x = list(x) if isinstance(x, types.GeneratorType) else x  # published templates have it
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW).strftime(form)


def environment():
    env = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    return env


ENV = environment()


@functools.lru_cache(maxsize=8)
def compiled(template):
    return ENV.from_string(template)


def expected(template, variables):
    """What jinja2 prints: (text, None) or (None, error)."""
    try:
        return compiled(template).render(**variables), None
    except Exception as e:  # whatever a template can make Python raise, RecursionError included
        return None, f"{type(e).__name__}: {e}"


def fails_folding(template):
    """Does jinja2 fail while it computes a constant expression, before anything runs?"""
    try:
        compiled(template)
    except jinja2.TemplateSyntaxError:
        return False
    except Exception:  # whatever the expression makes Python raise
        return True
    return False


class Renderer:
    """build/tools/render as a child process: a job a line, an answer a line."""

    def __init__(self, path=None):
        path = path or pathlib.Path(os.environ.get("QUIRE_TOOLS", "build/tools")) / "render"
        self.child = subprocess.Popen([str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True, encoding="utf-8")

    def ask(self, template, variables):
        """The answer: {"text", "code", "own"} or {"error", "code"}."""
        return self.send({"template": template, "globals": variables, "now": NOW})

    def chat(self, template, body):
        """The same for a chat, with the "globals" that the template was given and its "caps"."""
        return self.send({"template": template, "chat": body, "now": NOW})

    def send(self, job):
        return self.send_line(json.dumps(job, ensure_ascii=False))

    def send_line(self, job):
        """A job as JSON text, which Python's json need not have written."""
        self.child.stdin.write(job + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError(f"the renderer died with {self.child.wait()} on {job[:2000]!r}")
        return json.loads(line)

    def close(self):
        self.child.stdin.close()
        self.child.wait(timeout=60)


def difference(renderer, template, variables):
    """None when both agree: the same text, or an error from both."""
    want, error = expected(template, variables)
    got = renderer.ask(template, variables)
    if error is None and got.get("text") == want:
        return None
    if error is not None and "error" in got:
        return None
    return f"jinja2: {want if error is None else error!r}\nquire:  {got.get('text', got)!r}"
