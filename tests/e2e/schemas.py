"""Random JSON Schemas of what the server supports, by seed: nested, with unions, bounds, references.

What is open-ended is bounded, so that a model of random weights comes to an end of it."""
import random

WORDS = ["id", "name", "größe", "a b", "x\"y", "kind", "tags", "value", "note", "state", "街", "k\\"]
FORMATS = ["date", "time", "date-time", "duration", "uuid", "email", "ipv4", "ipv6", "hostname", "uri"]
PATTERNS = ["^[a-z]{1,8}$", r"^\d{3}-\d{4}$", "^(GET|PUT)$", "^[^\"<]{2,5}$", r"^v\d+(\.\d+){0,2}$",
            "^[A-F0-9]{4,}x$", r"^\w+@\w{2,4}\s?$", "^(a|b|ab)*c$", "^.{3,9}$",
            "^(?!.*--)[a-z-]{2,9}$", r"^(?=.*\d)[a-z\d]{4,8}$", r"^\b[a-z]{1,5}\b( \b\d+\b)?$"]
KEYS = ["^[x-z]{1,6}$", "^.{0,5}_$", "^[A-Z]{2,4}$"]


class Schemas:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.defs = {}

    def string(self):
        kind = self.r.randrange(6)
        if kind == 0:
            return {"type": "string", "format": self.r.choice(FORMATS)}
        if kind == 1:
            lengths = [{}, {}, {"minLength": 3}, {"maxLength": 20}]
            return {"type": "string", "pattern": self.r.choice(PATTERNS), **self.r.choice(lengths)}
        low = self.r.choice([0, 0, 0, 3, 20])
        out = {"type": "string", "maxLength": low + self.r.choice([1, 5, 30, 90])}
        if low:
            out["minLength"] = low
        return out

    def number(self):
        out = {"type": self.r.choice(["integer", "number"])}
        if self.r.random() < 0.15:
            out["multipleOf"] = self.r.choice([1, 2, 7, 60, 250, 0.5, 0.25])
            if self.r.random() < 0.5:
                return out
        low = self.r.choice([0, 1, -5, -1000, 17, 0.5, -2.25, 999])
        if self.r.random() < 0.5:
            out[self.r.choice(["minimum", "exclusiveMinimum"])] = low
        if self.r.random() < 0.5:
            out[self.r.choice(["maximum", "exclusiveMaximum"])] = low + self.r.choice([3, 10, 99.5, 1e6])
        return out

    def literal(self):
        values = [None, True, False, 0, -7, 3.5, "", "red", "\"quoted\" \\ \n", "dunkelgrün",
                  [], [1, "a"], {}, {"a": [None]}]
        if self.r.random() < 0.3:
            return {"const": self.r.choice(values)}
        return {"enum": self.r.sample(values, self.r.randint(1, 6))}

    def array(self, depth):
        if self.r.random() < 0.3:
            return {"type": "array",
                    "prefixItems": [self.any(depth - 1) for _ in range(self.r.randint(1, 3))],
                    "items": self.r.choice([False, {"type": "integer", "maximum": 9}]),
                    "maxItems": 6}
        if self.r.random() < 0.1:
            return {"type": "array", "items": {"enum": ["a", 2, None, [3]][:self.r.randint(2, 4)]},
                    "uniqueItems": True, "minItems": self.r.randint(0, 2)}
        low = self.r.choice([0, 0, 1, 3])
        out = {"type": "array", "items": self.any(depth - 1), "maxItems": low + self.r.choice([0, 1, 4])}
        if low:
            out["minItems"] = low
        return out

    def object(self, depth):
        names = self.r.sample(WORDS, self.r.randint(0, 5))
        out = {"type": "object", "properties": {n: self.any(depth - 1) for n in names}}
        required = [n for n in names if self.r.random() < 0.6]
        if required:
            out["required"] = required
        plain = all(c not in n for n in names for c in "\"\\")
        if self.r.random() < 0.3:
            out["additionalProperties"] = False
        elif plain and self.r.random() < 0.15:
            out["additionalProperties"] = {"type": "boolean"}
        elif plain and self.r.random() < 0.15:
            out["patternProperties"] = {p: self.r.choice([{}, {"type": "integer"}, {"type": ["null", "integer"]}])
                                        for p in self.r.sample(KEYS, self.r.randint(1, 2))}
            out["maxProperties"] = len(names) + 2
            if self.r.random() < 0.5:
                out["additionalProperties"] = False
        if names and self.r.random() < 0.2:
            out["minProperties"] = self.r.randint(0, len(names))
        return out

    def union(self, depth):
        if self.r.random() < 0.5:
            return {"anyOf": [self.any(depth - 1) for _ in range(self.r.randint(1, 3))]}
        branches = [{"type": "object", "required": ["t", "v"],
                     "properties": {"t": {"const": tag}, "v": self.any(depth - 2)}}
                    for tag in self.r.sample(["a", "b", "c"], 2)]
        return {"oneOf": branches + self.r.choice([[], [{"type": "null"}], [self.string()]])}

    def both(self, depth):
        if self.r.random() < 0.5:
            return {"allOf": [{"type": "integer", "minimum": self.r.randint(-50, 5)},
                              {"maximum": self.r.randint(6, 500)}]}
        one = self.object(depth - 1)
        one.pop("additionalProperties", None)
        return {"allOf": [one, {"properties": {"extra": self.any(depth - 1)}, "required": ["extra"]}]}

    def reference(self, depth):
        """A named schema; lists and trees refer to themselves, with an end that comes soon."""
        name = f"d{len(self.defs)}"
        self.defs[name] = {}
        ref = {"$ref": f"#/$defs/{name}"}
        if self.r.random() < 0.5:
            self.defs[name] = {"type": "object", "required": ["next"], "properties": {
                "item": self.any(0), "next": {"anyOf": [{"type": "null"}, ref]}}}
        else:
            self.defs[name] = self.any(depth - 1)
        return ref

    def any(self, depth):
        simple = [self.string, self.number, self.literal, lambda: {"type": "boolean"},
                  lambda: {"type": ["null", self.r.choice(["boolean", "integer"])]}]
        nested = [self.array, self.object, self.object, self.union, self.both, self.reference]
        if depth <= 0 or self.r.random() < 0.35:
            return self.r.choice(simple)()
        return self.r.choice(nested)(depth)


def make(seed):
    s = Schemas(seed)
    schema = s.object(4) if seed % 2 else s.any(4)
    return {**schema, "$defs": s.defs} if s.defs else schema
