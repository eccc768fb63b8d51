"""Schemas and sample texts in the tests that other projects publish: read as text, never run."""
import ast
import json
import re
import tarfile

LLAMA = ("llama-cpp-python", "llama_cpp_python-0.3.36.tar.gz",
         "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e")
VLLM = ("vllm", "vllm-0.33.0.tar.gz", "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112")
XGRAMMAR = ("xgrammar", "xgrammar-0.2.8.tar.gz",
            "8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80")
OUTLINES = ("outlines-core", "outlines_core-0.2.14.tar.gz",
            "64808deed1591ca3029ff64346ceb974cd5d780c916ea82504951fe83523039e")
SUITE = ("jsonschema", "jsonschema-4.26.0.tar.gz",
         "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326")

WORDS = {"type", "properties", "items", "prefixItems", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs",
         "pattern", "format", "minimum", "maximum", "patternProperties", "propertyNames", "additionalProperties",
         "required", "minLength", "maxLength", "minItems", "maxItems", "multipleOf", "uniqueItems", "not",
         "minProperties", "maxProperties", "exclusiveMinimum", "exclusiveMaximum", "contains", "definitions"}

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def case(source, name, schema, good=(), bad=(), refused=False):
    """refused: the project's own compiler must refuse it. Texts are JSON texts or values."""
    def texts(values):
        return [v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
    return {"source": source, "name": name, "schema": schema, "good": texts(good), "bad": texts(bad),
            "refused": refused}


def is_schema(v):
    """Not a message or a tool, which have a type as well."""
    return isinstance(v, dict) and bool(WORDS & set(v)) and "function" not in v and "role" not in v and (
        v.get("type", "null") in TYPES or isinstance(v["type"], list) or len(WORDS & set(v)) > 1)


# ---- C++: llama.cpp

STRING = re.compile(r'R"(\w*)\((.*?)\)\1"|R"""\((.*?)\)"""|"((?:[^"\\]|\\.)*)"', re.S)


def uncommented(text):
    """C++ without comments, whose strings hold what looks like some."""
    out, at = [], 0
    pattern = re.compile(r'R"""\(.*?\)"""|"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
    for m in pattern.finditer(text):
        out.append(text[at:m.start()])
        out.append("" if m.group().startswith("/") else m.group())
        at = m.end()
    return "".join(out) + text[at:]


def cpp_strings(text):
    found = []
    for m in re.finditer(r'R"""\((.*?)\)"""|"((?:[^"\\\n]|\\.)*)"', text, re.S):
        found.append((m.start(), m.group(1) if m.group(1) is not None else json.loads('"' + m.group(2) + '"')))
    return found


def llama_converter(text):
    for m in re.finditer(r'test\(\{\s*(SUCCESS|FAILURE),(.*?)\n    \}\);', uncommented(text), re.S):
        strings = [s for _, s in cpp_strings(m.group(2))]
        yield case("llama.cpp: test-json-schema-to-grammar", strings[0], json.loads(strings[1]),
                   refused=m.group(1) == "FAILURE")


def llama_integration(text):
    for m in re.finditer(r'\btest_schema\(\s*(R?"|//)(.*?)\n    \);', uncommented(text), re.S):
        block = m.group()
        strings = cpp_strings(block)
        lists = [b.start() for b in re.finditer(r'\n        \{', block)] + [len(block)]
        good = [s for at, s in strings if lists[0] < at < lists[1]]
        bad = [s for at, s in strings if lists[1] < at] if len(lists) > 2 else []
        yield case("llama.cpp: test-grammar-integration", strings[0][1], json.loads(strings[1][1]), good, bad)


# ---- Python: xgrammar, vLLM

class Values(ast.NodeTransformer):
    """Names whose values are known become these."""
    def __init__(self, known):
        self.known = known

    def visit_Name(self, node):
        return ast.copy_location(self.known[node.id], node) if node.id in self.known else node


def value_of(node, known):
    try:
        return ast.literal_eval(Values(known).visit(ast.fix_missing_locations(node)))
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return None


def parametrized(function, known):
    """(names, rows) of its decorators."""
    for d in function.decorator_list:
        if isinstance(d, ast.Call) and getattr(d.func, "attr", "") == "parametrize" and len(d.args) >= 2:
            names, rows = value_of(d.args[0], known), value_of(d.args[1], known)
            if rows is not None:
                names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
                yield names, [row if len(names) > 1 else (row,) for row in rows]


def of_row(source, name, fields):
    """The case of one row of a table, or None."""
    schema = next((v for k, v in fields.items() if "schema" in k and is_schema(v)), None)
    if schema is None:
        return None
    good, bad = [], []
    for key, v in fields.items():
        if key.startswith("accepted_") or key == "valid":
            good += v if isinstance(v, list) else []
        elif key.startswith("rejected_") or key == "invalid":
            bad += v if isinstance(v, list) else []
        elif key in ("instances", "cases") and isinstance(v, list):
            good += [x[0] for x in v if x[-1] is True]
            bad += [x[0] for x in v if x[-1] is False]
        elif key == "instance":
            (good if fields.get("accepted", fields.get("is_accepted", True)) else bad).append(v)
    return case(source, name, schema, good, bad, refused=any(k.startswith("err") for k in fields))


class Reader(ast.NodeVisitor):
    """What a test says of schemas, from top to bottom."""
    def __init__(self, source, name, known):
        self.source, self.name, self.known, self.cases = source, name, dict(known), []

    def visit_Assign(self, node):
        value = value_of(node.value, self.known)
        target = node.targets[0]
        if value is None or not isinstance(target, ast.Name):
            return self.generic_visit(node)
        self.known[target.id] = node.value
        if is_schema(value):
            self.cases.append(case(self.source, self.name, value))
        elif isinstance(value, list) and self.cases:
            latest, name = self.cases[-1], target.id
            rows = [v for v in value if isinstance(v, tuple) and len(v) == 2 and isinstance(v[1], bool)]
            if rows:
                latest["good"] += case("", "", {}, [v for v, ok in rows if ok])["good"]
                latest["bad"] += case("", "", {}, [v for v, ok in rows if not ok])["good"]
            elif "accepted" in name:
                latest["good"] += case("", "", {}, value)["good"]
            elif "rejected" in name:
                latest["bad"] += case("", "", {}, value)["good"]

    def visit_Call(self, node):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        values = [value_of(a, self.known) for a in node.args]
        if name == "check_schema_with_instance" and len(values) > 1 and is_schema(values[0]) and values[1] is not None:
            ok = next((value_of(k.value, self.known) for k in node.keywords if k.arg == "is_accepted"),
                      values[2] if len(values) > 2 else True)
            if ok is not None:
                self.cases.append(case(self.source, self.name, values[0], *([[values[1]]] if ok else [[], [values[1]]])))
        else:
            for v in values:
                if is_schema(v):
                    self.cases.append(case(self.source, self.name, v))
        self.generic_visit(node)

    def visit_Return(self, node):
        value = value_of(node.value, self.known) if node.value is not None else None
        for v in value if isinstance(value, list) else [value]:
            if is_schema(v):
                self.cases.append(case(self.source, self.name, v))
        self.generic_visit(node)


def python_tests(source, text):
    module = ast.parse(text)
    known = {t.id: n.value for n in module.body if isinstance(n, ast.Assign) for t in n.targets
             if isinstance(t, ast.Name) and value_of(n.value, {}) is not None}
    for node in module.body:
        name = getattr(node, "name", "")
        if isinstance(node, ast.FunctionDef):
            for names, rows in parametrized(node, known):
                for row in rows:
                    found = of_row(source, name, dict(zip(names, row))) if len(row) == len(names) else None
                    if found:
                        yield found
        reader = Reader(source, name, known)
        reader.visit(node)
        yield from reader.cases


# ---- the others

def rust_tests(text):
    for m in re.finditer(r'r#"(.*?)"#', text, re.S):
        try:
            schema = json.loads(m.group(1))
        except ValueError:
            continue
        if is_schema(schema):
            yield case("outlines-core: json_schema", "", schema)


def suite(name, text):
    for group in json.loads(text):
        tests = group["tests"]
        if isinstance(group["schema"], bool) or "$schema" in json.dumps(list(group["schema"].get("$defs", {}).values())):
            continue
        yield case("JSON-Schema-Test-Suite: 2020-12", f"{name}: {group['description']}", group["schema"],
                   [json.dumps(t["data"]) for t in tests if t["valid"]],
                   [json.dumps(t["data"]) for t in tests if not t["valid"]])


def read(fetch, folder):
    """All cases; equal schemas of one source are one."""
    cases = []

    def each(package, pattern, parse):
        with tarfile.open(fetch(*package, folder)) as archive:
            for member in sorted(archive, key=lambda m: m.name):
                m = re.search(pattern, member.name)
                if member.isfile() and m:
                    cases.extend(parse(m, archive.extractfile(member).read().decode()))

    each(LLAMA, r"/llama.cpp/tests/test-json-schema-to-grammar.cpp$", lambda m, t: llama_converter(t))
    each(LLAMA, r"/llama.cpp/tests/test-grammar-integration.cpp$", lambda m, t: llama_integration(t))
    each(XGRAMMAR, r"/tests/python/(test_json_schema_\w+|test_grammar_matcher_json\w*).py$",
         lambda m, t: python_tests("xgrammar: " + m.group(1), t))
    each(VLLM, r"/tests/(v1/structured_output|v1/entrypoints|v1/sample|tool_use)/(?:.*/)?\w+.py$",
         lambda m, t: python_tests("vLLM: " + m.group(1), t))
    each(OUTLINES, r"/src/json_schema/\w+.rs$", lambda m, t: rust_tests(t))
    each(SUITE, r"/json/tests/draft2020-12/(\w+).json$", lambda m, t: suite(m.group(1), t))
    merged = {}
    for c in cases:
        first = merged.setdefault((c["source"], json.dumps(c["schema"])), c)
        if first is not c:
            first["good"] += c["good"]
            first["bad"] += c["bad"]
            first["refused"] = first["refused"] or c["refused"]
    return list(merged.values())
