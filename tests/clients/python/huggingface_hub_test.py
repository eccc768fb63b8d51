"""huggingface_hub and `quire pull` share one cache: what one has fetched the other finds, and neither fetches it again."""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import case
import hub_server
from quire import BIN

MODEL = random.Random(1).randbytes(2 << 20)
FILES = {"x-Q8_0.gguf": MODEL, "x-Q4_0-00001-of-00002.gguf": MODEL[:9000], "x-Q4_0-00002-of-00002.gguf": MODEL[9000:20000],
         "README.md": b"# a model", "sub/small.gguf": b"small"}


class Shared(unittest.TestCase):
    def setUp(self):
        self.hub = hub_server.Hub(owner__name=hub_server.Repo(FILES))
        self.home = tempfile.TemporaryDirectory()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
        self.env |= {"HF_ENDPOINT": self.hub.url, "HF_HOME": self.home.name, "HF_TOKEN": "hf_x"}

    def tearDown(self):
        self.hub.close()
        self.home.cleanup()

    def pull(self, *args):
        run = subprocess.run([BIN, "pull", *args], env=self.env, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout.strip()

    def python(self, call, **env):
        """A call of the package in a process of its own: it reads the environment when it is imported."""
        code = f"from huggingface_hub import *; print({call})"
        run = subprocess.run([sys.executable, "-c", code], env={**self.env, **env}, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout.strip()

    def test_ours_then_theirs(self):
        path = self.pull("hf:owner/name:Q8_0")
        self.assertEqual(self.python("hf_hub_download('owner/name', 'x-Q8_0.gguf')", HF_HUB_OFFLINE="1"), path)
        sent = self.hub.sent
        self.assertEqual(self.python("hf_hub_download('owner/name', 'x-Q8_0.gguf')"), path)
        self.assertEqual(self.hub.sent, sent)
        self.assertEqual(self.python("[f.file_name for r in scan_cache_dir().repos for v in r.revisions for f in v.files]"), "['x-Q8_0.gguf']")

    def test_theirs_then_ours(self):
        folder = self.python("snapshot_download('owner/name')")
        sent = self.hub.sent
        for want, name in (("Q8_0", "x-Q8_0.gguf"), ("q4_0", "x-Q4_0-00001-of-00002.gguf"), ("sub/small.gguf", "sub/small.gguf")):
            self.assertEqual(self.pull("--offline", f"hf:owner/name:{want}"), f"{folder}/{name}")
            self.assertEqual(self.pull(f"hf:owner/name:{want}"), f"{folder}/{name}")
        self.assertEqual(self.hub.sent, sent)

    def test_both_at_once(self):
        """By the lock of the blob: the second waits, and the file is sent once."""
        self.hub.stop_at = len(MODEL) // 2
        found = []
        threads = [threading.Thread(target=lambda f=f: found.append(f())) for f in (
            lambda: self.pull("hf:owner/name:Q8_0"), lambda: self.python("hf_hub_download('owner/name', 'x-Q8_0.gguf')"))]
        for t in threads:
            t.start()
        begin = time.monotonic()
        while self.hub.gate.is_set() or len([a for a in self.hub.asked if a[0] == "HEAD"]) < 2:
            self.assertLess(time.monotonic() - begin, 30)
            time.sleep(0.01)
        time.sleep(0.5)
        self.hub.stop_at = 1 << 60
        self.hub.gate.set()
        for t in threads:
            t.join(60)
        self.assertEqual(len(set(found)), 1)
        self.assertEqual(pathlib.Path(found[0]).read_bytes(), MODEL)
        self.assertEqual(self.hub.sent, len(MODEL))


if __name__ == "__main__":
    case.main()
