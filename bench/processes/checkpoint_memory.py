#!/usr/bin/env python3
"""Measures the memory of four processes while they save a state of 1 GiB.

    bench/processes/checkpoint_memory.py [--heddle build/bin/heddle]
                                         [--heddle-run build/bin/heddle-run]

Trains two steps of a GPT with ZeRO-3 over four processes and saves a checkpoint
after the second. Prints for each process the memory that it has before the save,
the most that it has during the save, and the difference, which should be below
64 MiB. Ends with 1 if it is not.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

PROCESSES, LIMIT = 4, 64 * 1024  # KiB
# The model has 89 million parameters. Each takes 12 bytes, with the optimizer's state.
MODEL = ["--layers", "12", "--hidden", "768", "--heads", "12", "--vocab", "4096",
         "--seq", "32", "--batch", "4", "--mesh", f"dp={PROCESSES}", "--zero", "3"]


def status_of(pid, name):
    """Returns a number of KiB of /proc/PID/status; 0 if the process is over."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in text.splitlines()
                 if line.startswith(name + ":")), 0)


def watch(launcher, checkpoints):
    """Returns {pid: (KiB before the save, most KiB during it)}."""
    before, during = {}, {}
    children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    while launcher.poll() is None:
        saving = any(checkpoints.glob(".step-*"))
        try:
            pids = children.read_text().split()
        except FileNotFoundError:
            break
        for pid in pids:
            resident = status_of(pid, "VmRSS")
            if not saving and pid not in during:
                before[pid] = resident
            elif saving:
                during[pid] = max(during.get(pid, 0), resident)
        time.sleep(0.001)
    return {pid: (before.get(pid, 0), most) for pid, most in during.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--heddle-run", default="build/bin/heddle-run")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        artifact, text = folder / "model.heddle", folder / "text"
        text.write_bytes(bytes((7 * i * i + i) % 251 for i in range(40000)))
        subprocess.run([args.heddle, "compile", *MODEL, "-o", artifact], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        launcher = subprocess.Popen(
            [args.heddle_run, "launch", "-n", str(PROCESSES), "--",
             args.heddle_run, "train", artifact, "--data", text, "--cores", "1",
             "--steps", "2", "--checkpoint-every", "2", "--eval-every", "0",
             "--eval-windows", "1", "-o", folder / "run"],
            stdout=subprocess.DEVNULL)
        seen = watch(launcher, folder / "run" / "checkpoints")
        if launcher.wait() != 0:
            sys.exit("the training failed")
        files = list((folder / "run" / "checkpoints").glob("step-*/*.safetensors"))
        state = sum(file.stat().st_size for file in files)
        print(f"a state of {state / 2**30:.2f} GiB in {len(files)} files")
    print(f"{'before the save':>16}{'most':>8}{'more':>8}   MiB")
    for before, most in seen.values():
        print(f"{before / 1024:16.0f}{most / 1024:8.0f}{(most - before) / 1024:8.1f}")
    if len(seen) != PROCESSES:
        sys.exit(f"expected {PROCESSES} processes that save, saw {len(seen)}")
    if any(most - before > LIMIT for before, most in seen.values()):
        sys.exit("a process took more than 64 MiB for the save")


if __name__ == "__main__":
    main()
