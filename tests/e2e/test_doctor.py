"""`quire doctor`: machines that a folder stands for, settings, files, ports and certificates, each with what to change."""
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time

import pytest

from quire import BIN, make_certificate, make_key

GOOD = {
    "proc/self/status": "Cpus_allowed_list:\t0-3\n", "proc/meminfo": "MemTotal:       67108864 kB\nMemAvailable:   50331648 kB\n",
    "proc/swaps": "Filename Type Size Used Priority\n", "proc/self/cgroup": "0::/system.slice/quire.service\n",
    "proc/sys/kernel/numa_balancing": "0\n", "proc/sys/vm/overcommit_memory": "0\n", "proc/sys/vm/swappiness": "60\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/node/node0/cpulist": "0-3\n", "sys/fs/cgroup/system.slice/quire.service/cpu.max": "max 100000\n",
    "sys/fs/cgroup/system.slice/quire.service/memory.max": "max\n",
    **{f"sys/devices/system/cpu/cpu{i}/cpufreq/scaling_governor": "performance\n" for i in range(4)},
}
SWAPS = GOOD["proc/swaps"] + "/dev/sda2 partition 1000 0 -2\n"
NODES = {"sys/devices/system/node/node0/cpulist": "0-1\n", "sys/devices/system/node/node1/cpulist": "2-3\n"}
GOVERNOR = {f"sys/devices/system/cpu/cpu{i}/cpufreq/scaling_governor": "powersave\n" for i in range(4)}
HINT = {f"sys/devices/system/cpu/cpu{i}/cpufreq/energy_performance_preference": "performance\n" for i in range(4)}


ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "QUIRE_THREADS"}  # what tests of servers set


def doctor(*flags, **env):
    run = subprocess.run([BIN, "doctor", "--json", "--port", "0", *map(str, flags)], capture_output=True, text=True, timeout=60,
                         check=False, env={**ENVIRONMENT, **env})
    page = json.loads(run.stdout)
    assert run.returncode == (1 if page["problems"] else 0), run.stderr
    for level, n in ("problem", page["problems"]), ("note", page["notes"]):
        assert [c["level"] for c in page["checks"]].count(level) == n
    for c in page["checks"]:
        assert ("remedy" in c) == (c["level"] != "ok") or c["name"] == "settings", c
    return {c["name"]: c for c in page["checks"]}


def machine(folder, changes=()):
    for path, text in {**GOOD, **dict(changes)}.items():
        if text is not None:
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return folder


def found(check, level, *words):
    assert check["level"] == level, check
    for w in words:
        assert w in check["text"] + " > " + check.get("remedy", ""), (w, check)


# ---- machines ----


def test_a_good_machine(tmp_path):
    checks = doctor("--root", machine(tmp_path))
    assert [c for c in checks.values() if c["level"] != "ok"] == []
    assert {"kernels", "threads", "frequency", "huge_pages", "swap", "numa", "clock", "models", "memory", "descriptors", "settings",
            "port", "access"} == set(checks)


