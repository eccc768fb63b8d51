#!/usr/bin/env python3
"""Random Jinja programs, rendered by jinja2 and by us: the same text, or an error from both.

usage: fuzz_templates.py [--seconds N] [--seed N] [--count N] [--render PATH]

Prints every program on which the two differ, made smaller, and exits with 1. A program is known by
its seed. Left out of the comparison: what has an address in it, integers beyond 64 bits, and what
the header of core/jinja/template.h says is left out.
"""
import argparse
import copy
import pathlib
import random
import re
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import jinja_reference as ref  # noqa: E402

WORDS = ["", "a", "B", "abc", "Hello World", " x ", "a,b,c", "é", "日本", "😀x", "ß", "ΑΣ", "<b>&",
         "it's", 'q"q', "1", "42", "-7", "1.5", "0x1f", "a\\nb", "\\t", "x=y", "user", "assistant",
         "foo-bar baz", "{{", "%}", "tool", "ABC def", "a  b", "\\u2028", "\\x00", "\\'", "ǆ", "İ"]
NUMBERS = ["0", "1", "2", "3", "-1", "7", "10", "255", "1.5", "0.1", "2.0", "-2.5", "1e3", "1e16",
           "0.25", "100000", "1_0", "0x1F", "true", "false"]
NAMES = ["a", "b", "c", "x", "y", "ns", "m1", "m2", "data", "text", "num", "items", "users", "none_",
         "loop", "deep", "flag"]
KEYS = ["a", "b", "name", "items", "content", "role", "x y", "get", "0"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "number", "integer", "float",
         "iterable", "sequence", "boolean", "true", "false", "odd", "even", "callable", "lower",
         "upper", "escaped", "filter", "test"]
TESTS_WITH = ["divisibleby", "eq", "ne", "lt", "le", "gt", "ge", "in", "sameas", "equalto",
              "lessthan", "greaterthan"]
# name, and the arguments it may be given: e any expression, s a string, n a number, i a small
# integer, t a truth, k a key
FILTERS = [
    ("abs", ""), ("attr", "k"), ("batch", "p"), ("batch", "pe"), ("capitalize", ""), ("center", "i"),
    ("count", ""), ("d", "e"), ("default", "et"), ("dictsort", ""), ("e", ""),
    ("filesizeformat", "t"), ("first", ""), ("float", ""), ("float", "e"), ("forceescape", ""),
    ("groupby", "k"), ("indent", "i"), ("indent", "itt"), ("indent", "s"), ("int", ""), ("int", "i"),
    ("items", ""), ("join", "s"), ("join", ""), ("last", ""), ("length", ""), ("list", ""),
    ("lower", ""), ("max", ""), ("min", ""), ("replace", "ss"), ("replace", "ssi"), ("reverse", ""),
    ("round", ""), ("round", "i"), ("safe", ""), ("slice", "p"), ("slice", "pe"), ("sort", ""),
    ("sort", "t"), ("string", ""), ("striptags", ""), ("sum", ""), ("title", ""), ("tojson", ""),
    ("trim", ""), ("trim", "s"), ("truncate", "i"), ("truncate", "itsi"), ("unique", ""),
    ("upper", ""), ("urlencode", ""), ("wordcount", ""), ("wordwrap", "p"), ("xmlattr", ""),
    ("wordwrap", "pt"), ("format", "e"), ("format", "ee"),
]
KEYWORD_FILTERS = ["tojson(indent=2)", "tojson(sort_keys=true)", "tojson(separators=(',', ':'))",
                   "tojson(ensure_ascii=true)", "sort(reverse=true)", "sort(attribute='a')",
                   "sort(case_sensitive=true)", "map(attribute='a')|list", "dictsort(by='value')",
                   "map(attribute='name', default='?')|list", "join('-', attribute='name')",
                   "dictsort(reverse=true)", "dictsort(case_sensitive=true)", "sum(attribute='a')",
                   "min(attribute='a')", "max(case_sensitive=true)", "unique(attribute='a')|list",
                   "groupby('a', default=0)", "wordwrap(5, wrapstring='|')", "indent(width=2)",
                   "round(1, 'floor')", "round(method='ceil')", "tojson(indent=1)", "map('upper')|list",
                   "map('int')|list", "map('default', 'z')|list", "select|list", "reject|list",
                   "select('odd')|list", "reject('none')|list", "selectattr('a')|list",
                   "selectattr('a', 'defined')|list", "rejectattr('role', 'equalto', 'user')|list",
                   "selectattr('role', 'in', ['user', 'tool'])|list", "map('length')|list",
                   "select('string')|map('upper')|join(',')", "list|tojson", "items|list",
                   "wordwrap(6, break_on_hyphens=false)", "default('q', boolean=true)",
                   "map(attribute='a.b')|list", "int(base=16)", "truncate(5, true, '')",
                   "batch(2)|map('list')|list", "first|default('none')", "reverse|list",
                   "groupby('role')|map('first')|list", "slice(2)|list", "batch(3, none)|list"]
