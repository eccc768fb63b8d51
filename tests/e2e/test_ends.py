"""What ends a generation, family by family, in a GGUF file and in a folder: each mark that a template writes behind an
assistant's message, and none that stands inside of one. The names and lists are those of the published vocabularies and
generation_config.json files. The table: python3 -m pytest -s tests/e2e/test_ends.py"""
import json
import os
import pathlib
import subprocess

import pytest

import hf_folder
import hf_recurrent
import vocab_file as vf
from jinja_reference import Renderer
from test_hf_recurrent import parts as hf_recurrent_parts
from test_safetensors import gguf_file, parts

TOOLS = os.environ.get("QUIRE_TOOLS", "build/tools")
TEMPLATES = pathlib.Path(os.environ.get("QUIRE_DATA", "../shared/data")) / "templates"
HTML = ["<b>", "</b>", "<s>", "</s>", "<strong>", "</strong>"]
CHATML = {"special": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], "plain": ["<tool_call>", "</tool_call>", "<think>", "</think>"],
          "eos": "<|im_end|>", "lists": ["<|im_end|>", "<|endoftext|>"], "ends": ["<|endoftext|>", "<|im_end|>"]}

# special, plain: control tokens and user-defined ones; eos, eot, eom: as converters name them in GGUF files; lists: eos_token_id of
# generation_config.json; ends: what is right.
FAMILIES = {
    "llama-3": {"special": ["<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>", "<|start_header_id|>", "<|python_tag|>"],
                "eos": "<|eot_id|>", "lists": ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"],
                "ends": ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"],
                "templates": ["meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct"]},
    "llama-4": {"special": ["<|begin_of_text|>", "<|end_of_text|>", "<|eom|>", "<|eot|>", "<|header_start|>", "<|python_start|>"],
                "eos": "<|eot|>", "eom": "<|eom|>", "lists": ["<|end_of_text|>", "<|eom|>", "<|eot|>"],
                "ends": ["<|end_of_text|>", "<|eom|>", "<|eot|>"]},
    "chatml": {**CHATML, "templates": ["Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "HuggingFaceTB-SmolLM3-3B",
                                       "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use"]},
    "qwen-coder": {**CHATML, "special": CHATML["special"] + ["<|fim_prefix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"],
                   "ends": CHATML["ends"] + ["<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"]},
    "chatml-on-mistral": {"special": ["<s>", "</s>", "<|im_start|>", "<|im_end|>"], "eos": "<|im_end|>", "lists": ["<|im_end|>"],
                          "ends": ["</s>", "<|im_end|>"]},
    "marks of no kind": {**CHATML, "special": [], "normal": CHATML["special"], "folder": False},
    "gemma-2": {"special": ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"], "plain": HTML, "eos": "<eos>",
                "lists": ["<eos>", "<end_of_turn>"], "ends": ["<eos>", "<end_of_turn>"], "templates": ["google-gemma-2-2b-it"]},
    "gemma-2, tags as control tokens": {
        "special": ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>", *HTML], "eos": "<eos>", "lists": ["<eos>"],
        "ends": ["<eos>", "<end_of_turn>"]},
    "gemma-4": {"special": ["<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>", "<|tool_call>", "<tool_call|>", "<|tool_response>",
                            "<tool_response|>", "<|channel>", "<channel|>", "<|think|>"], "plain": HTML, "eos": "<eos>",
                "lists": ["<eos>", "<turn|>", "<|tool_response>"], "ends": ["<eos>", "<turn|>", "<|tool_response>"]},
    "gpt-oss": {"special": ["<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>",
                            "<|message|>", "<|call|>"], "eos": "<|return|>", "lists": ["<|return|>", "<|endoftext|>", "<|call|>"],
                "ends": ["<|endoftext|>", "<|return|>", "<|call|>"], "templates": ["openai-gpt-oss-120b"]},
    "solar-open": {"special": ["<|startoftext|>", "<|endoftext|>", "<|begin|>", "<|end|>", "<|flush|>", "<|calls|>", "<|content|>",
                               "<|think|>", "<|tool_calls|>"], "eos": "<|flush|>", "lists": ["<|endoftext|>", "<|flush|>", "<|calls|>"],
                   "ends": ["<|endoftext|>", "<|flush|>", "<|calls|>"]},
    "glm-4": {"special": ["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"],
              "plain": ["<think>", "</think>", "<tool_call>", "</tool_call>"], "eos": "<|endoftext|>", "eot": "<|user|>",
              "eom": "<|observation|>", "lists": ["<|endoftext|>", "<|user|>", "<|observation|>"],
              "ends": ["<|endoftext|>", "<|user|>", "<|observation|>"]},
    "phi-3.5": {"special": ["<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>"], "eos": "<|endoftext|>",
                "lists": ["<|end|>", "<|endoftext|>"], "ends": ["<|endoftext|>", "<|end|>"], "templates": ["microsoft-Phi-3.5-mini-instruct"]},
    "deepseek": {"special": ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜tool▁call▁end｜>"],
                 "plain": ["<think>", "</think>"], "eos": "<｜end▁of▁sentence｜>", "lists": ["<｜end▁of▁sentence｜>"],
                 "ends": ["<｜end▁of▁sentence｜>"], "templates": ["deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"]},
    "mistral": {"special": ["<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]"], "eos": "</s>", "lists": ["</s>"], "ends": ["</s>"],
                "templates": ["mistralai-Mistral-Nemo-Instruct-2407"]},
    "granite": {"special": ["<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>"], "eos": "<|end_of_text|>",
                "lists": ["<|end_of_text|>"], "ends": ["<|end_of_text|>"], "templates": ["ibm-granite-granite-3.3-2B-Instruct"]},
    "kimi-k2": {"special": ["[BOS]", "[EOS]", "[EOT]", "<|im_end|>", "<|im_user|>", "<|im_middle|>", "<|tool_calls_section_begin|>",
                            "<|tool_call_end|>"], "eos": "<|im_end|>", "lists": ["<|im_end|>"], "ends": ["[EOS]", "[EOT]", "<|im_end|>"]},
    "command-r": {"special": ["<EOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|START_ACTION|>", "<|END_ACTION|>"],
                  "eos": "<|END_OF_TURN_TOKEN|>", "lists": ["<|END_OF_TURN_TOKEN|>"], "ends": ["<|END_OF_TURN_TOKEN|>"]},
    "smolvlm": {"special": ["<|im_start|>", "<end_of_utterance>", "<fake_token_around_image>"], "eos": "<end_of_utterance>",
                "lists": ["<end_of_utterance>"], "ends": ["<end_of_utterance>"]},
    "deepseek-ocr": {"special": ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<|User|>"], "eos": "<|User|>", "lists": ["<|User|>"],
                     "ends": ["<｜end▁of▁sentence｜>", "<|User|>"]},
    "minimax-m2": {"special": ["]~!b[", "]~b]", "[e~["], "plain": ["<minimax:tool_call>", "<think>"], "eos": "]~!b[", "lists": ["]~!b["],
                   "ends": ["]~!b[", "[e~["]},
    "plamo": {"special": ["<|plamo:bos|>", "<|plamo:eos|>", "</s>"], "eos": "<|plamo:eos|>", "lists": ["<|plamo:eos|>"],
              "ends": ["<|plamo:eos|>"]},
    "exaone-4": {"special": ["[BOS]", "[|endofturn|]", "[|assistant|]", "[|tool|]"], "plain": ["<think>", "<tool_call>"],
                 "eos": "[|endofturn|]", "lists": ["[|endofturn|]"], "ends": ["[|endofturn|]"]},
}