@pytest.mark.parametrize("changes,flags,name,level,words", [
    ({"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n"}, [], "huge_pages", "note", ["off", "echo madvise >"]),
    ({"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n"}, [], "huge_pages", "ok", ["'always'"]),
    ({"sys/kernel/mm/transparent_hugepage/enabled": None}, [], "huge_pages", "note", ["has no"]),
    (GOVERNOR, [], "frequency", "note", ["'powersave'", "cpupower frequency-set -g performance"]),
    ({**GOVERNOR, **HINT}, [], "frequency", "ok", []),
    ({p: None for p in GOVERNOR}, [], "frequency", "ok", ["virtual"]),
    ({"proc/swaps": SWAPS}, [], "swap", "note", ["vm.swappiness 60", "sysctl vm.swappiness=1"]),
    ({"proc/swaps": SWAPS, "proc/sys/vm/swappiness": "1\n"}, [], "swap", "ok", []),
    ({**NODES, "proc/sys/kernel/numa_balancing": "1\n"}, [], "numa", "note", ["2 NUMA nodes", "sysctl kernel.numa_balancing=0"]),
    (NODES, [], "numa", "ok", ["2 NUMA nodes"]),
    ({"proc/sys/vm/overcommit_memory": "2\n"}, [], "overcommit", "note", ["sysctl vm.overcommit_memory=0"]),
    ({"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n"}, [], "clock", "note", ["'hpet'", "dmesg"]),
    ({"sys/fs/cgroup/system.slice/quire.service/cpu.max": "200000 100000\n"}, ["--threads", "4"], "threads", "problem",
     ["4 compute threads", "2 CPUs", "CPUQuota="]),
    ({"sys/fs/cgroup/system.slice/quire.service/cpu.max": "200000 100000\n"}, [], "threads", "ok", ["2 on 4", "quota"]),
    ({}, ["--threads", "9"], "threads", "note", ["9 compute threads on 4", "threads = 0 (here 4)"]),
    ({}, ["--isa", "scalar"], "kernels", "note", ["scalar", "isa = auto"]),
    ({"sys/fs/cgroup/system.slice/quire.service/memory.max": "536870912\n"}, [], "memory", "problem",
     ["control group grants 0.50", "killed", "quire plan"]),
    ({"sys/fs/cgroup/system.slice/memory.max": "536870912\n"}, [], "memory", "problem", ["control group grants 0.50"]),
    ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n"}, [], "memory", "problem", ["control group grants 0.50"]),
    ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, [], "memory", "ok", ["machine has 64.00"]),
    ({"sys/fs/cgroup/system.slice/quire.service/memory.max": "1342177280\n"}, [], "memory", "note", ["under load", "swap_ram"]),
    ({"proc/meminfo": "MemTotal:       1024 kB\nMemAvailable:   512 kB\n"}, [], "memory", "problem", ["the machine has 0.00"]),
    ({"proc/meminfo": "MemTotal:       8388608 kB\nMemAvailable:   512 kB\n"}, [], "memory", "note", ["free now"]),
    ({"proc/meminfo": "MemTotal:       1024 kB\nMemAvailable:   512 kB\n"}, ["--kv-memory", "1m"], "memory", "problem", []),
])
def test_machines(tmp_path, changes, flags, name, level, words):
    """What the table says differs from a good machine is found, and nothing else."""
    checks = doctor("--root", machine(tmp_path, changes), *flags)
    found(checks[name], level, *words)
    assert [n for n, c in checks.items() if c["level"] != "ok" and n != name] == []


def test_here():
    assert {"kernels", "memory", "access"} <= set(doctor())


def test_text():
    run = subprocess.run([BIN, "doctor", "--port", "0", "--isa", "scalar", "--model", "/no/\x1b[2J\nfile"], capture_output=True, text=True,
                         timeout=60, check=False)
    assert run.returncode == 1 and "\x1b" not in run.stdout
    lines = run.stdout.splitlines()
    assert any(line.startswith("note     kernels ") for line in lines) and any(line.strip() == "> isa = auto" for line in lines)
    assert any(line.startswith("problem  models ") for line in lines) and lines[-1].startswith("1 problems, ")
    assert "--root" in subprocess.run([BIN, "doctor", "--help"], capture_output=True, text=True, check=True).stdout
    assert subprocess.run([BIN, "doctor", "--fast"], capture_output=True, check=False).returncode == 2


# ---- models and files ----


