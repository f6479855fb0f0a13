#!/usr/bin/env python3
"""Runs all checks and measurements of a GPU machine, in stages that can be resumed.

    python3 stages.py [--results results] [--only STAGE] [--dry-run]

This script is part of the folder that bench/gpu/bundle.py packs. Each stage takes at
most ten minutes and writes results/STAGE.json when it is done. A further run executes
the stages that are missing or failed. The most valuable stages come first: a description
of the machine; the small models on one rank; GPT-2 124M, 1558M and 355M beside PyTorch;
each kernel of these models alone; several ranks on the GPU. Without a GPU the script prints an error, measures nothing and
ends with 3. With --dry-run, it runs the numerics on the emulated GPU, and only lists the
stages that need a GPU. This needs a bundle of `bundle.py --emulated` and
HEDDLE_RT_CUDA_PATH.

NVIDIA's libraries are those of HEDDLE_RT_CUDA_PATH. Without it, they are those of the
wheels of the Python that runs this script, which need not be activated.
"""

import argparse
import ctypes
import glob
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

from gpu_machine import find_gpu, make_environment, run_nvidia_smi

HERE = pathlib.Path(__file__).resolve().parent
MOST_SECONDS = 600
NO_GPU = 3


class Failed(Exception):
    """A check of a stage failed. The result is what the stage found out nevertheless."""

    def __init__(self, message, result=None):
        super().__init__(message)
        self.result = result


class Machine:
    def __init__(self, args):
        self.dry, self.results = args.dry_run, args.results
        self.index = json.loads((HERE / "index.json").read_text())
        self.heddle_run = args.heddle_run

    def unpack(self):
        """Returns heddle-run, unpacked from the package at the first call."""
        if not self.heddle_run:
            program = self.results / "heddle/heddle-run"
            if not program.exists():
                subprocess.run(["tar", "-C", self.results, "-xJf",
                                HERE / "heddle-run.tar.xz"], check=True)
            self.heddle_run = str(program)
        return self.heddle_run


def read_device_properties():
    """Returns cuDNN's JSON of the device, with which plans can be made elsewhere."""
    # The order in which heddle-run looks for it.
    folders = os.environ.get("HEDDLE_RT_CUDA_PATH", "").split(":")
    names = [os.path.join(folder, "libcudnn.so.9") for folder in folders if folder]
    names += ["libcudnn.so.9"] + sorted(glob.glob("/usr/local/cuda*/lib*/libcudnn.so.9"))
    for name in names:
        try:
            library = ctypes.CDLL(name)
            create = library.cudnnCreate
            break
        except (OSError, AttributeError):
            continue
    else:
        raise Failed(f"cuDNN was not found, sought as {', '.join(names)}")
    # cudnn_graph_v9.h: CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR and its attributes.
    descriptor_kind, handle_attribute, json_attribute = 38, 2701, 2702
    type_handle, type_char = 0, 24
    handle, descriptor = ctypes.c_void_p(), ctypes.c_void_p()
    text, count = ctypes.create_string_buffer(1 << 14), ctypes.c_int64()
    for status in (
            lambda: create(ctypes.byref(handle)),
            lambda: library.cudnnBackendCreateDescriptor(descriptor_kind,
                                                         ctypes.byref(descriptor)),
            lambda: library.cudnnBackendSetAttribute(
                descriptor, handle_attribute, type_handle, ctypes.c_int64(1),
                ctypes.byref(handle)),
            lambda: library.cudnnBackendFinalize(descriptor),
            lambda: library.cudnnBackendGetAttribute(
                descriptor, json_attribute, type_char, ctypes.c_int64(len(text)),
                ctypes.byref(count), text)):
        result = status()
        if result:
            raise Failed(f"{name}: cuDNN answered {result}")
    try:
        return json.loads(text.value.decode())
    except ValueError as error:
        raise Failed(f"{name}: expected the GPU's properties as JSON, got "
                     f"{text.value!r}") from error


def describe_machine(machine):
    """Describes the GPU, its driver and the host, with cuDNN's properties of the GPU."""
    query = "name,driver_version,compute_cap,memory.total,clocks.max.sm,clocks.max.mem"
    answer = run_nvidia_smi("-i", find_gpu(), f"--query-gpu={query}", "--format=csv") or ""
    result = {"nvidia-smi": answer.splitlines(), "host": platform.platform(),
              "libraries": os.environ.get("HEDDLE_RT_CUDA_PATH")}
    try:
        return {**result, "cudnn": read_device_properties()}
    except Failed as error:
        raise Failed(str(error), result) from error


def train(machine, case):
    """Trains a small model; returns its losses."""
    environment = dict(os.environ)
    if machine.dry:
        environment["HEDDLE_EMULATED_GPU_MODULE"] = str(HERE / f"small/{case}.mlir")
    done = subprocess.run(
        [machine.unpack(), "train", str(HERE / f"small/{case}.heddle"), "--data",
         str(HERE / "text.txt"), "--steps", str(machine.index["steps"]),
         "--no-checkpoints", "--json", "-o", str(machine.results / "run")],
        capture_output=True, text=True, env=environment)
    if done.returncode:
        raise Failed(f"{case}: {done.stderr.strip()[-2000:]}")
    return [json.loads(line)["loss"] for line in done.stdout.splitlines() if '"loss"' in line]