METHODS = [
    ("upper", ""), ("lower", ""), ("title", ""), ("capitalize", ""), ("swapcase", ""), ("strip", ""),
    ("strip", "s"), ("lstrip", "s"), ("rstrip", "s"), ("lstrip", ""), ("rstrip", ""), ("split", ""),
    ("split", "s"), ("split", "si"), ("rsplit", "si"), ("rsplit", "s"), ("splitlines", ""),
    ("splitlines", "t"), ("startswith", "s"), ("endswith", "s"), ("startswith", "si"),
    ("replace", "ss"), ("replace", "ssi"), ("find", "s"), ("rfind", "s"), ("find", "sii"),
    ("rfind", "sii"), ("index", "s"), ("rindex", "s"), ("count", "s"), ("count", "sii"),
    ("join", "e"), ("isdigit", ""), ("isalpha", ""), ("isalnum", ""), ("isspace", ""),
    ("isupper", ""), ("islower", ""), ("istitle", ""), ("isnumeric", ""), ("isdecimal", ""),
    ("isascii", ""), ("isprintable", ""), ("isidentifier", ""), ("zfill", "i"), ("center", "i"),
    ("ljust", "i"), ("rjust", "i"), ("partition", "s"), ("rpartition", "s"), ("removeprefix", "s"),
    ("removesuffix", "s"), ("expandtabs", "i"), ("casefold", ""), ("format", "e"), ("format", "ee"),
    ("get", "k"), ("get", "ke"), ("items", ""), ("keys", ""), ("values", ""), ("copy", ""),
    ("append", "e"), ("pop", ""), ("pop", "e"), ("update", "e"), ("nope", ""),
]
FORMATS = ["%s", "%d", "%5.2f", "%r", "%x", "%5s|%-5s", "%%", "%05d", "%+d", "%e", "%g", "%c",
           "%(a)s", "%s %s", "%i", "%.3s", "%X", "% d", "%#x", "%o", "%.0f", "%G", "%*d"]
BRACES = ["{}", "{} {}", "{0}{0}", "{!r}", "{:>5}", "{:<8}|", "{:^7}", "{:05d}", "{:.2f}", "{:,}",
          "{:x}", "{:e}", "{:g}", "{:%}", "{{}}", "{0.a}", "{0[a]}", "{:+}", "{:*^9}", "{:10.3}",
          "{a}", "{", "}", "{1}", "{:b}", "{:#x}", "{:_}", "{:s}", "{:d}", "{:08.3f}", "{:<08}"]


