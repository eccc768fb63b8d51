"""What the binary has against the consequences of a bug, read from its headers (a checksec list)."""
import re
import shutil
import subprocess

import pytest

from quire import BIN, DEBUG_BIN

pytestmark = pytest.mark.skipif(not shutil.which("readelf"), reason="skip: no readelf (package binutils)")


def readelf(*args):
    return subprocess.run(["readelf", "-W", *args], capture_output=True, text=True, check=True).stdout


def machine_code(binary, symbol, n):
    """The first bytes of a function."""
    m = re.search(rf" +\d+: ([0-9a-f]+) +\d+ FUNC .* {symbol}$", readelf("-s", binary), re.M)
    at = int(m[1], 16)
    for line in readelf("-l", binary).splitlines():
        f = line.split()
        if f and f[0] == "LOAD" and int(f[2], 16) <= at < int(f[2], 16) + int(f[4], 16):
            with open(binary, "rb") as file:
                file.seek(int(f[1], 16) + at - int(f[2], 16))
                return file.read(n)
    raise AssertionError(f"{symbol} is in no segment")


def features(binary):
    headers, dynamic, symbols = readelf("-h", "-l", binary), readelf("-d", binary), readelf("-s", "--dyn-syms", binary)
    flags = [line.split()[6:-1] for line in headers.splitlines() if line.split()[:1] == ["LOAD"]]
    return {
        "PIE": "DYN (" in headers and "PIE" in dynamic,
        "NX stack": bool(re.search(r"GNU_STACK .* RW +0x", headers)),
        "RELRO": "GNU_RELRO" in headers,
        "BIND_NOW": "BIND_NOW" in dynamic,
        "stack canary": "__stack_chk_fail@" in symbols,
        "fortified functions": len(set(re.findall(r" __\w+_chk@", symbols))),
        "landing pads (CET)": machine_code(binary, "cmd_serve", 4) == b"\xf3\x0f\x1e\xfa",
        "no RPATH": "RPATH" not in dynamic and "RUNPATH" not in dynamic,
        "no text relocations": "TEXTREL" not in dynamic,
        "no writable and executable segment": all(not ("W" in "".join(f) and "E" in "".join(f)) for f in flags) and flags,
        # The property of the whole file needs it of the C library's start files as well.
        "CET note of the file (not required)": "IBT" in readelf("-n", binary),
    }


@pytest.mark.parametrize("binary", [BIN, DEBUG_BIN])
def test_hardening(binary):
    if "__asan" in readelf("-s", binary) or "__tsan" in readelf("-s", binary):
        pytest.skip("skip: a sanitizer's build has checks of its own")
    found = features(binary)
    print(f"\n{binary}")
    for name, has in found.items():
        print(f"  {name:38} {has if isinstance(has, int) and not isinstance(has, bool) else 'yes' if has else 'no'}")
    missing = [name for name, has in found.items() if not has and "not required" not in name]
    assert not missing, missing
    assert found["fortified functions"] >= 4
