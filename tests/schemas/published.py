#!/usr/bin/env python3
"""JSON Schemas in the tests that other projects publish: `make test-schemas`.

Each is compiled or refused with a sentence. What is compiled must constrain: no published text that
does not validate is taken, and whatever is grown from the grammar at random validates, by Python's
jsonschema. Published texts that validate and are not taken are counted: less is written than a
schema allows, as core/grammar/json_schema.h says.
"""
import argparse
import collections
import copy
import datetime
import decimal
import ipaddress
import json
import pathlib
import re
import subprocess
import sys
import uuid

import jsonschema
import regex

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fixtures"))
from registry import fetch  # noqa: E402
import sources  # noqa: E402

N_SAMPLES = 12

# ---- formats

TIME = r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"


def is_date(v):
    return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", v)) and bool(datetime.date.fromisoformat(v))


def is_time(v):
    return bool(re.fullmatch(TIME, v)) and bool(datetime.datetime.fromisoformat("2000-01-01T" + v[:8]))


def is_date_time(v):
    return "T" in v and is_date(v[:10]) and is_time(v[11:])


FORMATS = jsonschema.FormatChecker(())
for name, check in {"date": is_date, "time": is_time, "date-time": is_date_time, "ipv4": ipaddress.IPv4Address,
                    "ipv6": ipaddress.IPv6Address, "uuid": uuid.UUID,
                    "email": lambda v: re.fullmatch(r"[^@\s]+@[^@\s.][^@\s]*", v),
                    "hostname": lambda v: re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", v),
                    "uri": lambda v: re.fullmatch(r"[a-z]+:\S+", v),
                    "duration": lambda v: re.fullmatch(r"P(\d+[YMWD])*(T(\d+[HMS])+)?", v)}.items():
    FORMATS.checks(name, raises=ValueError)(lambda v, check=check: not isinstance(v, str) or bool(check(v)))

# ---- what validates

SUBSCHEMAS = {"items", "additionalProperties", "additionalItems", "propertyNames", "not", "contains", "if", "then",
              "else", "unevaluatedProperties", "unevaluatedItems"}
LISTS = {"anyOf", "oneOf", "allOf", "prefixItems", "items"}
MAPS = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}


def as_written(schema):
    """The schema in the words of 2020-12, as json_schema.h reads it."""
    if not isinstance(schema, dict):
        return schema
    out = {}
    for k, v in schema.items():
        if k in LISTS and isinstance(v, list):
            v = [as_written(x) for x in v]
        elif k in MAPS and isinstance(v, dict):
            v = {name: as_written(x) for name, x in v.items()}
        elif k in SUBSCHEMAS:
            v = as_written(v)
        out[k] = v
    if isinstance(out.get("items"), list):  # as draft 4 had it
        out["prefixItems"] = out.pop("items")
        if "additionalItems" in out:
            out["items"] = out.pop("additionalItems")
        if not out["prefixItems"]:
            del out["prefixItems"]
    if "oneOf" in out:  # is an anyOf
        out.setdefault("allOf", [])
        out["allOf"] = out["allOf"] + [{"anyOf": out.pop("oneOf")}]
    if out.pop("nullable", False) is True and "enum" not in out and "const" not in out:
        defs = {k: out.pop(k) for k in ("$defs", "definitions") if k in out}
        out = {"anyOf": [{"type": "null"}, out], **defs}
    return out


def pattern(validator, wanted, instance, schema):
    if isinstance(instance, str) and not regex.search(wanted, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {wanted!r}")


def pattern_properties(validator, patterns, instance, schema):
    for wanted, sub in patterns.items() if isinstance(instance, dict) else ():
        for k, v in instance.items():
            if regex.search(wanted, k):
                yield from validator.descend(v, sub, path=k, schema_path=wanted)


def additional_properties(validator, sub, instance, schema):
    for k, v in instance.items() if isinstance(instance, dict) else ():
        if k not in schema.get("properties", {}) and not any(
                regex.search(p, k) for p in schema.get("patternProperties", {})):
            yield from validator.descend(v, sub, path=k)


def multiple_of(validator, wanted, instance, schema):
    if isinstance(instance, (int, float)) and not isinstance(instance, bool) and \
            decimal.Decimal(repr(instance) if isinstance(instance, float) else instance) % decimal.Decimal(repr(wanted)):
        yield jsonschema.ValidationError(f"{instance} is no multiple of {wanted}")


Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    {"pattern": pattern, "patternProperties": pattern_properties, "additionalProperties": additional_properties,
     "multipleOf": multiple_of})


