#!/usr/bin/env python3
"""Packs the files with which bench/gpu/stages.py runs on a machine without the compiler.

    bench/gpu/bundle.py [--build build] [-o gpu-bundle.tar.xz] [--emulated] [--cases one,bf16]

Compiles GPT-2 124M, 355M and 1558M for a GPU. Compiles the small models of the
numerics matrix for a GPU and for this CPU, and trains them on the CPU. The archive
contains the package of tools/package, the artifacts for the GPU, the CPU's losses and
the scripts. With --emulated, the archive contains only the small models, with kernels
for the emulated GPU, so that stages.py can be rehearsed on this machine. An archive of
more than 64 MiB is an error.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 64 << 20
STEPS = 4

# For each size of GPT-2: layers, hidden size, heads, and rows of 1024 tokens in a batch.
LARGE = {"124M": (12, 768, 12, 8), "1558M": (48, 1600, 25, 4), "355M": (24, 1024, 16, 8)}
SMALL = ["--layers", "2", "--hidden", "64", "--heads", "4", "--vocab", "256",
         "--seq", "32", "--batch", "8", "--no-dropout"]
# The emulated GPU is slow.
EMULATED = ["--layers", "1", "--hidden", "32", "--heads", "4", "--vocab", "256",
            "--seq", "16", "--batch", "4", "--no-dropout"]
# The numerics matrix. For each case: options of `heddle compile`, and the bound on the
# relative error of a loss.
MATRIX = {
    "one": ([], 1e-5),
    "bf16": (["--bf16"], 5e-3),
    "tp4": (["--mesh", "tp=4"], 1e-5),
    "dp2xtp2": (["--mesh", "dp=2,tp=2"], 1e-5),
    "sequence": (["--mesh", "tp=2", "--sequence"], 1e-5),
    "context": (["--mesh", "cp=2"], 1e-5),
    "zero1": (["--mesh", "dp=2", "--zero", "1"], 1e-5),
    "zero2": (["--mesh", "dp=2", "--zero", "2"], 1e-5),
    "zero3": (["--mesh", "dp=2", "--zero", "3"], 1e-5),
}


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def train_on_cpu(build, folder, model, options, data):
    """Returns the losses of the program for this CPU."""
    heddle, artifact = build / "bin/heddle", folder / "cpu.heddle"
    run(heddle, "compile", *model, *options, "-o", artifact)
    output = run(build / "bin/heddle-run", "train", artifact, "--data", data, "--steps",
                 STEPS, "--no-checkpoints", "--json", "-o", folder / "run")
    shutil.rmtree(artifact)
    return [json.loads(line)["loss"] for line in output.splitlines() if '"loss"' in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("gpu-bundle.tar.xz"))
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--cases", default=",".join(MATRIX),
                        help="small models to pack (default: all)")
    args = parser.parse_args()
    cases = {case: MATRIX[case] for case in args.cases.split(",")}
    model = EMULATED if args.emulated else SMALL
    heddle = args.build / "bin/heddle"
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        bundle = scratch / "gpu-bundle"
        (bundle / "small").mkdir(parents=True)
        for script in ("bench/gpu/stages.py", "bench/gpu/gpu_machine.py",
                       "bench/training/compare_gpu.py"):
            shutil.copy(ROOT / script, bundle)
        data = bundle / "text.txt"
        shutil.copy(ROOT / "README.md", data)
        index = {"steps": STEPS, "small": {}, "large": {}}
        expected = {bf16: train_on_cpu(args.build, scratch, model,
                                       ["--bf16"] if bf16 else [], data)
                    for bf16 in {"--bf16" in options for options, _ in cases.values()}}
        for case, (options, bound) in cases.items():
            artifact = bundle / "small" / f"{case}.heddle"
            compile_small = [heddle, "compile", *model, *options, "--target-gpu", "sm_80"]
            if args.emulated:
                module = bundle / "small" / f"{case}.mlir"
                run(*compile_small, "--stop-after", "llvm", "-o", module)
                run(heddle, "compile", module, "-o", artifact)
            else:
                run(*compile_small, "-o", artifact)
            index["small"][case] = {"bound": bound, "losses": expected["--bf16" in options]}
        if not args.emulated:
            run(ROOT / "tools/package", "--without-onednn", bundle / "heddle-run.tar.xz")
            for label, (layers, hidden, heads, batch) in LARGE.items():
                artifact = bundle / f"gpt2-{label}.heddle"
                run(heddle, "compile", "--layers", layers, "--hidden", hidden, "--heads",
                    heads, "--vocab", 50257, "--seq", 1024, "--batch", batch, "--bf16",
                    "--no-dropout", "--target-gpu", "sm_80", "-o", artifact)
                index["large"][label] = artifact.name
        (bundle / "index.json").write_text(json.dumps(index, indent=1))
        run("tar", "-C", scratch, "-cJf", args.output, bundle.name)
    size = args.output.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"expected at most {MOST_BYTES} bytes, got {size}: {args.output}")
    print(f"{args.output}: {size} bytes")


if __name__ == "__main__":
    main()
