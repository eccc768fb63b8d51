"""A virtual machine with two memory nodes, and the tests that need them: `make test-numa`. Minutes.

QEMU's own translator (no /dev/kvm), Debian's kernel for clouds, unpacked below --folder and not
installed, and a first file system in memory: init.c, programs, and the libraries that they name.
What is looked at: the programs' ends, and what `quire` says and answers with weights local,
interleaved, chosen and off.
"""

import argparse
import gzip
import pathlib
import re
import subprocess
import sys

SECONDS = 900
# By Debian's names for architectures: the emulator and its machine, and where its kernel writes.
MACHINES = {
    "amd64": (["qemu-system-x86_64", "-cpu", "max"], "ttyS0"),
    "arm64": (["qemu-system-aarch64", "-M", "virt", "-cpu", "neoverse-n1"], "ttyAMA0"),
}
SCORE = "/bin/quire score --text /text --threads 4 --kv-memory 64m --context 256 --log-level info --numa "
COMMANDS = [
    "/bin/test_numa",
    "/bin/test_topology",
    "/bin/test_thread_pool",
    "/bin/test_placed",
    SCORE + "off",
    SCORE + "interleave",
    SCORE + "local",
    SCORE + "auto",
    "/bin/quire bench --topology --quick --threads 4 --kv-memory 64m --context 256 --numa local",
]


def fetch_kernel(folder, arch="amd64", root=None):
    """The kernel's image: the package is fetched once, for another architecture by a root that has it."""
    kernels = f"kernel-{arch}/boot/vmlinuz-*"
    found = sorted(folder.glob(kernels))
    if found:
        return found[-1]
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-o", f"Dir={root}", "-o", f"APT::Architecture={arch}", "-o", "APT::Sandbox::User=root"] if root else []
    said = subprocess.run(["apt-cache", *options, "depends", f"linux-image-cloud-{arch}"], check=True, capture_output=True,
                          text=True)
    package = re.search(r"Depends: (linux-image-\S+)", said.stdout).group(1)
    subprocess.run(["apt-get", *options, "download", "-qq", package], check=True, cwd=folder)
    deb = sorted(folder.glob(f"linux-image-*_{arch}.deb"))[-1]
    subprocess.run(["dpkg-deb", "-x", deb, folder / f"kernel-{arch}"], check=True)
    return sorted(folder.glob(kernels))[-1]


def libraries(program):
    said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return set(re.findall(r"(/\S+) \(0x", said))


class Archive:
    """cpio, in its form "newc", which the kernel unpacks."""

    def __init__(self):
        self.data = bytearray()
        self.folders = set()
        self.number = 0

    def add(self, name, mode, content=b"", device=(0, 0)):
        self.number += 1
        fields = [self.number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0]
        self.data += b"070701" + b"".join(b"%08X" % f for f in fields) + name.encode() + b"\0"
        self.data += b"\0" * (-len(self.data) % 4)
        self.data += content + b"\0" * (-len(content) % 4)

    def add_file(self, name, content, mode=0o100755):
        parts = name.split("/")
        for i in range(1, len(parts)):
            folder = "/".join(parts[:i])
            if folder not in self.folders:
                self.folders.add(folder)
                self.add(folder, 0o40755)
        self.add(name, mode, content)

    def packed(self):
        self.add("TRAILER!!!", 0)
        return gzip.compress(bytes(self.data), 1)


def make_root(init, programs):
    archive = Archive()
    archive.add_file("init", init.read_bytes())
    archive.add_file("dev/.keep", b"")
    archive.add("dev/console", 0o20600, device=(5, 1))
    for program in programs:
        archive.add_file("bin/" + program.name, program.read_bytes())
    for library in sorted(set().union(*map(libraries, programs))):
        archive.add_file(library.lstrip("/"), pathlib.Path(library).read_bytes())
    archive.add_file("text", b"Once upon a time there was a cat. The cat sat on the mat. " * 4, 0o100644)
    archive.add_file("commands", "".join(c + "\n" for c in COMMANDS).encode(), 0o100644)
    return archive.packed()


def nodes():
    """Four CPUs on two memory nodes, for run_machine()."""
    flags = ["-smp", "4"]
    for node in range(2):
        flags += ["-object", f"memory-backend-ram,id=m{node},size=1536M",
                  "-numa", f"node,nodeid={node},cpus={2 * node}-{2 * node + 1},memdev=m{node}"]
    return flags


def run_machine(kernel, root, flags, arch="amd64"):
    """A machine with 3 GiB until it ends by itself: what it has said."""
    emulator, console = MACHINES[arch]
    command = [*emulator, "-accel", "tcg", "-m", "3072", *flags, "-nographic", "-no-reboot", "-nic", "none", "-kernel",
               str(kernel), "-initrd", str(root), "-append", f"console={console} quiet panic=-1"]
    said = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=SECONDS).stdout
    return said.decode(errors="replace").replace("\r", "")


def problems_of(said):
    """What is not as it should be, in words."""
    parts = re.split(r"\nvm: (\S+) ended with (\d+)\n", said)
    texts, ends = parts[0::3], list(zip(parts[1::3], parts[2::3]))
    if len(ends) != len(COMMANDS):
        return [f"{len(ends)} of {len(COMMANDS)} programs ended"]
    problems = [f"{program} ended with {end}" for program, end in ends if end != "0"]
    scores = dict(zip(("off", "interleave", "local", "auto"), texts[4:8]))
    answers = {way: [line for line in text.split("\n") if line and "numa" not in line and " I " not in line
                     and " W " not in line] for way, text in scores.items()}
    for way, lines in answers.items():
        if not lines or lines != answers["off"]:
            problems.append(f"--numa {way} answers {lines}, and off {answers['off']}")
    wanted = {"interleave": "numa=interleave nodes=2", "local": "numa=local nodes=2 weights_in_place=1.000",
              "auto": "event=numa-measured"}
    problems += [f"--numa {way} does not say {text}" for way, text in wanted.items() if text not in scores[way]]
    if "numa=" in scores["off"]:
        problems.append("--numa off speaks of nodes")
    for text in ("2 memory nodes", "weights in 2 parts, each on its threads' node (100.0 %"):
        if text not in texts[8]:
            problems.append(f"bench --topology does not say {text}")
    return problems


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--folder", type=pathlib.Path, required=True)
    options.add_argument("--init", type=pathlib.Path, required=True)
    options.add_argument("programs", type=pathlib.Path, nargs="+")
    o = options.parse_args()
    kernel = fetch_kernel(o.folder)
    root = o.folder / "root.cpio.gz"
    root.write_bytes(make_root(o.init, o.programs))
    said = run_machine(kernel, root, nodes())
    print(said)
    problems = problems_of(said)
    for problem in problems:
        print("numa:", problem)
    print("numa:", "failed" if problems else f"{len(COMMANDS)} programs on two memory nodes passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
