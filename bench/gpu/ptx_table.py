#!/usr/bin/env python3
"""Shows the machine code that NVIDIA's assembler makes of an artifact's kernels.

    bench/gpu/ptx_table.py [--arch sm_80,sm_90,sm_100,sm_120] [--multiprocessors 132]
                           MODEL.heddle|FILE.ptx|FOLDER ...

Assembles each program.ptx, and each *.ptx of a folder, for each architecture with ptxas
(from PATH, $CUDA_HOME/bin or /usr/local/cuda/bin; no GPU is needed). Prints a table of the
registers, spilled bytes, bytes of the stack, the grid, its blocks for each multiprocessor
(an H100 has 132, an A100 108), and the number of accesses to global memory that take
16 bytes. Ends with 1 if ptxas refuses a kernel or a kernel spills.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Blocks for each multiprocessor that hide latency.
LEAST_BLOCKS = 4


def find_ptxas():
    folders = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    places = [str(pathlib.Path(folder) / "bin") for folder in folders if folder]
    return shutil.which("ptxas") or shutil.which("ptxas", path=os.pathsep.join(places))


def assemble(ptxas, ptx, arch):
    """Returns {kernel: (registers, spilled bytes, stack bytes)}."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [ptxas, "-v", f"--gpu-name={arch}", str(ptx), "-o", f"{folder}/out"],
            capture_output=True,
            text=True,
        )
    if done.returncode != 0:
        sys.exit(f"ptxas refuses {ptx} for {arch}:\n{done.stdout}{done.stderr}")
    kernels, name = {}, None
    for line in done.stderr.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name = found[1]
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line):
            kernels[name] = (0, int(found[2]), int(found[1]))
        elif found := re.search(r"Used (\d+) registers", line):
            kernels[name] = (int(found[1]), *kernels.get(name, (0, 0, 0))[1:])
    return kernels


def count_accesses(ptx):
    """Returns {kernel: Counter of "wide" and "narrow" global accesses}, where
    narrow ones take less than 16 bytes."""
    counts, name = {}, None
    for line in ptx.read_text().splitlines():
        if found := re.search(r"\.entry (\w+)", line):
            name = found[1]
            counts[name] = collections.Counter()
        elif found := re.search(r"\b(ld|st)\.global(?:\.nc)?(?:\.(v\d))?\.[a-z](\d+)", line):
            size = int(found[3]) // 8 * int((found[2] or "v1")[1:])
            counts[name]["wide" if size >= 16 else "narrow"] += 1
    return counts


class Code:
    """The PTX of an artifact or of a file, with the known facts about its kernels."""

    def __init__(self, path):
        self.path, self.records = path, {}
        if path.suffix == ".ptx":
            return
        manifest = json.loads((path / "manifest.json").read_text())
        code = next((c for c in manifest["code"] if c["kind"] == "cuda"), None)
        if not code:
            sys.exit(f"{path} was not compiled with --target-gpu")
        self.path = path / code["ptx"]
        self.records = {kernel["symbol"]: kernel for kernel in code["kernels"]}


def find_code(paths):
    """Returns artifacts and files of PTX. A folder is replaced by its files."""
    for path in paths:
        if path.is_dir() and not (path / "manifest.json").exists():
            yield from sorted(path.glob("*.ptx"))
        else:
            yield path


def print_table(code, assembled, accesses, multiprocessors):
    print(f"{'kernel':14}{'grid':>8}{'per mp':>8}{'block':>6}{'shared':>8}{'16 B':>6}{'less':>6}"
          f"{'stack':>7}{'spills':>7}  registers on {', '.join(assembled)}")
    for name in code.records or accesses:
        record = code.records.get(name, {})
        per_arch = [kernels[name] for kernels in assembled.values()]
        per_mp = f"{record['grid'] / multiprocessors:.1f}" if record else ""
        print(f"{name:14}{record.get('grid', ''):8}{per_mp:>8}{record.get('block', ''):6}"
              f"{record.get('shared_bytes', ''):8}"
              f"{accesses[name]['wide']:6}{accesses[name]['narrow']:6}"
              f"{max(stack for *_, stack in per_arch):7}"
              f"{max(spill for _, spill, _ in per_arch):7}  "
              + " ".join(str(registers) for registers, *_ in per_arch))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("artifacts", type=pathlib.Path, nargs="+", metavar="ARTIFACT|FILE.ptx|FOLDER")
    parser.add_argument("--arch", default="sm_80,sm_90,sm_100,sm_120")
    parser.add_argument("--multiprocessors", type=int, default=132,
                        help="of the GPU, 132 by default (an H100)")
    parser.add_argument("--quiet", action="store_true", help="only the last line")
    arguments = parser.parse_args()
    ptxas = find_ptxas()
    if not ptxas:
        sys.exit("no ptxas in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin")
    archs = arguments.arch.split(",")
    kernels, spills, stacks, total = 0, [], 0, collections.Counter()
    grids, small = 0, 0
    for artifact in find_code(arguments.artifacts):
        code = Code(artifact)
        assembled = {arch: assemble(ptxas, code.path, arch) for arch in archs}
        accesses = count_accesses(code.path)
        if not arguments.quiet:
            print_table(code, assembled, accesses, arguments.multiprocessors)
        kernels += len(accesses)
        grids += len(code.records)
        small += sum(record["grid"] < LEAST_BLOCKS * arguments.multiprocessors
                     for record in code.records.values())
        total.update(sum(accesses.values(), collections.Counter()))
        for name in accesses:
            per_arch = [assembled[arch][name] for arch in archs]
            stacks += any(stack for *_, stack in per_arch)
            if any(spill for _, spill, _ in per_arch):
                spills.append(f"{code.path}: {name}")
    if not kernels:
        sys.exit("expected kernels, found none")
    for spill in spills:
        print(f"spills: {spill}")
    print(f"{kernels} kernels, accepted for {', '.join(archs)}; {len(spills)} spill; "
          f"{stacks} use a stack; "
          f"{total['wide']} accesses of 16 bytes, {total['narrow']} of less"
          + (f"; {small} have fewer than {LEAST_BLOCKS} blocks for each of "
             f"{arguments.multiprocessors} multiprocessors" if grids else ""))
    return 1 if spills else 0


if __name__ == "__main__":
    sys.exit(main())
