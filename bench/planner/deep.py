#!/usr/bin/env python3
"""Compares the planner's choice for deep models with the choices of pinned searches.

    bench/planner/deep.py HEDDLE CONFIGS [--case NAME ...] [--count N]

Nobody can simulate all plans of a deep model. So the planner is asked again, with pins
on a mesh (pp, tp, cp), a number of micro-batches and a mode of recomputation. A search
with pins has few candidates, and judges those that the free search may have left out by
an estimate. The pins are drawn once from all that divide the devices and rows.

Prints the free choice, the best choices with pins, and how much longer they take. A
negative figure is a plan that the free search missed. The folder CONFIGS has
Meta-Llama-3-8B.json and Llama-3.3-70B.json.
"""

import argparse
import concurrent.futures
import itertools
import json
import pathlib
import random
import subprocess

# The options of heddle plan, the number of devices, and the rows of a step.
CASES = {
    "GPT of 1.3B on 8 RTX 3090": (
        ["--layers", "24", "--hidden", "2048", "--heads", "16", "--vocab", "50257",
         "--seq", "1024", "--cluster", "rtx3090:2"], 8, 64),
    "8B on 16 A100": (
        ["Meta-Llama-3-8B.json", "--seq", "4096", "--cluster", "dgx-a100:2"], 16, 64),
    "70B on 64 H100": (
        ["Llama-3.3-70B.json", "--seq", "4096", "--cluster", "dgx-h100:8"], 64, 128),
    "175B on 1,024 A100": (
        ["--layers", "96", "--hidden", "12288", "--heads", "96", "--vocab", "50257",
         "--seq", "2048", "--cluster", "dgx-a100:128"], 1024, 1536),
}


def draw_pins(devices, rows, count):
    """Returns some lists of pins for a number of devices and rows of a step."""
    pins = []
    for pp, tp, cp, micro in itertools.product((1, 2, 4, 8), (1, 2, 4, 8, 16), (1, 2),
                                               (1, 2, 4, 8, 16)):
        dp = devices // (pp * tp * cp)
        if dp * pp * tp * cp != devices or rows % (dp * micro) or micro < pp:
            continue
        for mode in ("none", "optimal", "layer") if pp == 1 else ("none", "layer"):
            pins.append([f"pp={pp}", f"tp={tp}", f"cp={cp}", f"micro-batches={micro}",
                         f"recompute={mode}"])
    random.Random(1).shuffle(pins)
    return pins[:count]


def plan(heddle, options, pins):
    """Returns the seconds and the options of the planner's choice, if any fits."""
    command = [heddle, "plan", *options, "--bf16", "--estimate", "--quiet", "--json"]
    for pin in pins:
        command += ["--pin", pin]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode != 0:
        return None
    choice = json.loads(process.stdout)
    return choice["seconds"], choice["options"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heddle")
    parser.add_argument("configs", type=pathlib.Path)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--show", type=int, default=3, help="choices with pins to print")
    arguments = parser.parse_args()
    for name in arguments.case or CASES:
        words, devices, rows = CASES[name]
        options = [str(arguments.configs / word) if word.endswith(".json") else word
                   for word in words] + ["--batch", str(rows)]
        free = plan(arguments.heddle, options, [])
        if not free:
            raise SystemExit(f"no plan for {name}")
        print(f"{name}: {free[0]:.4f} s, {free[1]}", flush=True)
        pins = draw_pins(devices, rows, arguments.count)
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            found = list(threads.map(lambda p: plan(arguments.heddle, options, p), pins))
        fitting = sorted(choice for choice in found if choice)
        print(f"  {len(pins)} searches with pins, {len(fitting)} of which found a plan")
        for seconds, text in fitting[:arguments.show]:
            print(f"  {100 * (seconds / free[0] - 1):+.2f} %: {text}", flush=True)


main()
