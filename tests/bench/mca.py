#!/usr/bin/env python3
"""What llvm-mca foretells of the inner loops of kernels, where a CPU is not at hand.

usage: mca.py [--bench BENCH_KERN] [--llvm FOLDER] [--run "EMULATOR FLAGS" --product BENCH_ONE_PRODUCT] OBJECTS...

OBJECTS are folders of vector kernels (build/vector, build/arm64/vector). Of each product's tile, and of attention's,
the innermost loop with the most multiplications is taken out of the object and given to llvm-mca for cores that have
its level: cycles of a tile (its rows x 16 lanes x 32 columns), multiply-accumulates (MAC) a cycle, and two shares of a
peak: of the bare instruction, and of a loop over registers that also makes floats of the sums and scales them, as
core/runtime/limits/peaks.h has it and bench_kern reports it. Types with minima have a third: their definition has one
more FMA for each sum, which that loop then has too: the limit of their own. And instructions for 16 MAC: of the loop
and, with --run, of a whole tile as QEMU counts them. What branches leave out or loop over beside the products
(prefetches) is left out; caches always have what is loaded. For this machine's own levels the share that bench_kern
measures stands beside it, with --bench: the difference is the method's error.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

MACS = {"sdot": 16, "usdot": 16, "usmmla": 32, "smull": 8, "smull2": 8, "smlal": 8, "smlal2": 8,
        "vpdpbusd": 4, "vpmaddubsw": 4, "vpmaddwd": 2}  # of x86: a lane of 32 bits
FLOATS = {"fmla": 4, "vfmadd": 1}
TYPES = ["q8_0", "q4_0", "q4_k"]
HAVE_MINIMA = {"q4_k"}
BRANCH = re.compile(r"(b|b\..*|cbn?z|tbn?z|j.*)$")


class Level:
    """Where a level's products are, for which cores, and the loops that are its peaks."""

    def __init__(self, name, cores, rows, symbol, group, attention=()):
        self.name, self.cores, self.rows = name, cores, rows
        self.symbol, self.group, self.attention = symbol, group, attention


def neon_group(steps, n=16):
    """Sums of a group of 32 columns: of each its products, then what makes a float of it and adds that, scaled. One
    after the other, so that a core that has pipes of its own for products has floats for the others meanwhile."""
    lines = []
    for j in range(n):
        lines += [step.format(j, j + 5, j + 10, j + 15) for step in steps]
        lines += [f"fsub v24.4s, v{j}.4s, v27.4s", "fmul v25.4s, v26.4s, v31.4s",
                  f"fmla v{20 + j % 4}.4s, v24.4s, v25.4s"]
    return lines


def x86_group(register, steps, flat=""):
    lines = [step.format(r=register, j=j) for step in steps for j in range(10)]
    for j in range(10):
        lines += [flat.format(r=register, j=j)] if flat else []
        lines += [f"vcvtdq2ps %{register}{j}, %{register}12", f"vmulps %{register}14, %{register}15, %{register}13",
                  f"vfmadd231ps %{register}12, %{register}13, %{register}{10 + j % 2}"]
    return lines


