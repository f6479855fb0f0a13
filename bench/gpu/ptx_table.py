#!/usr/bin/env python3
"""Shows what NVIDIA's assembler makes of an artifact's kernels.

    bench/gpu/ptx_table.py MODEL.heddle [--arch sm_80,sm_90,sm_100,sm_120]

Assembles program.ptx for each architecture with ptxas (from PATH, $CUDA_HOME/bin
or /usr/local/cuda/bin; no GPU is needed) and prints a table: registers, spilled
bytes, bytes of the stack, the grid, and how many accesses to global memory take
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("artifact", type=pathlib.Path)
    parser.add_argument("--arch", default="sm_80,sm_90,sm_100,sm_120")
    parser.add_argument("--quiet", action="store_true", help="only the last line")
    arguments = parser.parse_args()
    ptxas = find_ptxas()
    if not ptxas:
        sys.exit("no ptxas in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin")
    manifest = json.loads((arguments.artifact / "manifest.json").read_text())
    code = next((c for c in manifest["code"] if c["kind"] == "cuda"), None)
    if not code:
        sys.exit(f"{arguments.artifact} was not compiled with --target-gpu")
    ptx = arguments.artifact / code["ptx"]
    archs = arguments.arch.split(",")
    assembled = {arch: assemble(ptxas, ptx, arch) for arch in archs}
    accesses = count_accesses(ptx)
    spills = 0
    if not arguments.quiet:
        print(f"{'kernel':14}{'grid':>8}{'block':>6}{'shared':>8}{'16 B':>6}{'less':>6}"
              f"{'stack':>7}{'spills':>7}  registers on {', '.join(archs)}")
    for kernel in code["kernels"]:
        name = kernel["symbol"]
        per_arch = [assembled[arch][name] for arch in archs]
        spilled = max(spill for _, spill, _ in per_arch)
        spills += spilled > 0
        if not arguments.quiet:
            print(f"{name:14}{kernel['grid']:8}{kernel['block']:6}{kernel['shared_bytes']:8}"
                  f"{accesses[name]['wide']:6}{accesses[name]['narrow']:6}"
                  f"{max(stack for *_, stack in per_arch):7}{spilled:7}  "
                  + " ".join(str(registers) for registers, *_ in per_arch))
    total = sum(accesses.values(), collections.Counter())
    print(f"{len(code['kernels'])} kernels, accepted for {', '.join(archs)}; {spills} spill; "
          f"{total['wide']} accesses of 16 bytes, {total['narrow']} of less")
    return 1 if spills else 0


if __name__ == "__main__":
    sys.exit(main())