def check_matrix(machine, cases):
    """Checks that losses are within the bound of the CPU's, and equal in two runs."""
    report = {}
    for case in cases:
        known = machine.index["small"][case]
        losses, again = train(machine, case), train(machine, case)
        if len(losses) != len(known["losses"]):
            raise Failed(f"{case}: expected {len(known['losses'])} losses, got {losses}")
        error = max(abs(a - b) / abs(b) for a, b in zip(losses, known["losses"]))
        report[case] = {"error": error, "bound": known["bound"], "same_bits": losses == again}
        if error > known["bound"] or losses != again:
            raise Failed(f"{case}: {report[case]}")
    return report


def compare(machine, model):
    """Measures tokens a second, MFU and memory beside PyTorch."""
    output = machine.results / f"compare-{model}.raw.json"
    done = subprocess.run(
        [sys.executable, str(HERE / "compare_gpu.py"),
         str(HERE / machine.index["large"][model]), "--heddle-run", machine.unpack(),
         "--json", str(output)], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{model}: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    return json.loads(output.read_text())


def time_kernels(machine):
    """Measures each kernel of the models alone, against a copy of the bytes that it must
    read and write. Counts those that take more than 1.2 times as long."""
    models = {model: HERE / name for model, name in machine.index["large"].items()}
    if machine.dry:
        models = {case: HERE / f"small/{case}.heddle" for case in machine.index["small"]
                  if case in ONE_RANK}
    report = {}
    for model, artifact in models.items():
        environment = dict(os.environ)
        if machine.dry:
            environment["HEDDLE_EMULATED_GPU_MODULE"] = str(artifact.with_suffix(".mlir"))
        done = subprocess.run([machine.unpack(), "time-kernels", str(artifact), "--json"],
                              capture_output=True, text=True, env=environment)
        if done.returncode:
            raise Failed(f"{model}: {done.stderr.strip()[-2000:]}", report)
        times = json.loads(done.stdout)
        ratios = [kernel["ratio"] for kernel in times["kernels"] if "ratio" in kernel]
        report[model] = {"kernels": len(times["kernels"]), "with_ratio": len(ratios),
                         "above_1.2": sum(ratio > 1.2 for ratio in ratios), "times": times}
    return report


# Each stage has a name, a flag (a rehearsal runs the stage) and a function. The most
# valuable stages come first.
ONE_RANK = ["one", "bf16"]
STAGES = [
    ("machine", False, describe_machine),
    ("one-rank", True, lambda m: check_matrix(m, [c for c in m.index["small"] if c in ONE_RANK])),
    ("compare-124M", False, lambda m: compare(m, "124M")),
    ("compare-1558M", False, lambda m: compare(m, "1558M")),
    ("compare-355M", False, lambda m: compare(m, "355M")),
    ("kernels", True, time_kernels),
    ("ranks", True, lambda m: check_matrix(m, [c for c in m.index["small"] if c not in ONE_RANK])),
]


def run_in_time(args, stage):
    """Runs a stage in a process of its own, which ends after ten minutes."""
    command = [sys.executable, __file__, "--results", str(args.results), "--inside", stage]
    command += ["--dry-run"] if args.dry_run else []
    command += ["--heddle-run", args.heddle_run] if args.heddle_run else []
    child = subprocess.Popen(command, start_new_session=True, env=make_environment())
    try:
        return child.wait(MOST_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)
        child.wait()
        write(args.results, stage, {"done": False, "error": f"longer than {MOST_SECONDS} s"})
        return 1


def write(results, stage, report):
    part = results / f"{stage}.json.part"
    part.write_text(json.dumps(report, indent=1))
    part.replace(results / f"{stage}.json")


def run_inside(args, stage):
    start = time.time()
    report = {"done": True, "dry_run": args.dry_run}
    try:
        report["result"] = next(run for name, _, run in STAGES if name == stage)(Machine(args))
    except (Failed, OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        report.update(done=False, error=f"{type(error).__name__}: {error}",
                      result=getattr(error, "result", None))
    report["seconds"] = round(time.time() - start, 1)
    write(args.results, stage, report)
    return 0 if report["done"] else 1


def is_done(results, stage):
    try:
        return json.loads((results / f"{stage}.json").read_text())["done"]
    except (OSError, ValueError, KeyError):
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "results")
    parser.add_argument("--heddle-run", help="instead of the package's")
    parser.add_argument("--only", choices=[name for name, *_ in STAGES])
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.results = args.results.resolve()
    args.results.mkdir(parents=True, exist_ok=True)
    if args.inside:
        return run_inside(args, args.inside)
    if not args.dry_run and not find_gpu():
        print("no GPU at hand (nvidia-smi shows none that CUDA_VISIBLE_DEVICES chooses): nothing was run", file=sys.stderr)
        return NO_GPU
    failures = 0
    for stage, rehearses, _ in STAGES:
        if args.only and stage != args.only:
            continue
        if args.dry_run and not rehearses:
            print(f"{stage}: needs a GPU, not run")
        elif is_done(args.results, stage):
            print(f"{stage}: done before")
        else:
            print(f"{stage}: ", end="", flush=True)
            failed = run_in_time(args, stage)
            failures += failed != 0
            report = json.loads((args.results / f"{stage}.json").read_text())
            print(report.get("error") or f"done in {report['seconds']} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
