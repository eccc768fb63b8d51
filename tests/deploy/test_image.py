"""docker/image.sh builds the image on a bootstrapped base, and what is in it starts: `make test-image`, of an arm64 binary
`make test-packages-arm64`."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

DOCKER = pathlib.Path(__file__).resolve().parent.parent.parent / "docker"
BIN = os.environ.get("QUIRE_BIN", "build/quire")
MISSING = [t for t in ("mmdebstrap", "buildah") if shutil.which(t) is None]
# What these tools say where namespaces, mounts or the packages' registry are out of reach.
CANNOT = ("unshare", "newuidmap", "user namespace", "Operation not permitted", "cannot mount", "Temporary failure",
          "Unable to connect", "Could not resolve")


@pytest.mark.skipif(os.environ.get("QUIRE_SLOW") != "1", reason="skip: a minute (make test-image)")
@pytest.mark.skipif(MISSING != [], reason=f"skip: no {' and no '.join(MISSING)} (Debian packages)")
def test_image_is_built_and_starts(tmp_path):
    env = {**os.environ, "STORAGE": str(tmp_path / "images")}
    run = subprocess.run(["bash", DOCKER / "image.sh", BIN, "quire:test"], capture_output=True, text=True, env=env,
                         timeout=500, check=False)
    if run.returncode != 0 and any(words in run.stderr for words in CANNOT):
        pytest.skip(f"skip: no image can be built here: {run.stderr.strip().splitlines()[-1][:200]}")
    assert run.returncode == 0, run.stderr
    # image.sh has asked the binary in the image for its version, as the image's user
    assert "instruction sets: scalar" in run.stdout and run.stdout.splitlines()[-1] == "quire:test"
    store = ["--root", tmp_path / "images" / "root", "--runroot", tmp_path / "images" / "run"]
    run = subprocess.run(["buildah", *store, "inspect", "--type", "image", "localhost/quire:test"], capture_output=True,
                         text=True, env={**env, "STORAGE_DRIVER": "vfs"}, check=False)
    assert run.returncode == 0, run.stderr
    image = json.loads(run.stdout)["OCIv1"]
    config = image["config"]
    assert image["architecture"] == {0x3E: "amd64", 0xB7: "arm64"}[pathlib.Path(BIN).read_bytes()[18]]
    assert config["User"] == "10001" and config["StopSignal"] == "SIGTERM"
    assert config["Entrypoint"] == ["/usr/local/bin/quire", "serve"] and "8080" in "".join(config["ExposedPorts"])
