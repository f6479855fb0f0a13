#!/usr/bin/env python3
"""OSDP's case: the optimum of its published profile, found by heddle plan.

    bench/planner/osdp.py profile_8gpu.json [--heddle build/bin/heddle]
                          [--hidden 1536] [--layers 48] [--batch-index 1]
                          [--memory-mb 8192] [--keep FOLDER]
    bench/planner/osdp.py profile_8gpu.json --all

The profile (bench/solver/README.md) has seconds and megabytes of one layer of GPT-2 on
8 GPUs. It has a row for each set of half-layers that keep their parameters sharded.
This script makes a profile of blocks from it. One call of `heddle plan` decides every
layer of the real model under the memory limit. The rest of the model takes 800 MB of
this limit. Beside the answer of `heddle plan`, prints two step times. The first is the
least time, which this script finds by trying all numbers of layers of each choice. It
shares no code with Heddle. The second is the time with everything sharded. --all does so
for every size and batch of the profile, with six limits: one in which nothing fits, and
five from everything sharded to nothing sharded.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

CHOICES = ["none", "attention", "mlp", "attention+mlp"]
HALVES = {"none": [], "attention": ["attn"], "mlp": ["mlp"],
          "attention+mlp": ["attn", "mlp"]}
DEVICES = 8
MEGABYTE = 10**6


def read_layers(path):
    """Returns {(hidden, batch index): {choice: (seconds, bytes)}} and the bytes
    beside the layers."""
    with open(path) as file:
        profile = json.load(file)
    layers = {}
    for row in profile["rows"]:
        key = row["hidden"], row["batch_index"]
        layers.setdefault(key, {})[row["sharded"]] = (
            row["layer_time_s"],
            math.ceil(row["layer_memory_mb"] * MEGABYTE))
    return layers, profile["fixed_overhead_mb"] * MEGABYTE


def blocks_of(layer, beside):
    """Returns the profile of blocks. Each half of a layer keeps its weights, their
    gradients and the optimizer's state either sharded or whole."""
    strategies = []
    for choice in CHOICES:
        seconds, size = layer[choice]
        storage = {}
        for half in HALVES[choice]:
            for variable in ("{block}", "adamw.?.{block}"):
                storage[f"{variable}.{half}.*"] = {"0": ["dp"]}
        strategies.append({"name": choice, "seconds": seconds, "bytes": size,
                           "storage": storage})
    return {"version": 1, "mesh": f"dp={DEVICES}", "bytes": beside,
            "blocks": [{"glob": "h.*", "strategies": strategies}]}


def find_least(layer, layers, limit):
    """Returns the least seconds of `layers` layers within `limit` bytes. Tries all
    numbers of layers of each choice."""
    (t0, m0), (t1, m1), (t2, m2), (t3, m3) = (layer[c] for c in CHOICES)
    best = math.inf
    for a in range(layers + 1):
        for b in range(layers + 1 - a):
            for c in range(layers + 1 - a - b):
                d = layers - a - b - c
                if a * m0 + b * m1 + c * m2 + d * m3 <= limit:
                    best = min(best, a * t0 + b * t1 + c * t2 + d * t3)
    return best


def plan(options, folder, hidden, layer, beside, limit):
    """Calls heddle plan. Returns its answer."""
    profile = os.path.join(folder, "blocks.json")
    with open(profile, "w") as file:
        json.dump(blocks_of(layer, beside), file, indent=1)
    cluster = os.path.join(folder, "cluster.json")
    with open(cluster, "w") as file:  # the seconds come from the profile, not from these rates
        json.dump({"version": 1, "name": "8gpu",
                   "device": {"kind": "gpu", "memory": limit,
                              "memory_bandwidth": 6e11, "launch": 5e-6,
                              "peak": {"f32": 1e13}},
                   "levels": [{"name": "server", "count": DEVICES,
                               "latency": 1e-5, "bandwidth": 1e10,
                               "links": 1}]}, file)
    command = [options.heddle, "plan", "--layers", str(options.layers),
               "--hidden", str(hidden), "--heads", str(hidden // 64), "--vocab",
               "256", "--seq", "8", "--cluster", cluster, "--profile", profile,
               "--quiet", "--json", "-o", os.path.join(folder, "plan.json")]
    if options.show:
        print(" ".join(command))
    result = subprocess.run(command, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if not result.stdout:
        sys.exit(result.stderr)
    return json.loads(result.stdout)


def run(options, folder, key, layer, beside, limit):
    """Prints a row. Returns whether the answer is the optimum."""
    answer = plan(options, folder, key[0], layer, beside, limit)
    room = limit - beside
    least = find_least(layer, options.layers, room)
    seconds, size = layer["attention+mlp"]
    sharded = (options.layers * seconds if options.layers * size <= room
               else math.inf)
    counts = {choice: 0 for choice in CHOICES}
    for block in answer["blocks"] if answer["feasible"] else []:
        counts[block["strategy"]] += 1
    found = answer["seconds"] if answer["feasible"] else math.inf
    # heddle counts in nanoseconds.
    right = found == least or abs(found - least) <= 1e-9 * options.layers
    chosen = ", ".join(str(n) for n in counts.values())
    show = lambda value: "nothing fits" if value == math.inf else f"{value:.4f}"
    gain = f"{sharded / found:.3f}" if found < sharded < math.inf else "-"
    print(f"| {key[0]} | {key[1]} | {limit / MEGABYTE:.0f} | {chosen} | "
          f"{show(found)} | {show(least)} | {show(sharded)} | {gain} | "
          f"{answer['memory']['total'] / MEGABYTE:.0f} | "
          f"{'yes' if right else 'NO'} |", flush=True)
    return right


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--batch-index", type=int, default=1)
    parser.add_argument("--memory-mb", type=int, default=8192)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--show", action="store_true", help="print the command")
    parser.add_argument("--keep", help="a folder for the plan and its profile")
    options = parser.parse_args()
    layers, beside = read_layers(options.profile)
    cases = [((options.hidden, options.batch_index),
              options.memory_mb * MEGABYTE)]
    if options.all:
        cases = []
        for key, layer in layers.items():
            few, many = (options.layers * layer[c][1]
                         for c in ("attention+mlp", "none"))
            for part in (-0.1, 0.0, 0.1, 0.25, 0.5, 1.0):
                cases.append((key, beside + few + int(part * (many - few))))
    print("| hidden | batch index | limit, MB | layers with none, attention, "
          "MLP, both sharded | heddle plan, s | optimum, s | all sharded, s | "
          "gain | MB | optimal |\n|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or scratch
        os.makedirs(folder, exist_ok=True)
        right = [run(options, folder, key, layers[key], beside, limit)
                 for key, limit in cases]
    print(f"{sum(right)} of {len(right)} optimal")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