def tokens_of(family):
    """Texts and types: some plain ones, then the marks."""
    marks = [(t, vf.CONTROL) for t in family["special"]] + [(t, vf.USER_DEFINED) for t in family.get("plain", [])]
    return [(c, vf.NORMAL) for c in "abcdefg"] + [("ab", vf.NORMAL)] + marks + [(t, vf.NORMAL) for t in family.get("normal", [])]


def write_gguf(path, family):
    texts, types = zip(*tokens_of(family))
    keys = {f"{k}_token_id": texts.index(family[k]) for k in ("eos", "eot", "eom") if k in family}
    vf.write(path, "gpt2", list(texts), merges=["a b"], token_type=list(types), pre="gpt-2", **keys)
    return list(texts)


def write_folder(folder, family, generation=None, **config):
    """A random model of this vocabulary; the marks take the place of its last tokens."""
    keys, tensors = parts("llama")
    texts = list(hf_folder.tokens_of(keys))
    marks = [(t, kind == vf.CONTROL) for t, kind in tokens_of(family) if kind != vf.NORMAL]
    first = len(texts) - len(marks)
    texts[first:] = [t for t, _ in marks]
    hf_folder.write(folder, keys, tensors, **{"eos_token_id": texts.index(family["eos"]), **config})
    keys = {**keys, "tokenizer.ggml.tokens": texts}
    told = hf_folder.plain_tokenizer(keys)
    told["added_tokens"] = [hf_folder.added(first + i, t, special) for i, (t, special) in enumerate(marks)]
    told["model"]["vocab"] = {t: i for i, t in enumerate(texts[:first])}
    told["model"]["merges"] = [m for m in told["model"]["merges"] if m.replace(" ", "") in told["model"]["vocab"]]
    (folder / "tokenizer.json").write_text(json.dumps(told))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation(texts)))
    return texts


