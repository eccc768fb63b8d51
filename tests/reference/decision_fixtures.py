"""Model files with random weights that were trained for decisions, as far as their metadata say: a vocabulary in which a
prompt can be written, a template "systemone", a type and temperatures.

make(kind, …) gives the bytes of a file; forms of the prompts are those of llama.cpp's converters in short.
"""
import fixtures
from fixture import Fixture

SPECIALS = ["<|end|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
            "<|box_start|>", "<|box_end|>", "[CLS]", "[SEP]", "[MASK]"]
PAIRS = ["AA", "AB", "AC"]  # two letters that are one token; all others are two
VALUE = "{{ %s if %s is string else %s | tojson }}"
STATE, ASKED, DETAIL = (VALUE % ((name,) * 3) for name in ("state", "instructions", "o.description"))

TEMPLATES = {
    "openjev": "<|im_start|>" + STATE + "\n{{ type }}: " + ASKED + "\n{% for o in options %}{{ 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[loop.index0] }}"
               " {{ o.key }}{% if o.description %} (" + DETAIL + "){% endif %}\n{% endfor %}<|im_end|>",
    "pplx-decider": "<|im_start|>State:\n" + STATE + "\nQuestion:\n" + ASKED + "{% for o in options %}{{ '\\n' }}{{ o.label }}: {{ o.key }}"
                    "{% if o.description is not none %}: " + DETAIL + "{% endif %}{% endfor %}<|im_end|>{{ images | length }}",
    "nimble": "<|im_start|>{{ state | tojson }}{% for q in questions %}\n{{ q.id }} {{ q.type }} {{ q.instructions | tojson }}"
              "{% for o in q.options %} {{ o.label }}={{ o.key }}{% endfor %}{% endfor %}<|im_end|>{{ id }}",
    "kev": "<|fim_prefix|>{{ state }}<|fim_middle|>{{ instructions }}{% for o in options %}<|box_start|>"
           "{% if type == 'score' %}{{ o.description }}{% else %}{{ o.key }}{% if o.description %}: {{ o.description }}{% endif %}{% endif %}"
           "<|box_end|>{% endfor %}<|fim_suffix|>",
    "laya": "[CLS]{{ type }}: " + ASKED + "[SEP]{% for o in options %}[MASK] {{ o.key }}{% if o.description %}: " + DETAIL
            + "{% endif %}{% endfor %}[SEP]" + STATE + "[SEP]",
}


def byte_names():
    """GPT-2's name of each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b if b in printable else 256 + others.index(b)) for b in range(256)]


def vocabulary(f, template):
    tokens = byte_names() + PAIRS + SPECIALS
    f.keys.update({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (256 + len(PAIRS)) + [3] * len(SPECIALS),
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in PAIRS],
        "tokenizer.ggml.eos_token_id": tokens.index("<|end|>")})
    if f.arch == "modern-bert":
        f.keys.update({f"tokenizer.ggml.{role}_token_id": tokens.index(name) for role, name in
                       [("bos", "[CLS]"), ("eos", "[SEP]"), ("cls", "[CLS]"), ("seperator", "[SEP]"), ("mask", "[MASK]")]})
    if template:
        f.keys["tokenizer.chat_template.systemone"] = template


def pointer_head(f, n=24):
    """Kev's head: of a row, a query and behind it a key."""
    f.key("embedding_length_out", 2 * n)
    f.biased("cls.output", 2 * n, f.n_embd, True, gain=1.5)


def encoder_head(f):
    """Laya's head: two layers over the encoder's, the kind of question, and a scorer."""
    n_head, n_ff = 2, 100
    f.key("block_count", f.n_layer + n_head)
    f.key("decision.block_count", n_head)
    f.key("feed_forward_length", [f.n_ff] * f.n_layer + [n_ff] * n_head)
    f.vector("token_types.weight", 3, f.n_embd, std=0.8)
    for i in range(f.n_layer, f.n_layer + n_head):
        b = f"blk.{i}."
        f.norm(b + "attn_norm", bias=True)
        f.attention(i, fused=True, bias=True, out_bias=True)
        f.norm(b + "ffn_norm", bias=True)
        f.biased(b + "ffn_up", n_ff, f.n_embd, True, gain=1.5)
        f.biased(b + "ffn_down", f.n_embd, n_ff, True)
    f.norm("cls.norm", bias=True)
    f.biased("cls", f.n_embd, f.n_embd, True, gain=1.5)
    f.biased("cls.output", 1, f.n_embd, True, gain=3.0)


HEADS = {"kev": pointer_head, "laya": encoder_head}


class Decider(Fixture):
    """A fixture with this module's vocabulary."""
    template = ""

    def tokenizer(self):
        vocabulary(self, self.template)


def make(arch, kind, template=None, temperatures=(), seed=1, variant="plain", finish=None, **keys):
    """arch: the body's architecture. kind: the type, None for no such key. finish(f) adds the head."""
    f = Decider(arch, variant, "F32", seed, 4096)
    f.n_vocab = 256 + len(PAIRS) + len(SPECIALS)
    f.template = TEMPLATES.get(kind, "") if template is None else template
    fixtures.BUILDERS[arch][0](f)
    if kind is not None:
        f.key("decision.type", kind)
    for name, value in dict(temperatures).items():
        f.key(f"decision.temperature.{name}", value)
    for name, value in keys.items():
        f.key(f"decision.{name}", value)
    finish = finish or HEADS.get(kind)
    if finish:
        finish(f)
    return f.bytes()