def problem(schema, text):
    """Why the text does not validate, or None."""
    try:
        value = json.loads(text)
    except ValueError as e:
        return f"no JSON: {e}"
    try:
        Validator(as_written(copy.deepcopy(schema)), format_checker=FORMATS).validate(value)
    except jsonschema.ValidationError as e:
        return e.message
    return None


# ---- the tool

class Tool:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def compact(text):
    """The text without the blanks that are never written, or itself."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return text


def why(sentence):
    """A sentence without what it is about."""
    sentence = re.sub(r"^(at|in) '[^']*': ", "", sentence)
    return re.sub(r"^at character \d+: ", "", sentence)


def judge(tool, c, seed):
    """(verdict, [wrong], texts that validate and are not taken, texts that are)."""
    texts = [compact(t) for t in c["good"]] + [t for b in c["bad"] for t in (b, compact(b))]
    reply = tool.ask(schema=c["schema"], texts=texts, samples=N_SAMPLES, seed=seed)
    if "error" in reply:
        return "refused", [], [], 0, reply["error"]
    wrong = []
    if c["refused"] and not Validator(Validator.META_SCHEMA).is_valid(c["schema"]):
        wrong.append("is no schema, and was compiled")
    fewer, taken = [], 0
    for text, is_taken in zip(texts, reply["taken"]):
        bad = problem(c["schema"], text)
        taken += is_taken
        if is_taken and bad:
            wrong.append(f"takes {text[:200]}: {bad[:200]}")
        if not is_taken and not bad and text in [compact(t) for t in c["good"]]:
            fewer.append(text)
    for text in reply["samples"]:
        bad = problem(c["schema"], text)
        if bad:
            wrong.append(f"writes {text[:200]}: {bad[:200]}")
    return "compiled", wrong, fewer, taken, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/schemas"))
    parser.add_argument("--tool", default="build/tools/schema")
    parser.add_argument("--verbose", action="store_true", help="print each refusal, and each text that is not taken")
    args = parser.parse_args()
    tool = Tool(args.tool)
    table = collections.defaultdict(collections.Counter)
    reasons, bad = collections.Counter(), []
    for seed, c in enumerate(sources.read(fetch, args.folder)):
        row = table[c["source"]]
        verdict, wrong, fewer, taken, sentence = judge(tool, c, seed)
        row["schemas"] += 1
        row[verdict] += 1
        row["theirs refuses too"] += verdict == "refused" and c["refused"]
        row["wrong"] += bool(wrong)
        row["taken"] += taken
        row["fewer"] += len(fewer)
        bad += [f"{c['source']}, {c['name']}: {json.dumps(c['schema'])[:400]}: {w}" for w in wrong]
        if verdict == "refused":
            reasons[re.sub(r"'[^']{30,}'", "'...'", why(sentence))] += 1
        if args.verbose and (sentence or fewer):
            print(f"{c['source']}, {c['name']}: {json.dumps(c['schema'])[:600]}\n    {sentence} {fewer[:6]}")
    columns = ["schemas", "compiled", "refused", "theirs refuses too", "taken", "fewer", "wrong"]
    print(f"{'':46}" + "".join(f"{c:>20}" for c in columns))
    for source, row in sorted(table.items()):
        print(f"{source[:45]:46}" + "".join(f"{row[c]:>20}" for c in columns))
    print("\nrefused:")
    for reason, n in reasons.most_common():
        print(f"{n:5}  {reason[:150]}")
    print(f"\n{sum(r['schemas'] for r in table.values())} schemas, {len(bad)} wrong")
    print("\n".join(bad))
    return 1 if bad or len(table) < 8 else 0


if __name__ == "__main__":
    sys.exit(main())
