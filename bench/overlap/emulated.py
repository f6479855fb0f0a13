#!/usr/bin/env python3
"""Measures how much communication each schedule hides, on emulated links.

    bench/overlap/emulated.py [--heddle build/bin/heddle] [--ratios 0.5,1,2]
                              [--runs 3] [--steps 8] [--folder build/overlap]

Trains a transformer of 12 layers of width 512 with tensor parallelism on two
devices of one core each. The schedule `none` runs the whole batch and recomputes
nothing. It runs first, on links that cost nothing, which measures the time of its
computation. The bandwidth of the links follows from this time: for each ratio, the
communication of `none` takes ratio x its computation. M is the longer of these two
times. Then the machine is profiled, and all schedules take turns on these links.

Columns:
  seconds    the seconds of a step: the median over runs of the median over steps
  of M       seconds / M
  speed-up   seconds of `none` / seconds
  own M      the longer of the computation and the communication of this schedule's
             own program, by the simulator with the profile. It is more than M if
             the program recomputes, or if a part of the batch takes more than its
             share of the whole batch's time
  of it      seconds / own M
  predicted  the seconds of a step that the simulator predicts
The machine should be idle.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys

MODEL = ("--layers 12 --hidden 512 --heads 8 --vocab 256 --batch 12 --seq 64 "
         "--mesh tp=2").split()
SCHEDULES = ["none", "default", "oases", "auto"]
LATENCY = 2e-5
FREE = 1e13  # bytes a second of links that cost nothing


class Bench:
    def __init__(self, options):
        self.options = options
        self.profile = os.path.join(options.folder, "profile.json")
        self.text = os.path.join(options.folder, "text")
        with open(self.text, "w") as file:
            file.write("The quick brown fox jumps over the lazy dog. " * 4000)

    def heddle(self, *arguments):
        result = subprocess.run([self.options.heddle, *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)
        if result.returncode:
            sys.exit(f"heddle {' '.join(arguments)}:\n{result.stderr}")
        return result

    def cluster(self, bandwidth):
        path = os.path.join(self.options.folder, f"links-{bandwidth:.6e}.json")
        with open(path, "w") as file:
            json.dump({
                "version": 1, "name": f"two cores, {bandwidth:.3g} B/s",
                "device": {"kind": "core", "memory": 1 << 34,
                           "memory_bandwidth": 1e10, "launch": 1e-6,
                           "peak": {"f32": 1e11}},
                "levels": [{"name": "wire", "count": 2, "latency": LATENCY,
                            "bandwidth": bandwidth, "links": 1}]}, file)
        return path

    def compile(self, schedule, cluster, *more):
        """Compiles a schedule's program. Returns the path of its files, without the
        ending, and the choice of the schedule `auto` as text."""
        path = os.path.join(self.options.folder, schedule)
        remarks = self.heddle(
            "compile", *MODEL, "--overlap", schedule, "--cluster", cluster,
            "--remarks=1e15", "--stop-after", "executable", "-o",
            path + ".mlir", *more).stderr
        self.heddle("compile", path + ".mlir", "-o", path + ".heddle")
        found = re.search(r"'auto' takes (.*?):", remarks)
        return path, found.group(1) if found else ""

    def simulate(self, path, cluster, *more):
        return json.loads(self.heddle("simulate", path + ".mlir", "--cluster",
                                      cluster, "--json", *more).stdout)

    def train(self, path, cluster):
        """Returns the comparison of a run with its simulation."""
        trace = path + ".trace.json"
        self.heddle("train", path + ".heddle", "--emulate", cluster, "--cores",
                    "1", "--data", self.text, "--steps",
                    str(self.options.steps), "--trace", trace, "--trace-steps",
                    str(self.options.steps - 2), "--eval-windows", "1",
                    "--no-checkpoints", "-o",
                    os.path.join(self.options.folder, "run"))
        return self.simulate(path, cluster, "--compare", trace)


def links_bound(simulation):
    """Returns the lower bound of the busiest link, in seconds."""
    return max(simulation["bounds"]["links"].values())


def head_share(comparison):
    """Returns the share of the head in the time of computation."""
    head = sum(row["measured"] for row in comparison["operators"]
               if "head" in row["name"] or "loss" in row["name"])
    return head / comparison["computing"]["measured"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--ratios", default="0.5,1,2")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--folder", default="build/overlap")
    parser.add_argument("--keep-profile", action="store_true",
                        help="use the profile that the folder has")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.steps < 3:
        parser.error("--steps: expected at least 3")
    os.makedirs(options.folder, exist_ok=True)
    bench = Bench(options)

    free = bench.cluster(FREE)
    none, _ = bench.compile("none", free)
    runs = [bench.train(none, free) for _ in range(options.runs)]
    compute = statistics.median(run["step"]["measured"] for run in runs)
    # The bound of the links counts no latency, so it is inverse to bandwidth.
    slow = 1e7
    at_slow = links_bound(bench.simulate(none, bench.cluster(slow)))
    print(f"computation of none: {compute:.3f} s, of it the head "
          f"{100 * head_share(runs[0]):.1f} %", flush=True)

    if not options.keep_profile:
        for schedule, *more in (
                [["auto", "--sub-batches", parts, "--recompute", "none"]
                 for parts in ("1", "2", "3", "4", "6")] + [["default"], ["oases"]]):
            bench.heddle("profile", *MODEL, "--overlap", schedule, *more,
                         "--cluster", free, "--cores", "1", "--runs", "5", "-o",
                         bench.profile)

    results = []
    profile = ["--profile", bench.profile]
    for ratio in map(float, options.ratios.split(",")):
        bandwidth = at_slow * slow / (ratio * compute)
        cluster = bench.cluster(bandwidth)
        longer = max(1, ratio) * compute
        programs = {schedule: bench.compile(schedule, cluster, *profile)
                    for schedule in SCHEDULES}
        print(f"\nratio {ratio:g}: links of {bandwidth:.3g} B/s, M {longer:.3f} "
              f"s; auto takes {programs['auto'][1]}\n\n"
              f"{'schedule':10} {'seconds':>8} {'of M':>6} {'speed-up':>9} "
              f"{'own M':>7} {'of it':>6} {'predicted':>10}", flush=True)
        measured = {schedule: [] for schedule in SCHEDULES}
        for _ in range(options.runs):
            for schedule, (path, _) in programs.items():
                run = bench.train(path, cluster)
                measured[schedule].append(run["step"]["measured"])
        first = statistics.median(measured["none"])
        for schedule, (path, _) in programs.items():
            seconds = statistics.median(measured[schedule])
            simulated = bench.simulate(path, cluster, *profile)
            own = max(simulated["bounds"]["compute"], links_bound(simulated))
            results.append({"ratio": ratio, "schedule": schedule,
                            "seconds": seconds, "longer": longer, "own": own,
                            "predicted": simulated["seconds"]})
            print(f"{schedule:10} {seconds:8.3f} {seconds / longer:6.3f} "
                  f"{first / seconds:9.2f} {own:7.3f} {seconds / own:6.3f} "
                  f"{simulated['seconds']:10.3f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


main()