SMULL = ["smull v{0}.8h, v28.8b, v29.8b", "smull2 v{1}.8h, v28.16b, v29.16b"]
SMLAL = ["smlal v{0}.8h, v28.8b, v29.8b", "smlal2 v{1}.8h, v28.16b, v29.16b"]
SADDLP = ["saddlp v{2}.4s, v{0}.8h", "saddlp v{3}.4s, v{1}.8h"]
SADALP = ["sadalp v{2}.4s, v{0}.8h", "sadalp v{3}.4s, v{1}.8h"]
ADD_PAIRS = ["addp v{2}.4s, v{2}.4s, v{3}.4s", "add v{0}.4s, v{2}.4s, v30.4s"]
NARROW = ["vpmaddubsw %{r}14, %{r}15, %{r}13", "vpaddw %{r}13, %{r}{j}, %{r}{j}"]
WIDE = ["vpmaddwd %{r}14, %{r}15, %{r}13", "vpaddd %{r}13, %{r}{j}, %{r}{j}"]
VPMADDWD = "vpmaddwd %{r}{j}, %{r}15, %{r}{j}"
NEOVERSE = ["neoverse-n1", "neoverse-v1", "neoverse-v2"]
LEVELS = [
    Level("neon", ["cortex-a72", "neoverse-n1"], (1, 4, 6), "{type}_{rows}",
          {"q8_0": neon_group(SMULL + SMLAL + SADDLP + (SMULL + SMLAL + SADALP) * 3 + ADD_PAIRS, 5),
           "q4_0": neon_group(SMULL + SMLAL * 7 + SADDLP + ADD_PAIRS, 5)}, ("attn_f16", (1, 4, 6))),
    Level("dotprod", NEOVERSE, (1, 4, 8, 12), "{type}_{rows}",
          {"q8_0": neon_group(["sdot v{0}.4s, v28.16b, v29.4b[0]"] * 8)}, ("attn_q8", (1, 4, 5))),
    Level("i8mm", ["neoverse-v1", "neoverse-v2"], (1, 4, 8, 12), "{type}_{rows}",
          {"q8_0": neon_group(["usmmla v{0}.4s, v28.16b, v29.16b"] * 4)}),
    Level("avx512", ["native"], (1, 4, 8, 16), "{type}_{rows}",
          {"q8_0": x86_group("zmm", ["vpdpbusd %{r}14, %{r}15, %{r}{j}"] * 8)}, ("attn_q8", (1, 4, 8))),
    Level("avxvnni", ["native"], (1, 4, 6), "{type}_{rows}",
          {"q8_0": x86_group("ymm", ["vpdpbusd %{r}14, %{r}15, %{r}{j}"] * 8)}),
    Level("avx2", ["native"], (1, 4), "{type}_packed_{rows}",
          {"q8_0": x86_group("ymm", WIDE * 16), "q4_0": x86_group("ymm", NARROW * 8, VPMADDWD)}),
]


def with_minima(group):
    """The same loop with a second FMA of each sum's."""
    lines = []
    for line in group:
        lines += [line]
        if line.startswith("fmla"):
            lines += [re.sub(r", .*", ", v30.4s, v31.4s", line)]
        if line.startswith("vfmadd231ps"):
            r = line.split("%")[1][0]
            lines += [f"vfmadd231ps %{r}mm14, %{r}mm15, {line.split(', ')[-1]}"]
    return lines


def macs(instruction, floats=False):
    """Of a loop's instruction."""
    name, operands = instruction[1], instruction[2]
    table = FLOATS if floats else MACS
    per = table.get(name) or next((n for key, n in table.items() if key[0] == "v" and name.startswith(key)), 0)
    lanes = 1 if name[0] != "v" else 16 if "zmm" in operands else 8 if "ymm" in operands else 4
    return per * lanes


def work(code, floats=False):
    """Of all instructions; where products are added in 16 bits, vpmaddwd only adds them in 32."""
    is_narrow = any(i[1] == "vpmaddubsw" for i in code)
    return sum(macs(i, floats) for i in code if not (is_narrow and i[1] == "vpmaddwd"))


def disassemble(llvm, obj, symbol):
    """(address, name, operands) of a function's instructions."""
    out = subprocess.run([llvm / "llvm-objdump", "-d", "--no-show-raw-insn", f"--disassemble-symbols={symbol}", obj],
                         capture_output=True, text=True, check=True).stdout
    lines = (re.match(r"\s*([0-9a-f]+):\s+(?:{vex}\s+)?(\S+)\s*(.*)", line) for line in out.splitlines())
    return [(int(m[1], 16), m[2], re.sub(r"\s*(//|<|# ).*", "", m[3])) for m in lines if m]


def loops(code):
    """(first, last) addresses, by branches that go back."""
    for at, name, operands in code:
        to = re.search(r"0x([0-9a-f]+)$", operands)
        if BRANCH.match(name) and to and code[0][0] <= int(to[1], 16) <= at:
            yield int(to[1], 16), at