class Generator:
    def __init__(self, rng):
        self.r = rng
        self.loops = 0
        self.macros = 0

    def pick(self, items):
        return self.r.choice(items)

    def chance(self, p):
        return self.r.random() < p

    # --- expressions ---

    def string(self):
        word = self.pick(WORDS)
        quote = '"' if "'" in word and "\\'" not in word else "'"
        text = quote + word + quote
        return text + " 'z'" if self.chance(0.03) else text

    def small(self):
        return self.pick(["0", "1", "2", "3", "5", "-1", "-2", "9"])

    def name(self):
        return self.pick(NAMES)

    def argument(self, kind, depth):
        if self.chance(0.04):
            return self.expr(depth)
        if kind == "s":
            return self.string()
        if kind == "i":
            return self.small()
        if kind == "p":
            return self.pick(["1", "2", "3", "7"])
        if kind == "t":
            return self.pick(["true", "false"])
        if kind == "k":
            return "'" + self.pick(KEYS) + "'"
        if kind == "n":
            return self.pick(NUMBERS)
        return self.expr(depth)

    def arguments(self, kinds, depth):
        return ", ".join(self.argument(k, depth) for k in kinds)

    def literal(self, depth):
        k = self.r.randrange(10)
        if k < 3 or depth <= 0:
            return self.pick(NUMBERS) if self.chance(0.5) else self.string()
        if k == 3:
            return self.pick(["none", "None", "True", "False"])
        n = self.r.randrange(4)
        items = [self.expr(depth - 1) for _ in range(n)]
        if k < 6:
            return "[" + ", ".join(items) + "]"
        if k == 6:
            return "(" + ", ".join(items) + (",)" if n == 1 else ")")
        pairs = [f"{self.argument('k', depth - 1)}: {i}" for i in items]
        return "{" + ", ".join(pairs) + "}"

    def operation(self, depth):
        a, b = self.expr(depth - 1), self.expr(depth - 1)
        k = self.r.randrange(12)
        if k < 3:
            return f"{a} {self.pick(['+', '-', '/', '//', '%'])} {b}"
        if k == 3:
            return f"{a} * {self.small()}"
        if k == 4:
            return f"{self.pick(NUMBERS)} ** {self.pick(['0', '1', '2', '3', '-1', '0.5'])}"
        if k < 7:
            return f"{a} ~ {b}"
        if k == 7:
            return f"{a} {self.pick(['and', 'or'])} {b}"
        if k == 8:
            return f"{self.pick(['not ', '-', '+', '- '])}{a}"
        ops = ["==", "!=", "<", "<=", ">", ">=", "in", "not in"]
        text = f"{a} {self.pick(ops)} {b}"
        return text + f" {self.pick(ops)} {self.expr(depth - 1)}" if self.chance(0.1) else text

    def subscript(self, depth):
        a = self.expr(depth - 1)
        k = self.r.randrange(5)
        if k == 0:
            return f"{a}[{self.small()}]"
        if k == 1:
            parts = [self.small() if self.chance(0.6) else "" for _ in range(3)]
            return f"{a}[{parts[0]}:{parts[1]}" + (f":{parts[2]}]" if self.chance(0.5) else "]")
        if k == 2:
            return f"{a}.{self.pick(['a', 'b', 'name', 'role', 'items', 'content', '0', '1', 'real'])}"
        return f"{a}['{self.pick(KEYS)}']"

    def filtered(self, depth):
        a = self.expr(depth - 1)
        if self.chance(0.4):
            return f"{a}|{self.pick(KEYWORD_FILTERS)}"
        name, kinds = self.pick(FILTERS)
        if name == "format":
            a = "'" + self.pick(FORMATS) + "'"
        return f"{a}|{name}" + (f"({self.arguments(kinds, depth - 1)})" if kinds else "")

    def method(self, depth):
        name, kinds = self.pick(METHODS)
        a = self.expr(depth - 1) if self.chance(0.5) else self.string()
        if name == "format":
            a = "'" + self.pick(BRACES) + "'"
        return f"{a}.{name}({self.arguments(kinds, depth - 1)})"

    def call(self, depth):
        k = self.r.randrange(9)
        if k < 2:
            return f"range({self.arguments('i' * self.r.randrange(1, 4), 0)})"
        if k == 2:
            return f"dict(a={self.expr(depth - 1)}, b=1)"
        if k == 3:
            return f"namespace(a={self.expr(depth - 1)})"
        if k == 4:
            return f"'{self.pick(FORMATS)}' % {self.expr(depth - 1)}"
        if k == 5:
            return f"'{self.pick(FORMATS)}' % ({self.expr(depth - 1)}, {self.expr(depth - 1)})"
        if k == 6:
            return self.pick(["loop.index", "loop.last", "loop.first", "loop.length", "loop.nextitem",
                              "loop.previtem", "loop.revindex", "loop.cycle('p', 'q')",
                              "loop.changed(a)", "loop.depth", "loop.index0", "loop"])
        name = self.pick(["m1", "m2", "caller"])
        args = [self.expr(depth - 1) for _ in range(self.r.randrange(4))]
        if self.chance(0.2):
            args.append(f"{self.pick(['p', 'q', 'z'])}={self.expr(depth - 1)}")
        if self.chance(0.05):
            args.append("*[1, 2]")
        if self.chance(0.05):
            args.append("**{'q': 1}")
        return f"{name}({', '.join(args)})"

    def expr(self, depth):
        if depth <= 0:
            return self.name() if self.chance(0.5) else self.literal(0)
        k = self.r.randrange(20)
        if k < 4:
            return self.name()
        if k < 6:
            return self.literal(depth)
        if k < 9:
            return f"({self.operation(depth)})" if self.chance(0.7) else self.operation(depth)
        if k < 11:
            return self.subscript(depth)
        if k < 14:
            return f"({self.filtered(depth)})" if self.chance(0.5) else self.filtered(depth)
        if k < 16:
            return self.method(depth)
        if k < 17:
            test = self.pick(TESTS)
            if self.chance(0.4):
                test = f"{self.pick(TESTS_WITH)}({self.expr(depth - 1)})"
            return f"({self.expr(depth - 1)} is {'not ' if self.chance(0.3) else ''}{test})"
        if k < 18:
            a = f"{self.expr(depth - 1)} if {self.expr(depth - 1)}"
            return f"({a} else {self.expr(depth - 1)})" if self.chance(0.7) else f"({a})"
        return self.call(depth)

    # --- statements ---

    def begin(self):
        return self.pick(["{%", "{%", "{%", "{%-", "{%+"])

    def end(self):
        return self.pick(["%}", "%}", "%}", "-%}", "+%}"])

    def tag(self, text):
        return f"{self.begin()} {text} {self.end()}"

    def data(self):
        return self.pick(["", "\n", " ", "  \n  ", "text", "x\n", "\n\n", "é ", "a b\n  ", "\t", "{ }",
                          "  "])

    def output(self, depth):
        left, right = self.pick([("{{", "}}")] * 4 + [("{{-", "-}}"), ("{{-", "}}"), ("{{", "-}}")])
        return f"{left} {self.expr(depth)} {right}"

    def target(self):
        return self.pick(["a", "b", "c", "x", "y", "a, b", "x, y", "(a, b)", "a, (b, c)"])

    def loop(self, depth):
        k = self.r.randrange(6)
        over = self.expr(1)
        if k == 0:
            over = "items"
        elif k == 1:
            over = "users"
        elif k == 2:
            over = f"range({self.small()})"
        elif k == 3:
            over = "data.items()"
        target = self.pick(["x", "y", "a"]) if k != 3 else "a, b"
        if self.chance(0.1):
            target = self.target()
        condition = f" if {self.expr(1)}" if self.chance(0.2) else ""
        recursive = " recursive" if self.chance(0.07) else ""
        self.loops += 1
        body = self.body(depth - 1)
        if recursive and self.chance(0.7):
            body += "{% if loop.depth < 3 %}{{ loop(x) }}{% endif %}"
        self.loops -= 1
        text = self.tag(f"for {target} in {over}{condition}{recursive}") + body
        if self.chance(0.25):
            text += self.tag("else") + self.body(depth - 1)
        return text + self.tag("endfor")

    def branch(self, depth):
        text = self.tag(f"if {self.expr(2)}") + self.body(depth - 1)
        while self.chance(0.25):
            text += self.tag(f"elif {self.expr(1)}") + self.body(depth - 1)
        if self.chance(0.5):
            text += self.tag("else") + self.body(depth - 1)
        return text + self.tag("endif")

    def macro(self, depth):
        saved, self.loops = self.loops, 0
        params = self.pick(["", "p", "p, q", "p, q=1", "p='d', q=p", "p, caller=none"])
        name = self.pick(["m1", "m2"])
        body = self.body(depth - 1)
        if self.chance(0.4):
            body += "{{ " + self.pick(["p", "q", "varargs", "kwargs", "caller()", "p ~ q"]) + " }}"
        self.loops = saved
        return self.tag(f"macro {name}({params})") + body + self.tag("endmacro")

    def block_call(self, depth):
        saved, self.loops = self.loops, 0
        params = self.pick(["", "", "(p)", "(p, q=2)"])
        text = self.tag(f"call{params} {self.pick(['m1', 'm2'])}({self.expr(1)})")
        text += self.body(depth - 1) + self.tag("endcall")
        self.loops = saved
        return text

    def statement(self, depth):
        k = self.r.randrange(24)
        if depth <= 0 or k < 7:
            return self.output(self.pick([1, 1, 2, 3]))
        if k < 10:
            return self.tag(f"set {self.target() if self.chance(0.2) else self.name_to_set()} = "
                            f"{self.expr(self.pick([1, 2, 3]))}")
        if k < 13:
            return self.loop(depth)
        if k < 16:
            return self.branch(depth)
        if k == 16:
            return self.macro(depth)
        if k == 17:
            return self.block_call(depth)
        if k == 18:
            name, kinds = self.pick(FILTERS[:4] + [("upper", ""), ("replace", "ss"), ("trim", "")])
            args = f"({self.arguments(kinds, 1)})" if kinds else ""
            return self.tag(f"filter {name}{args}") + self.body(depth - 1) + self.tag("endfilter")
        if k == 19:
            filters = self.pick(["", "|upper", "|trim", "|length", "|replace('a', 'b')|list"])
            return (self.tag(f"set {self.name_to_set()}{filters}") + self.body(depth - 1) +
                    self.tag("endset"))
        if k == 20:
            return (self.tag(f"with {self.pick(['a', 'x', 'b'])} = {self.expr(1)}, "
                             f"y = {self.expr(1)}") + self.body(depth - 1) + self.tag("endwith"))
        if k == 21:
            return self.pick(["{# note #}", "{#- note -#}", "{# note\n#}", "{% raw %} {{ x }} {% endraw %}",
                              "{%- raw -%} {% if %} {%- endraw -%}\n",
                              "{% generation %}g{{ a }}{% set b = 1 %}{% endgeneration %}"])
        if k == 22 and self.loops > 0:
            return self.tag(self.pick(["break", "continue", f"if {self.expr(1)}%}}{{% break %}}{{% endif"]))
        return self.tag(f"set ns.{self.pick(['a', 'b', 'c'])} = {self.expr(2)}")

    def name_to_set(self):
        return self.pick(["a", "b", "c", "x", "y", "z", "text"])

    def body(self, depth):
        parts = []
        for _ in range(self.r.randrange(1, 4)):
            parts.append(self.data())
            parts.append(self.statement(depth))
        parts.append(self.data())
        return "".join(parts)

    def program(self):
        head = "{% set ns = namespace(a=1, b='x') %}" if self.chance(0.8) else ""
        if self.chance(0.5):
            head += "{% macro m1(p, q=1) %}[{{ p }}{{ q }}]{% endmacro %}"
        if self.chance(0.3):
            head += "{% macro m2(p) %}({{ caller(p) if caller }}{{ varargs }}{{ kwargs }}){% endmacro %}"
        return head + self.body(3)

    # --- variables ---

    def json(self, depth):
        k = self.r.randrange(9)
        if k == 0:
            return self.pick([None, True, False])
        if k < 3:
            return self.pick([0, 1, -3, 42, 2.5, 1000, 0.125])
        if k < 6 or depth <= 0:
            return self.pick(["", "a", "Hello", "é日😀", "user", "x y", "<b>", "12", "line\nline", "Z", CLIENTS, "user " + CLIENTS])
        if k < 8:
            return [self.json(depth - 1) for _ in range(self.r.randrange(4))]
        return {self.pick(KEYS): self.json(depth - 1) for _ in range(self.r.randrange(4))}

    def variables(self):
        users = [{"name": self.pick(["bob", "Al", "éa"]), "role": self.pick(["user", "tool"]),
                  "a": self.json(1)} for _ in range(self.r.randrange(4))]
        v = {"data": {"a": self.json(2), "b": 2, "items": [1]}, "text": self.pick(["Hello wörld", "a-b c\nd", ""]),
             "num": self.pick([0, 3, -2, 2.5]), "items": self.json(2), "users": users, "none_": None,
             "deep": self.json(3), "flag": self.chance(0.5), "x": self.json(1)}
        for name in list(v):
            if self.chance(0.07):
                del v[name]
        return v


