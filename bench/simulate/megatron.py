#!/usr/bin/env python3
"""Compares heddle simulate with published runs of Megatron-LM on A100 servers.

    bench/simulate/megatron.py [--heddle build/bin/heddle] [--only 22B,175B] [--json F]

Simulates the plans of two papers on the preset dgx-a100 and compares the time of a
step with the published one:

- D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
  Clusters Using Megatron-LM", SC 2021, table 1: TFLOP/s of a GPU, with full
  recomputation. The time follows from equation 3 of the paper, which counts the
  recomputed work, too.
- V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
  Models", MLSys 2023, table 5: seconds of a step that recomputes whole layers
  ("full"), and of one with sequence parallelism that recomputes only attention
  ("selective").

Megatron does not hide the collectives of tensor parallelism, so the plans run
without overlap. At that time its attention stored the scores; Heddle's does not. So
"selective" is compared with a plan that computes nothing again, and a second column
adds the time of the scores: the memory traffic of PASSES passes over heads x
sequence x sequence numbers of 2 bytes for each row and layer.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

# A run: name, heads, hidden size, layers, tp, pp, devices, rows of a step, TFLOP/s.
SC21 = [
    ("1.7B", 24, 2304, 24, 1, 1, 32, 512, 137),
    ("3.6B", 32, 3072, 30, 2, 1, 64, 512, 138),
    ("7.5B", 32, 4096, 36, 4, 1, 128, 512, 142),
    ("18.4B", 48, 6144, 40, 8, 1, 256, 1024, 135),
    ("39.1B", 64, 8192, 48, 8, 2, 512, 1536, 138),
    ("76.1B", 80, 10240, 60, 8, 4, 1024, 1792, 140),
    ("145.6B", 96, 12288, 80, 8, 8, 1536, 2304, 148),
]
# A run: name, heads, hidden size, layers, tp, pp, devices, rows of a step, rows of a
# micro-batch, chunks, seconds with full and with selective recomputation.
MLSYS23 = [
    ("22B", 64, 6144, 48, 8, 1, 8, 4, 4, 1, 1.42, 1.10),
    ("175B", 96, 12288, 96, 8, 8, 64, 64, 1, 3, 18.13, 13.75),
]
SEQUENCE, VOCABULARY = 2048, 51200
# The number of times that the scores are read or written in memory. The forward pass
# has 6.5 such passes: the product of queries and keys writes the scores, scale, mask and
# softmax read and write them, dropout reads and writes them and also writes a mask of
# one byte a score, and the product with the values reads them. The recomputed forward
# pass has 6.5, too. The backward pass has 10: it has as many accesses as the forward
# pass, and reads the operands of both products again.
PASSES = 6.5 + 6.5 + 10
MEMORY_RATE = 0.9 * 2039e9


def sc21_seconds(hidden, layers, devices, rows, tflops):
    """Returns the FLOPs of equation 3, divided by the published rate of all devices."""
    flops = (96 * rows * SEQUENCE * layers * hidden ** 2 *
             (1 + SEQUENCE / (6 * hidden) + VOCABULARY / (16 * layers * hidden)))
    return flops / (devices * tflops * 1e12)


def cases():
    for name, heads, hidden, layers, tp, pp, devices, rows, tflops in SC21:
        dp = devices // tp // pp
        # In a pipeline, a micro-batch has one row of each replica. Without a
        # pipeline it has two, which fit into the memory.
        micro = dp * (1 if pp > 1 else 2)
        yield {"name": name + " SC 2021", "heads": heads, "hidden": hidden,
               "layers": layers, "tp": tp, "pp": pp, "dp": dp, "batch": micro,
               "micro": rows // micro, "chunks": 1,
               "options": ["--recompute", "layer"],
               "seconds": sc21_seconds(hidden, layers, devices, rows, tflops)}
    for (name, heads, hidden, layers, tp, pp, devices, rows, batch, chunks, full,
         selective) in MLSYS23:
        for kind, seconds, options in (
                ("full", full, ["--recompute", "layer"]),
                ("selective", selective, ["--recompute", "none", "--sequence"])):
            yield {"name": f"{name} MLSys 2023 {kind}", "heads": heads,
                   "hidden": hidden, "layers": layers, "tp": tp, "pp": pp,
                   "dp": 1, "batch": batch, "micro": rows // batch,
                   "chunks": chunks, "options": options, "seconds": seconds}


def score_seconds(case):
    """Returns the seconds of a step in which a device reads and writes scores."""
    rows = case["batch"] * case["micro"] / case["dp"]
    numbers = (rows * case["heads"] / case["tp"] * SEQUENCE ** 2 *
               case["layers"] / case["pp"])
    return PASSES * 2 * numbers / MEMORY_RATE


def simulate(heddle, case):
    axes = [f"{axis}={case[axis]}" for axis in ("pp", "dp", "tp")
            if case[axis] > 1]
    servers = max(1, case["pp"] * case["dp"] * case["tp"] // 8)
    command = [
        heddle, "simulate", "--layers", str(case["layers"]), "--hidden",
        str(case["hidden"]), "--heads", str(case["heads"]), "--vocab",
        str(VOCABULARY), "--seq", str(SEQUENCE), "--batch", str(case["batch"]),
        "--micro-batches", str(case["micro"]), "--mesh", ",".join(axes),
        "--bf16", "--cluster", f"dgx-a100:{servers}", "--json", *case["options"]]
    if case["pp"] > 1:
        command += ["--pipeline", "interleaved", "--chunks", str(case["chunks"])
                    ] if case["chunks"] > 1 else ["--pipeline", "1f1b"]
    result = subprocess.run(command, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}:\n{result.stderr}")
    return json.loads(result.stdout)["seconds"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--only", default="", help="names of models")
    parser.add_argument("--json")
    options = parser.parse_args()
    results = []
    print(f"{'run':30} {'published':>10} {'simulated':>10} {'error':>8} "
          f"{'with scores':>12} {'error':>8}")
    for case in cases():
        if options.only and case["name"].split()[0] not in options.only.split(","):
            continue
        seconds = simulate(options.heddle, case)
        error = seconds / case["seconds"] - 1
        scored = seconds + score_seconds(case)
        scored_error = scored / case["seconds"] - 1
        results.append({"name": case["name"], "published": case["seconds"],
                        "simulated": seconds, "error": error,
                        "with_scores": scored, "scores_error": scored_error})
        print(f"{case['name']:30} {case['seconds']:8.2f} s {seconds:8.2f} s "
              f"{100 * error:+6.1f} % {scored:10.2f} s {100 * scored_error:+6.1f} %",
              flush=True)
    for key, title in ("error", "simulated"), ("scores_error", "with scores"):
        errors = [abs(result[key]) for result in results]
        print(f"{title}: median error {100 * statistics.median(errors):.1f} %, "
              f"worst {100 * max(errors):.1f} %")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


main()
