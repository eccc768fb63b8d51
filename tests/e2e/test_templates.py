"""Chat templates print what Python's jinja2 prints, byte for byte, or fail where it fails."""
import json
import math
import os
import pathlib
import random
import re
import struct
import unicodedata
import warnings

import pytest

from conversations import conversations
from jinja_reference import Renderer, difference, expected
from template_cases import CASES

warnings.filterwarnings("ignore", category=SyntaxWarning)  # Python about the code jinja2 makes
pytestmark = pytest.mark.filterwarnings("ignore")

FOLDER = pathlib.Path(os.environ.get("QUIRE_DATA", "../shared/data")) / "templates"
FILES = sorted(p.name for p in FOLDER.glob("*.jinja")) if FOLDER.is_dir() else []

VARIABLES = {
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi é"},
                 {"role": "assistant", "content": "yes", "tool_calls": [{"name": "f"}]}],
    "tools": [{"name": "f", "items": [1, 2]}], "nested": {"a": {"b": [1, 2.5, None, True]}},
    "flag": True, "count": 3, "half": 0.5, "empty": "", "nothing": None,
}


@pytest.fixture(scope="module")
def renderer():
    r = Renderer()
    yield r
    r.close()


@pytest.mark.parametrize("i", range(len(CASES)))
def test_language(renderer, i):
    assert difference(renderer, CASES[i], {}) is None


@pytest.mark.parametrize("template", [
    "{% for m in messages %}{{ m.role }}: {{ m['content'] | tojson }}{{ loop.index }}\n{% endfor %}",
    "{{ messages | map(attribute='role') | list }}{{ messages[1:] | length }}{{ messages[-1] }}",
    "{{ messages | selectattr('tool_calls') | list | tojson(indent=2) }}",
    "{{ messages | rejectattr('role', 'in', ['user', 'system']) | map(attribute='content') | first }}",
    "{% for k, v in nested.a.items() %}{{ k }}{{ v }}{{ v | tojson }}{% endfor %}{{ nested }}",
    "{{ tools[0].items }}".replace(".items", "['items']"),
    "{{ messages | groupby('role') | map(attribute='grouper') | list }}{{ messages | length }}",
    "{{ count + half }}{{ count / 2 }}{{ count // 2 }}{{ 'x' * count }}{{ half is float }}{{ count is integer }}",
    "{{ empty or 'e' }}{{ nothing is none }}{{ nothing or flag }}{{ flag and count }}{{ flag | int }}",
    "{% set x = messages %}{% for x in x %}{{ x.role }}{% endfor %}{{ x | length }}",
    "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}{% set messages = messages[1:] %}"
    "{% endif %}{{ s }}{{ messages | length }}",
    "{% set ns = namespace(last=-1) %}{% for m in messages[::-1] %}{% if m.role == 'user' and ns.last < 0 %}"
    "{% set ns.last = messages | length - 1 - loop.index0 %}{% endif %}{% endfor %}{{ ns.last }}",
    "{{ messages[0].content.split(' ')[-1].rstrip('.') }}{{ messages[1].content is string }}",
    "{% for m in messages if m.role != 'system' %}{{ loop.first }}{{ loop.length }}{{ m.role[0] | upper }}"
    "{{ '' if loop.last else loop.nextitem.role }}{% endfor %}",
])
def test_variables(renderer, template):
    assert expected(template, VARIABLES)[1] is None
    assert difference(renderer, template, VARIABLES) is None


FLOATS = ("{% for x in xs %}{{ x }} {{ x | tojson }} {{ x | round }} {{ x | round(2) }} {{ x // 0.7 }} "
          "{{ x % -3 }} {{ '%.3e %g %.10f %5.1f' | format(x, x, x, x) }} {{ x | string | float == x }} "
          "{{ '{:.4} {:g} {:,.2f} {:e} {:%} {:012.3f} {:+}'.format(x, x, x, x, x, x, x) }}\n{% endfor %}")
LETTERS = ("{% for c in s %}{{ c.upper() }}{{ c.lower() }}{{ c.title() }}{{ c.swapcase() }}{{ c.casefold() }}"
           "{{ c.isalpha() }}{{ c.isalnum() }}{{ c.isdigit() }}{{ c.isdecimal() }}{{ c.isnumeric() }}"
           "{{ c.isspace() }}{{ c.isupper() }}{{ c.islower() }}{{ c.istitle() }}{{ [c] }}{{ c | tojson }}"
           "{{ c.strip() | length }}{{ ('a' ~ c ~ 'b').splitlines() | length }}{{ ('a' ~ c ~ 'B').title() }}"
           "{{ (c ~ 'a b' ~ c) | title }}{{ ('x' ~ c ~ 'y') | wordcount }}{{ ('a' ~ c) | lower }}\n{% endfor %}")


def test_floats(renderer):
    rng = random.Random(5)
    xs = [struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0] for _ in range(1000)]
    xs += [rng.uniform(-1000, 1000) for _ in range(500)]
    xs += [rng.randrange(-10**6, 10**6) / 8 for _ in range(500)]
    xs = [x for x in xs if math.isfinite(x) and x != int(x)]
    assert difference(renderer, FLOATS, {"xs": xs}) is None


def test_letters(renderer):
    """Case and classes of the characters that have any: Python's tables and ours are of one
    version of Unicode on Debian 12, and every other version leaves what was there as it was."""
    if unicodedata.unidata_version != "14.0.0":
        pytest.skip("skip: this Python knows another version of Unicode")
    s = "".join(chr(c) for c in range(1, 0x1F700) if unicodedata.category(chr(c)) not in ("Cs", "Co"))
    s = re.sub("[\u3401-\u4dff\u4e20-\u9fff\uac10-\ud7a0\U00010500-\U0001d400]", "", s)
    assert len(s) > 8000
    for i in range(0, len(s), 4000):
        assert difference(renderer, LETTERS, {"s": s[i:i + 4000]}) is None


def test_chats_are_many():
    assert len({name.split(" / ")[0] for name, _ in conversations()}) >= 40


@pytest.mark.skipif(not FILES, reason="skip: ../shared/data absent")
@pytest.mark.parametrize("file", FILES or ["none"])
def test_given_template(renderer, file):
    """Every chat through a real model's template; most of them it accepts."""
    template = (FOLDER / file).read_text(encoding="utf-8")
    n_text = 0
    for name, variables in conversations():
        found = difference(renderer, template, variables)
        assert found is None, f"{file}, {name}: {found[:2000]}"
        n_text += expected(template, variables)[1] is None
    assert n_text >= 50


def test_own_messages_are_the_templates(renderer):
    """What a template says when it refuses a chat reaches whoever asked."""
    got = renderer.ask("{{ raise_exception('roles must alternate') }}", {})
    assert got == {"error": "line 1: roles must alternate", "code": "INVAL"}
    got = renderer.ask("\n{{ messages[0].role.x.y }}", VARIABLES)
    assert got == {"error": "line 2: 'str object' has no attribute 'x'", "code": "INVAL"}


def test_a_long_chat_is_quick(renderer):
    """500 turns of a real size take far fewer steps and bytes than the limits allow."""
    chat = [{"role": ["user", "assistant"][i % 2], "content": "word " * 400} for i in range(500)]
    template = ("{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content | trim + '\\n' }}"
                "{% endfor %}")
    assert difference(renderer, template, {"messages": chat}) is None
    assert len(json.dumps(chat)) > 1000000