# What Python prints of an object is not the same from run to run. Filters may have gone over it.
ADDRESSES = re.compile("|".join(".{0,9}".join(word) for word in (
    "generator", "object", "function", "method", "class", "rotareneg", "noitcnuf")), re.I | re.S)

# Numbers of more than 64 bits, complex numbers; list.clear(), which older versions of jinja2 let
# through; what jinja2 never looks at because it computes with constants while
# compiling, where 5[:] is undefined and the other side of `or` need not even exist.
OURS = ("64 bits", "object is not subscriptable", "no filter named", "no test named",
        "not a real number", "unhashable type: 'slice'", "no attribute 'clear'")

# How deep Python gets; halves of UTF-16, which we refuse to make; what jinja2 before 3.1.5 does not
# catch in |int.
THEIRS = ("RecursionError", "surrogates", "infinity to integer")


CLIENTS = "\ue123"  # no template has it


def wrong_origin(got):
    """A byte of the variables that counts as the template's."""
    text = got.get("text", "").encode()
    if any(CLIENTS.encode() in text[a:b] for a, b in got.get("own", [])):
        return f"own: {got['own']} of {got['text']!r}"
    return None


def disagreement(renderer, template, variables):
    """The two answers where they differ for no accepted reason, else None."""
    want, error = ref.expected(template, copy.deepcopy(variables))  # indent changes lists in place
    got = renderer.ask(template, variables)
    if wrong_origin(got):
        return wrong_origin(got)
    if error is None and got.get("text") == want:
        return None
    if error is not None and "error" in got:
        return None
    if error is None and ADDRESSES.search(want):
        return None
    if error is None and any(text in got.get("error", "") for text in OURS):
        return None
    if error is not None and any(text in error for text in THEIRS):
        return None
    if error is not None and ref.fails_folding(template):
        return None  # a constant in code that need not be reached: we compute it there
    return f"jinja2: {want if error is None else error!r}\nquire:  {got.get('text', got.get('error'))!r}"


