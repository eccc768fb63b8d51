"""The package's service under systemd, on a virtual machine: started, asked, stopped, started again, purged.

`make test-deb` installs the package in a folder and runs the unit's command; here systemd itself does, with the
unit's sandbox. QEMU's own translator (no /dev/kvm), Debian's kernel for clouds (tests/numa/vm.py fetches it), and a
clean Debian with the package as the first file system, in memory. `make test-deb-vm`: minutes; `make test-deb-vm-arm64`:
a machine of that architecture, whose Debian is made by programs that the kernel here runs in an emulator (binfmt_misc).
"""
import argparse
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "numa"))

import vm  # noqa: E402

# One step a line: what is told of each is its end. The first failure does not stop the others.
STEPS = [
    "systemctl is-active --quiet quire",
    "test $(stat -c %U /proc/$(systemctl show -p MainPID --value quire)) = quire",
    "grep -q '^Seccomp:.*2$' /proc/$(systemctl show -p MainPID --value quire)/status",
    "curl -sSf --retry 60 --retry-delay 1 --retry-all-errors localhost:8080/health",
    "curl -sSf localhost:8080/v1/completions -H 'Content-Type: application/json' -d '{\"prompt\": \"Once upon a time\", \"max_tokens\": 8}' | grep -q '\"completion_tokens\":8'",
    "journalctl -u quire | grep -q 'event=sandbox state=on landlock=.* seccomp=on mdwe=.* no_new_privs=on'",
    "! journalctl -u quire | grep 'event=refused'",
    "systemctl kill --signal=KILL quire && sleep 5 && systemctl is-active --quiet quire",
    "curl -sSf --retry 60 --retry-delay 1 --retry-all-errors localhost:8080/health",
    "systemctl stop quire && test $(systemctl show -p Result --value quire) = success",
    "dpkg --purge quire",
    "! systemctl cat quire",
    "! getent passwd quire",
    "! find /etc /usr /lib /var/lib /run -name 'quire*' -o -name '*.quire*' | grep .",
]
UNIT = """[Unit]
Description=the test
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /test.sh
StandardOutput=file:/dev/@CONSOLE@
StandardError=file:/dev/@CONSOLE@
[Install]
WantedBy=default.target
"""


def run(*command, **more):
    subprocess.run([str(c) for c in command], check=True, **more)


def make_root(tree, deb, arch):
    """The machine's first file system: a folder."""
    run("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--architectures={arch}", "--include=systemd-sysv,curl",
        platform.freedesktop_os_release()["VERSION_CODENAME"], tree)
    run("cp", deb, tree / "tmp/quire.deb")
    run("cp", "/etc/resolv.conf", tree / "etc/resolv.conf")
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-qq", "-y", "--no-install-recommends", "/tmp/quire.deb"]):
        run("chroot", tree, *command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    script = "".join(f"( {step} ) ; echo \"service: {i} ended with $?\"\n" for i, step in enumerate(STEPS))
    (tree / "test.sh").write_text(script + "journalctl -u quire --no-pager | tail -n 30\npoweroff -f\n")
    (tree / "etc/systemd/system/test.service").write_text(UNIT.replace("@CONSOLE@", vm.MACHINES[arch][1]))
    (tree / "init").symlink_to("/lib/systemd/systemd")
    (tree / "tmp/quire.deb").unlink()
    run("chroot", tree, "systemctl", "enable", "--quiet", "test.service")


def pack(tree, packed):
    """As the kernel takes it."""
    with packed.open("wb") as out:
        run("sh", "-c", "find . -path ./var/cache -prune -o -path ./var/lib/apt -prune -o -print0 |"
            " cpio --quiet --null -o -H newc | gzip -1", cwd=tree, stdout=out)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--folder", type=pathlib.Path, required=True)
    options.add_argument("deb", type=pathlib.Path)
    o = options.parse_args()
    o.folder.mkdir(parents=True, exist_ok=True)
    packed = o.folder / "service.cpio.gz"
    arch = subprocess.run(["dpkg-deb", "--field", o.deb, "Architecture"], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "debian"
        make_root(tree, o.deb, arch)
        kernel = vm.fetch_kernel(o.folder, arch, tree)
        pack(tree, packed)
    said = vm.run_machine(kernel, packed, ["-smp", "2"], arch)
    ends = dict(re.findall(r"service: (\d+) ended with (\d+)", said))
    problems = [f"{step}: {ends.get(str(i), 'it did not end')}" for i, step in enumerate(STEPS) if ends.get(str(i)) != "0"]
    if problems:
        print(said[-6000:])
    for problem in problems:
        print("service:", problem)
    print("service:", "failed" if problems else f"{len(STEPS)} steps under systemd passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