def ends_of(path, texts):
    run = subprocess.run([os.path.join(TOOLS, "ends"), str(path)], stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    assert run.stdout.startswith("["), run.stdout
    return {texts[i] for i in json.loads(run.stdout)}


def check(name, kind, got, want):
    missing, extra = sorted(set(want) - got), sorted(got - set(want))
    print(f"{name:32} {kind:7} missing {len(missing)} too many {len(extra)}")
    assert (missing, extra) == ([], [])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_file_of_the_family(tmp_path, name):
    family = FAMILIES[name]
    texts = write_gguf(tmp_path / "m.gguf", family)
    check(name, "GGUF", ends_of(tmp_path / "m.gguf", texts), family["ends"])


@pytest.mark.parametrize("name", [n for n, f in FAMILIES.items() if f.get("folder", True)])
def test_a_folder_of_the_family(tmp_path, name):
    family = FAMILIES[name]
    texts = write_folder(tmp_path / "m", family, lambda t: {"eos_token_id": [t.index(e) for e in family["lists"]]})
    check(name, "folder", ends_of(tmp_path / "m", texts), family["ends"])


# ---- where a folder says so

ODD = {"special": ["<odd1>", "<odd2>", "<odd3>", "<odd4>"], "eos": "<odd1>"}


@pytest.mark.parametrize("config, generation, ends", [
    ({}, None, ["<odd1>"]),
    ({"eos_token_id": ["<odd1>", "<odd3>"]}, None, ["<odd1>", "<odd3>"]),
    ({}, {"eos_token_id": "<odd2>"}, ["<odd1>", "<odd2>"]),
    ({"eos_token_id": None}, {"eos_token_id": ["<odd2>", "<odd4>"]}, ["<odd2>", "<odd4>"]),
    ({}, {"eos_token_id": None}, ["<odd1>"]),
    ({}, {"temperature": 1.0, "eos_token_id": []}, ["<odd1>"]),
])
def test_every_list_counts(tmp_path, config, generation, ends):
    marks = write_folder(tmp_path / "m", ODD)

    def ids(o):
        return [marks.index(e) for e in o] if isinstance(o, list) else marks.index(o) if o in marks else o

    config = {k: ids(v) for k, v in config.items()}
    write_folder(tmp_path / "m", ODD, generation and (lambda t: {k: ids(v) for k, v in generation.items()}), **config)
    assert ends_of(tmp_path / "m", marks) == set(ends)


@pytest.mark.parametrize("inner,outer,ends", [(5, [6, 7], {5, 6, 7}), ([5], None, {5}), (None, 8, {8}), ("absent", [8, 9], {8, 9})])
def test_two_configurations(tmp_path, inner, outer, ends):
    """Of a model with a text part that one's list counts beside that of all."""
    keys, tensors = hf_recurrent_parts("qwen35", "plain")
    hf_recurrent.make("Qwen3_5ForConditionalGeneration", tmp_path / "m", keys, tensors)
    path = tmp_path / "m" / "config.json"
    said = json.loads(path.read_text())
    said["eos_token_id"] = outer
    said["text_config"].pop("eos_token_id", None)
    if inner != "absent":
        said["text_config"]["eos_token_id"] = inner
    path.write_text(json.dumps(said))
    names = list(hf_folder.tokens_of(keys))
    assert ends_of(tmp_path / "m", list(range(len(names)))) == ends


def test_a_list_that_is_none(tmp_path):
    write_folder(tmp_path / "m", ODD, lambda t: {"eos_token_id": ["<odd2>"]})
    run = subprocess.run([os.path.join(TOOLS, "ends"), str(tmp_path / "m")], stdout=subprocess.PIPE, text=True, timeout=60)
    assert "generation_config.json: 'eos_token_id' is neither an id nor a list of ids" in run.stdout


def test_a_list_in_a_file(tmp_path):
    texts, types = zip(*tokens_of(ODD))
    vf.write(tmp_path / "m.gguf", "gpt2", list(texts), merges=["a b"], token_type=list(types), pre="gpt-2", eos_token_id=8,
             eos_token_ids=[8, 10])
    assert ends_of(tmp_path / "m.gguf", texts) == {"<odd1>", "<odd3>"}
    vf.write(tmp_path / "m.gguf", "gpt2", list(texts), merges=["a b"], token_type=list(types), pre="gpt-2", eos_token_ids=[8, 99])
    assert ends_of(tmp_path / "m.gguf", texts) == {"<odd1>"}


@pytest.mark.parametrize("key,value", [("eos_token_id", 999), ("eot_token_id", 2 ** 32 - 1),
                                       ("bos_token_id", 4000), ("eos_token_ids", [2, 999])])
def test_ids_of_no_token(start, tmp_path, key, value):
    """An id that the vocabulary lacks is told at the start, and not used."""
    keys, tensors = parts("llama")
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write({**keys, f"tokenizer.ggml.{key}": value}, tensors))
    s = start(model=path)
    assert s.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).status == 200
    ignored = value if isinstance(value, int) else value[1]
    n = len(keys["tokenizer.ggml.tokens"])
    assert f"event=special-token-ignored key=tokenizer.ggml.{key} id={ignored} tokens={n} " in s.read_log()


# ---- what templates write

@pytest.fixture(scope="module")
def renderer():
    r = Renderer()
    yield r
    r.close()


@pytest.mark.skipif(not TEMPLATES.is_dir(), reason="skip: ../shared/data absent")
@pytest.mark.parametrize("name, template", [(n, t) for n, f in FAMILIES.items() for t in f.get("templates", [])])
def test_a_template_writes_an_end(renderer, tmp_path, name, template):
    """Behind an assistant's last message stands an end, and within one with a thought and a call none."""
    family = FAMILIES[name]
    texts = write_gguf(tmp_path / "m.gguf", family)
    ends = ends_of(tmp_path / "m.gguf", texts)
    source = (TEMPLATES / f"{template}.jinja").read_text(encoding="utf-8")
    got = renderer.chat(source, {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ANSWER"}],
                                 "bos_token": "", "eos_token": family["eos"], "add_generation_prompt": False})
    assert "text" in got, got
    behind = got["text"].split("ANSWER", 1)[1].lstrip()
    assert any(behind.startswith(e) for e in ends), behind[:60]