def shrink(renderer, template, variables, rng):
    """Cut pieces out of the program as long as the two still differ."""
    for _ in range(400):
        if len(template) < 4:
            break
        size = rng.choice([1, 2, 4, 8, 16, 32])
        at = rng.randrange(len(template))
        smaller = template[:at] + template[at + size:]
        try:
            if disagreement(renderer, smaller, variables):
                template = smaller
        except RecursionError:
            pass
    return template


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--count", type=int, default=None)
    parser.add_argument("--render", default=str(ROOT / "build/tools/render"))
    parser.add_argument("--stop-after", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    renderer = ref.Renderer(args.render)
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 40)
    first, end = seed, time.monotonic() + args.seconds
    n = n_text = n_bad = 0
    while time.monotonic() < end and (args.count is None or n < args.count):
        rng = random.Random(seed)
        generator = Generator(rng)
        template, variables = generator.program(), generator.variables()
        found = disagreement(renderer, template, variables)
        if n % 50 == 0:
            n_text += "text" in renderer.ask(template, variables)
        if found:
            n_bad += 1
            small = shrink(renderer, template, variables, random.Random(1))
            print(f"seed {seed}\n  {small!r}\n  {variables!r}\n"
                  f"{disagreement(renderer, small, variables) or found}\n", flush=True)
            if n_bad >= args.stop_after:
                break
        n, seed = n + 1, seed + 1
    print(f"fuzz_templates: {n} programs from seed {first}, {n_bad} differ "
          f"(about {n_text * 100 // max((n + 49) // 50, 1)}% render)")
    return 1 if n_bad else 0


sys.exit(main())