def hot_loop(code, floats=False):
    """The body of the innermost loop with the most products, without loops in it that have none."""
    def work_of(loop):
        return work([i for i in code if loop[0] <= i[0] <= loop[1]], floats)

    def within(a, b):
        return a != b and b[0] <= a[0] and a[1] <= b[1]

    every = list(loops(code))
    busy = [loop for loop in every if work_of(loop)]
    inner = [loop for loop in busy if not any(within(other, loop) for other in busy)]
    best = max(inner, key=work_of)
    idle = [loop for loop in every if within(loop, best) and not work_of(loop)]
    return [i for i in code if best[0] <= i[0] <= best[1] and not any(a <= i[0] <= b for a, b in idle)]


def cycles_of(llvm, core, is_arm, lines, turns):
    target = ["-mtriple=aarch64", "-mattr=+dotprod,+i8mm"] if is_arm else ["-mtriple=x86_64"]
    run = subprocess.run([llvm / "llvm-mca", *target, f"-mcpu={core}", f"-iterations={turns}", "--instruction-info=0",
                          "--resource-pressure=0"], input="\n".join(lines), capture_output=True, text=True)
    found = re.search(r"Total Cycles:\s+(\d+)", run.stdout)
    if not found:
        sys.exit(f"mca.py: llvm-mca for {core}: {run.stderr[:400]}")
    return int(found[1])


def cycles(llvm, core, is_arm, lines):
    """Of one turn of many: without what the first waits for and the last leaves."""
    few, many = (cycles_of(llvm, core, is_arm, lines, turns) for turns in (100, 300))
    return (many - few) / 200


def text(body):
    """What llvm-mca takes: no branches, no addresses of constants."""
    return [f"{name} {operands}" for _, name, operands in body if not BRANCH.match(name) and name not in ("adrp", "nop")
            and not name.startswith("nop")]


def rate_of(llvm, core, is_arm, lines):
    """MAC a cycle of a loop over registers."""
    return work([(0, *line.split(None, 1)) for line in lines]) / cycles(llvm, core, is_arm, lines)


def bare_of(group):
    """The products of a peak's loop alone."""
    return [line for line in group if work([(0, *line.split(None, 1))])]


def measured(bench, level):
    """(type, rows) -> share of the peak in percent, of the largest of bench_kern's shapes."""
    if not bench:
        return {}
    names = ["gemm_" + t for t in TYPES]
    out = subprocess.run([bench, "--quick", "--threads", "1", "--isa", level, *names],
                         capture_output=True, text=True).stdout
    shares, heads = {}, []
    for line in out.splitlines():
        heads = re.findall(r"m=(\d+)", line) or heads
        kind = re.match(r"(\w+)\s+\d+ x ", line)
        values = re.findall(r"(\d+)%", line)
        if kind and kind[1].lower() in TYPES:
            for rows, share in zip(heads, values):
                shares[kind[1].lower(), int(rows)] = int(share)
    return shares


