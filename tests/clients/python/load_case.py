"""A test case for the tools that measure servers: each makes one short run, and none of its requests may fail."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from case import MODEL, ClientCase, main

__all__ = ["MODEL", "LoadCase", "main"]


class LoadCase(ClientCase):
    """self.folder: an empty one; beside it a tokenizer, which the tools want for the prompts that they make.

    offline: how the tool is kept from asking a hub about a tokenizer that lies in a folder."""

    offline = {"HF_HUB_OFFLINE": "1"}

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="quire-clients-")
        self.folder = pathlib.Path(self.scratch.name) / "run"
        self.folder.mkdir()
        self.tokenizer = pathlib.Path(self.scratch.name) / "tokenizer"
        write_tokenizer(self.tokenizer)
        self.before = self.completed()

    def tearDown(self):
        self.scratch.cleanup()

    def tool(self, name, *args):
        """The command of this environment, which must succeed; what it prints."""
        path = pathlib.Path(sys.prefix) / "bin" / name
        env = {**os.environ, **self.offline, "HOME": self.scratch.name, "NO_COLOR": "1"}
        run = subprocess.run([path, *map(str, args)], cwd=self.folder, env=env, timeout=200, check=False,
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout[-6000:] + run.stderr[-6000:])
        return run.stdout

    def completed(self):
        """Completions that the server has brought to a good end."""
        return sum(v for k, v in self.server.metrics().items() if k.startswith("quire_requests_total")
                   and ('outcome="length"' in k or 'outcome="stop"' in k))

    def check_served(self, n):
        self.assertGreaterEqual(self.completed() - self.before, n)


def write_tokenizer(folder):
    """One token for each character of plain text, as Hugging Face's libraries read it from files."""
    words = [*map(chr, range(33, 127)), "\u0120", "<end>"]  # U+0120 stands for the space
    vocab = {word: i for i, word in enumerate(words)}
    bytes_too = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": vocab["<end>"], "content": "<end>", "special": True, "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
             "pre_tokenizer": bytes_too, "post_processor": None, "decoder": bytes_too,
             "model": {"type": "BPE", "vocab": vocab, "merges": [], "dropout": None, "unk_token": None,
                       "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                       "byte_fallback": False}}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "model_max_length": 1024}
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