def test_models(tmp_path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    for path, words in (tmp_path / "none.gguf", "cannot open"), (tmp_path / "broken.gguf", "broken.gguf"):
        found(doctor("--model", f"chat={path}")["models"], "problem", "the model 'chat'", words, "quire inspect")


def write(path, text, mode):
    path.write_text(text)
    path.chmod(mode)
    return path


def test_settings_file(tmp_path):
    for mode, level, words in (0o644, "ok", []), (0o666, "problem", ["chmod o-w"]):
        file = write(tmp_path / "quire.conf", "port = 0\n", mode)
        found(doctor("--config", file)["settings"], level, str(file), *words)
        found(doctor(QUIRE_CONFIG=str(file))["settings"], level, str(file), *words)


def test_keys(tmp_path):
    entry, _ = make_key("work")
    for text, mode, level, words in ((entry, 0o640, "ok", ["1 keys"]), (entry, 0o644, "note", ["chmod 640"]),
                                     (entry, 0o646, "problem", ["chmod o-w"]), ("[x]\nhash = 1\n", 0o600, "problem", ["quire key"])):
        found(doctor("--api-keys", write(tmp_path / "keys", text, mode))["api_keys"], level, *words)
    found(doctor("--api-keys", tmp_path / "none")["api_keys"], "problem", "cannot be read", "No such file")


def test_secrets(tmp_path):
    cert, key = make_certificate(tmp_path, "one")
    for mode, level, words in (0o600, "ok", []), (0o644, "problem", ["secret", "chmod 600"]):
        key.chmod(mode)
        found(doctor("--tls-certificate", cert, "--tls-key", key)["tls_key"], level, *words)
        password = write(tmp_path / "password", "x\n", mode)
        found(doctor("--kv-store", "redis://127.0.0.1:1", "--kv-store-password", password)["kv_store_password"], level, *words)


@pytest.mark.parametrize("flag,name", [("--kv-store", "kv_store"), ("--slot-save-path", "slot_save_path"), ("--weight-cache", "weight_cache")])
def test_folders(tmp_path, flag, name):
    def check(folder, *more):
        return doctor(flag, f"dir:{folder}" if flag == "--kv-store" else folder, *more)[name]

    found(check(tmp_path), "ok", str(tmp_path))
    found(check(tmp_path / "none"), "problem", "does not exist", "install -d")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    found(check(tmp_path / "open"), "problem", "every user may change", "chmod o-w")
    if flag == "--kv-store":
        found(check(tmp_path, "--kv-store-size", "16t"), "note", "may be written", "kv_store_size")


@pytest.mark.parametrize("flag,name", [("--models-dir", "models_dir"), ("--adapters-dir", "adapters_dir")])
def test_folders_that_are_read(tmp_path, flag, name):
    (tmp_path / "one.gguf").touch()
    found(doctor(flag, tmp_path)[name], "ok", str(tmp_path))
    if flag == "--adapters-dir":  # without its models there are no settings to look at
        found(doctor(flag, tmp_path / "none")[name], "problem", "cannot be read", "check the path")


@pytest.mark.parametrize("flags,name", [(["--requests-db"], "requests_db"), (["--usage-db"], "usage_db"), (["--responses-db"], "responses_db"),
                                        (["--log-file"], "log_file"), (["--journal"], "journal"), (["--unix-socket"], "unix_socket"),
                                        (["--swap-file-size", "1m", "--swap-file"], "swap_file")])
def test_files_that_are_made(tmp_path, flags, name):
    found(doctor(*flags, tmp_path / "file")[name], "ok", str(tmp_path))
    found(doctor(*flags, tmp_path / "none" / "file")[name], "problem", "does not exist", str(tmp_path / "none"))


@pytest.mark.parametrize("flag,file", [("--batch-dir", "batches.db"), ("--responses-db", ""), ("--usage-db", "")])
def test_a_damaged_database_is_kept(tmp_path, flag, file):
    value = tmp_path if file else tmp_path / "my.db"
    assert "damaged" not in doctor(flag, value)
    kept = write(tmp_path / f"{file or 'my.db'}.damaged", "x", 0o600)
    found(doctor(flag, value)["damaged"], "note", str(kept), "event=row_lost", f"{kept}-wal")


@pytest.mark.skipif(os.geteuid() != 0, reason="skip: only root can be another user")
def test_as_another_user():
    """What root may, the user of a service may not."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        binary = pathlib.Path(folder) / "quire"
        binary.write_bytes(pathlib.Path(BIN).read_bytes())
        binary.chmod(0o755)
        keys = write(pathlib.Path(folder) / "keys", make_key("work")[0], 0o600)
        run = subprocess.run([binary, "doctor", "--json", "--port", "0", "--api-keys", keys, "--slot-save-path", folder], user=65534, group=65534,
                             extra_groups=[], capture_output=True, text=True, timeout=60, check=False)
        checks = {c["name"]: c for c in json.loads(run.stdout)["checks"]}
        found(checks["api_keys"], "problem", "Permission denied", "user 65534")
        found(checks["slot_save_path"], "problem", "user 65534 may not write", "ReadWritePaths=")


# ---- the network ----


def test_port(tmp_path):
    """Taken: by another program a problem, by a server of ours none."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
        found(doctor("--root", machine(tmp_path), "--port", port)["port"], "problem", f"port {port} is used", f"ss -ltnp 'sport = :{port}'")
        found(doctor("--root", machine(tmp_path, {"proc/77/comm": "quire\n"}), "--port", port)["port"], "ok", "a Quire server is running")
    found(doctor("--port", port)["port"], "ok", "is free")
    found(doctor("--host", "192.0.2.1", "--api-keys", write(tmp_path / "keys", make_key("a")[0], 0o600))["port"], "problem",
          "cannot listen on 192.0.2.1", "ip address")
    assert "port" not in doctor("--host", "", "--unix-socket", tmp_path / "socket")


def test_access(tmp_path):
    keys = write(tmp_path / "keys", make_key("a")[0], 0o600)
    found(doctor("--host", "0.0.0.0")["access"], "problem", "everybody who can connect to 0.0.0.0", "quire key")
    for flags, words in ([], "only this machine"), (["--host", "0.0.0.0", "--insecure", "on"], "insecure"), (
            ["--host", "0.0.0.0", "--api-keys", keys], "needs a key"):
        found(doctor(*flags)["access"], "ok", words)


def make_dated(folder, name, begin, end):
    """A self-signed certificate that holds between two times, days from now, and its key: the flags."""
    cert, key, csr, config = (folder / f"{name}.{kind}" for kind in ("pem", "key", "csr", "cnf"))
    (folder / "index").write_text("")
    (folder / "serial").write_text("01")
    config.write_text(f"[ca]\ndefault_ca = x\n[x]\ndatabase = {folder}/index\nserial = {folder}/serial\nnew_certs_dir = {folder}\npolicy = p\n"
                      "default_md = sha256\n[p]\ncommonName = supplied\n")
    subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", csr,
                    "-subj", f"/CN={name}"], check=True, capture_output=True)
    dates = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + days * 86400 + 3600)) for days in (begin, end)]
    subprocess.run(["openssl", "ca", "-selfsign", "-batch", "-notext", "-config", config, "-keyfile", key, "-in", csr, "-out",
                    cert, "-startdate", dates[0], "-enddate", dates[1]], check=True, capture_output=True)
    return ["--tls-certificate", cert, "--tls-key", key]


def test_certificate(tmp_path):
    good = make_dated(tmp_path, "good", -1, 90)
    found(doctor(*good)["certificate"], "ok", "valid for 90 days")
    found(doctor(*make_dated(tmp_path, "soon", -1, 10))["certificate"], "note", "expires in 10 days", "SIGHUP")
    found(doctor(*make_dated(tmp_path, "over", -9, -3))["certificate"], "problem", "expired 2 days ago", "renew")
    found(doctor(*make_dated(tmp_path, "early", 3, 90))["certificate"], "problem", "becomes valid in 4 days")
    found(doctor(*good[:3], make_dated(tmp_path, "other", -1, 90)[3])["certificate"], "problem", "PEM")
    found(doctor("--tls-certificate", tmp_path / "none", "--tls-key", good[3])["certificate"], "problem", "none")