class Counter:
    """Instructions of tiles, by an emulator's log of the blocks that it runs and of the instructions in them."""

    def __init__(self, llvm, run, program):
        self.run, self.program = run.split(), program
        named = subprocess.run([llvm / "llvm-nm", "--print-size", "--defined-only", program], capture_output=True, text=True,
                               check=True).stdout
        self.places = [line.split() for line in named.splitlines() if len(line.split()) == 4]
        at, = [int(p[0], 16) for p in self.places if p[3] == "main"]
        lanes, columns, main_at = self.product([], "scalar", "q8_0", 1).split()
        self.n, self.base = int(lanes) * int(columns), int(main_at, 16) - at

    def product(self, flags, *args):
        command = [self.run[0], *flags, *self.run[1:], self.program, *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def count(self, level, kind, rows):
        """Of one MAC, in the tile's function."""
        ranges = ",".join(f"{int(p[0], 16) + self.base:#x}+{int(p[1], 16):#x}" for p in self.places
                          if p[3] == f"{kind}_{rows}")
        with tempfile.NamedTemporaryFile("r") as log:
            self.product(["-d", "in_asm,exec,nochain", "-dfilter", ranges, "-D", log.name], level, kind, rows)
            return self.executed(log) / (self.n * rows)

    @staticmethod
    def executed(log):
        """Blocks are listed when they are translated, and named when they run."""
        lengths, block, total = {}, None, 0
        for line in log:
            place = re.match(r"(0x[0-9a-f]+):", line)
            ran = re.match(r"Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/", line)
            if line.startswith("IN:"):
                block = None
            if place and block is None:
                block = int(place[1], 16)
                lengths[block] = 0
            if place:
                lengths[block] += 1
            if ran:
                total += lengths[int(ran[1], 16)]
        return total


class Report:
    """One table for each level and core."""

    def __init__(self, llvm, folders, bench, counter):
        self.llvm, self.folders, self.bench, self.counter = llvm, folders, bench, counter

    def find(self, folder, stem):
        found = [p for f in self.folders for p in sorted((f / "kernels" / folder).glob(stem + ".o"))]
        return found[0] if found else None

    def products(self, level, core, obj, is_arm, shares):
        peaks = {}
        for kind in TYPES:
            group = level.group.get("q8_0" if kind == "q8_0" else "q4_0", level.group["q8_0"])
            loops_of = [bare_of(group), group] + ([with_minima(group)] if kind in HAVE_MINIMA else [])
            peaks[kind] = [rate_of(self.llvm, core, is_arm, loop) for loop in loops_of]
        for kind in TYPES:
            bare, peak, *own = peaks[kind]
            for rows in level.rows:
                body = hot_loop(disassemble(self.llvm, obj, level.symbol.format(type=kind, rows=rows)))
                turns = rows * 16 * 32 / work(body)
                tile = cycles(self.llvm, core, is_arm, text(body)) * turns
                rate = rows * 16 * 32 / tile
                beside = f"  {shares[kind, rows]:3}% measured" if (kind, rows) in shares else ""
                beside += f"  {16 * len(text(body)) / work(body):.2f} instructions for 16 MAC"
                if is_arm and self.counter:
                    beside += f", {16 * self.counter.count(level.name, kind, rows):.2f} counted"
                print(f"  {kind:8} {rows:3} rows {tile:8.1f} cycles {rate:7.1f} MAC/cycle"
                      f" {100 * rate / bare:4.0f}% bare {100 * rate / peak:4.0f}% of the peak"
                      + "".join(f" {100 * rate / limit:4.0f}% with minima" for limit in own) + beside)

    def attention(self, level, core, is_arm):
        stem, tiles = level.attention
        floats = stem == "attn_f16"
        obj = self.find("attention", f"{stem}_{level.name}")
        for part in ("score", "value"):
            for rows in tiles if obj else ():
                body = hot_loop(disassemble(self.llvm, obj, f"{part}_{rows}"), floats)
                n, took = work(body, floats), cycles(self.llvm, core, is_arm, text(body))
                print(f"  {stem} {part} {rows:3} queries {took:8.1f} cycles a turn {n / took:7.1f} MAC/cycle")

    def print(self):
        for level in LEVELS:
            obj = self.find("gemm", f"gemm_q_{level.name}")
            if not obj:
                continue
            is_arm = "fmla" in level.group["q8_0"][-1]
            shares = {} if is_arm else measured(self.bench, level.name)
            for core in level.cores:
                group = level.group["q8_0"]
                print(f"{level.name} on {core}: bare {rate_of(self.llvm, core, is_arm, bare_of(group)):.1f} MAC/cycle,"
                      f" with a group's floats {rate_of(self.llvm, core, is_arm, group):.1f}")
                self.products(level, core, obj, is_arm, shares)
                if level.attention:
                    self.attention(level, core, is_arm)


def newest_llvm():
    """Where Debian has the newest llvm-mca: cores come with versions."""
    found = sorted(pathlib.Path("/usr/lib").glob("llvm-*/bin/llvm-mca"), key=lambda p: int(p.parts[3].split("-")[1]))
    return found[-1].parent if found else sys.exit("mca.py: no llvm-mca; apt-get install llvm-19")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--bench")
    parser.add_argument("--llvm", type=pathlib.Path)
    parser.add_argument("objects", nargs="+", type=pathlib.Path)
    parser.add_argument("--run")
    parser.add_argument("--product", type=pathlib.Path)
    args = parser.parse_args()
    llvm = args.llvm or newest_llvm()
    Report(llvm, args.objects, args.bench, Counter(llvm, args.run, args.product) if args.run else None).print()


main()
