#!/usr/bin/env python3
"""How long heddle plan takes for large models on many devices.

    bench/planner/scale.py HEDDLE CONFIGS [--case NAME ...]

The folder CONFIGS has Meta-Llama-3-8B.json and Llama-3.3-70B.json. Prints for each case
the seconds of the command, its peak memory, the planned step, and the gap to the lower
bound of all plans. The winner is not compiled whole (--estimate).
"""

import argparse
import json
import os
import pathlib
import subprocess
import time

CASES = {
    "8B on 64 A100": ["Meta-Llama-3-8B.json", "--seq", "4096", "--batch", "256",
                      "--cluster", "dgx-a100:8"],
    "70B on 512 H100": ["Llama-3.3-70B.json", "--seq", "4096", "--batch", "1024",
                        "--cluster", "dgx-h100:64"],
    "175B on 1,024 A100": ["--layers", "96", "--hidden", "12288", "--heads", "96",
                           "--vocab", "50257", "--seq", "2048", "--batch", "1536",
                           "--cluster", "dgx-a100:128"],
}


def run(command):
    """Runs a command. Returns its output, seconds, and peak memory in bytes."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit("failed: " + " ".join(command))
    return output, time.monotonic() - begin, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heddle")
    parser.add_argument("configs", type=pathlib.Path)
    parser.add_argument("--case", action="append", choices=CASES)
    options = parser.parse_args()
    print("| case | seconds | peak memory, GiB | step, s | gap, % | plan |")
    print("|---|---|---|---|---|---|")
    for name in options.case or CASES:
        words = [str(options.configs / word) if word.endswith(".json") else word
                 for word in CASES[name]]
        output, seconds, memory = run([options.heddle, "plan", *words, "--bf16",
                                       "--estimate", "--quiet", "--json"])
        plan = json.loads(output)
        gap = 100 * (1 - plan["bound"] / plan["seconds"])
        print("| %s | %.1f | %.2f | %.3f | %.1f | `%s` |" % (
            name, seconds, memory / 2**30, plan["seconds"], gap, plan["options"]), flush=True)


main()
